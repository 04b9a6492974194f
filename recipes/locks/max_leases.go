// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// MaxLeases is the number of leases that a semaphore has. It may change while leases are
// held and waited for: a greater number lets more acquisitions in at once, a smaller one
// takes no lease away, and 0 pauses the semaphore. All participants must use the same
// source.
//
// A number that is read from ZooKeeper must be read with the client of the semaphore. An
// acquisition counts the leases over the same connection, and so never by a number that is
// older than what it counts.
//
// It is safe for concurrent use.
type MaxLeases interface {
	// MaxLeases returns the number and a channel that is closed when the number may have
	// changed, or nil if it never changes. A number of 0 or less lets no acquisition in
	// until it changes. The resources of the channel are freed when ctx ends.
	MaxLeases(ctx context.Context) (n int, changed <-chan struct{}, err error)
}

// FixedLeases is a number of leases that does not change, 1 or more.
type FixedLeases int

// MaxLeases returns the number.
func (n FixedLeases) MaxLeases(context.Context) (int, <-chan struct{}, error) {
	return int(n), nil, nil
}

// SharedLeases is a number of leases in a znode, where every participant sees it change.
// Curator's SharedCount has the same format: four bytes, big-endian, signed. A fixed number
// costs no request. A shared number is read once before an acquisition begins, once for
// each lease, and whenever it changes.
type SharedLeases struct {
	client *framework.Framework
	path   string
	seed   []byte
}

// NewSharedLeases returns the number at path, for semaphores of the same client. If the
// znode is missing when it is first read, it is created with the number seed, 0 or more.
// NewSharedLeases checks its arguments and sends nothing.
func NewSharedLeases(client *framework.Framework, path string, seed int) (*SharedLeases, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	data, err := encodeCount(seed)
	if err != nil {
		return nil, fmt.Errorf("locks: shared leases %s: seed %w", path, err)
	}
	return &SharedLeases{client, path, data}, nil
}

// isOf reports whether the number is read in the sessions of this client.
func (s *SharedLeases) isOf(client *framework.Framework) bool {
	return s != nil && s.client.WithoutNamespace() == client.WithoutNamespace()
}

// MaxLeases reads the number and watches it.
func (s *SharedLeases) MaxLeases(ctx context.Context) (int, <-chan struct{}, error) {
	for {
		var watch *framework.Watch
		data, err := s.client.Get(ctx, s.path, framework.Watched(&watch))
		if errors.Is(err, framework.ErrNoNode) {
			_, err = s.client.Create(ctx, s.path, s.seed, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
			if err == nil || errors.Is(err, framework.ErrNodeExists) {
				continue // read it again, with a watch
			}
		}
		if err != nil {
			return 0, nil, fmt.Errorf("locks: shared leases: %w", err)
		}
		if len(data) != 4 {
			watch.Cancel()
			return 0, nil, fmt.Errorf("locks: shared leases %s: %d bytes, expected 4", s.path, len(data))
		}
		context.AfterFunc(ctx, watch.Cancel)
		return int(int32(binary.BigEndian.Uint32(data))), watch.Fired(), nil
	}
}

// Set changes the number for all participants, whatever it was. 0 pauses the
// semaphore: holders keep their leases, no acquisition is let in, waiters keep their
// places, and a later Set lets them in.
func (s *SharedLeases) Set(ctx context.Context, n int) error {
	data, err := encodeCount(n)
	if err != nil {
		return fmt.Errorf("locks: shared leases %s: %w", s.path, err)
	}
	for {
		err = s.client.Set(ctx, s.path, data)
		if errors.Is(err, framework.ErrNoNode) {
			_, err = s.client.Create(ctx, s.path, data, framework.CreatingParentContainersIfNeeded())
		}
		if errors.Is(err, framework.ErrNodeExists) {
			continue // another client has created it since, perhaps with another number
		}
		if err != nil {
			return fmt.Errorf("locks: shared leases: %w", err)
		}
		return nil
	}
}

func encodeCount(n int) ([]byte, error) {
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%d, expected 0 to %d", n, math.MaxInt32)
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
}

// maximum is the number of leases, as one acquisition knows it.
type maximum struct {
	n       int // 0 or more
	known   bool
	changed <-chan struct{}
}

// read reads the number, unless it is known and has not changed. It returns an error if the
// acquisition wants more.
func (m *maximum) read(ctx context.Context, source MaxLeases, wants int) error {
	select {
	case <-m.changed:
		m.known = false
	default:
	}
	if m.known {
		return nil
	}
	n, changed, err := source.MaxLeases(ctx)
	if err != nil {
		return err
	}
	m.n, m.known, m.changed = max(n, 0), true, changed
	if m.n != 0 && wants > m.n { // a paused semaphore may have enough leases later
		return fmt.Errorf("%w: %d are wanted, the maximum is %d", ErrTooManyLeases, wants, m.n)
	}
	return nil
}
