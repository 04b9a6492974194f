// SPDX-License-Identifier: Apache-2.0

package atomic

import "github.com/gocurator/curator/framework"

// DistributedAtomicLong is a 64-bit counter that many processes share. It
// shares its znode with Curator's class of that name.
//
// Layout: a persistent znode at path, below container nodes, whose data is the
// number as eight bytes, big-endian. No znode, and no data, is 0.
//
// It is safe for concurrent use. Goroutines combine their additions best when
// they share one DistributedAtomicLong.
type DistributedAtomicLong struct{ *number[int64] }

// NewDistributedAtomicLong returns the counter at path. It checks its arguments
// and sends nothing.
func NewDistributedAtomicLong(client *framework.Framework, path string, opts ...Option) (*DistributedAtomicLong, error) {
	number, err := newNumber[int64](client, path, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedAtomicLong{number}, nil
}

// DistributedAtomicInteger is a 32-bit counter that many processes share. It
// shares its znode with Curator's class of that name.
//
// Layout: as of a [DistributedAtomicLong], with four bytes.
type DistributedAtomicInteger struct{ *number[int32] }

// NewDistributedAtomicInteger returns the counter at path. It checks its
// arguments and sends nothing.
func NewDistributedAtomicInteger(client *framework.Framework, path string, opts ...Option) (*DistributedAtomicInteger, error) {
	number, err := newNumber[int32](client, path, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedAtomicInteger{number}, nil
}
