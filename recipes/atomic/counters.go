// SPDX-License-Identifier: Apache-2.0

package atomic

import "github.com/gocurator/curator/framework"

// DistributedAtomicLong is a 64-bit counter that many processes share; see
// [DistributedAtomicNumber] for its methods.
type DistributedAtomicLong = DistributedAtomicNumber[int64]

// NewDistributedAtomicLong returns the counter at path. It checks its arguments
// and sends nothing.
func NewDistributedAtomicLong(client *framework.Framework, path string, opts ...Option) (*DistributedAtomicLong, error) {
	return newNumber[int64](client, path, opts)
}

// DistributedAtomicInteger is a 32-bit counter that many processes share; see
// [DistributedAtomicNumber] for its methods.
type DistributedAtomicInteger = DistributedAtomicNumber[int32]

// NewDistributedAtomicInteger returns the counter at path. It checks its
// arguments and sends nothing.
func NewDistributedAtomicInteger(client *framework.Framework, path string, opts ...Option) (*DistributedAtomicInteger, error) {
	return newNumber[int32](client, path, opts)
}
