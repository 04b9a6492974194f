// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// CachedAtomicLong hands out numbers that no other process gets, from blocks
// that it takes from a counter with one write each. Numbers rise within one
// CachedAtomicLong, but not across several, and a block that a process has not
// used up is lost with it. Numbers come again if the servers are restored from a
// backup. It is Curator's class of that name.
//
// It is safe for concurrent use.
type CachedAtomicLong struct{ cached[int64] }

// NewCachedAtomicLong returns numbers of counter in blocks of size, which is 1 or more.
func NewCachedAtomicLong(counter *DistributedAtomicLong, size int64) (*CachedAtomicLong, error) {
	if counter == nil || size < 1 {
		return nil, badBlock(counter == nil, size)
	}
	return &CachedAtomicLong{cached[int64]{counter: counter.number, size: size, turn: make(chan struct{}, 1)}}, nil
}

// CachedAtomicInteger is a [CachedAtomicLong] of a 32-bit counter.
type CachedAtomicInteger struct{ cached[int32] }

// NewCachedAtomicInteger returns numbers of counter in blocks of size, which is 1 or more.
func NewCachedAtomicInteger(counter *DistributedAtomicInteger, size int32) (*CachedAtomicInteger, error) {
	if counter == nil || size < 1 {
		return nil, badBlock(counter == nil, int64(size))
	}
	return &CachedAtomicInteger{cached[int32]{counter: counter.number, size: size, turn: make(chan struct{}, 1)}}, nil
}

func badBlock(noCounter bool, size int64) error {
	if noCounter {
		return errors.New("atomic: cached counter: counter nil, expected one")
	}
	return fmt.Errorf("atomic: cached counter: blocks of %d, expected 1 or more", size)
}

type cached[T integer] struct {
	counter *number[T]
	size    T

	turn chan struct{} // holds a value while a goroutine uses what follows
	next T
	left T
}

// Next returns the next number. It sends something only when a block is used
// up; then it blocks until there is another, and fails as Add does.
func (c *cached[T]) Next(ctx context.Context) (T, error) {
	if ctx == nil {
		return 0, wrap("next", attempt.ErrNilContext)
	}
	// A channel, unlike a mutex, is waited for no longer than the context allows.
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return 0, wrap("next", attempt.Interrupted(ctx))
	}
	if c.left == 0 {
		block, err := c.counter.Add(ctx, c.size)
		if err != nil {
			return 0, err
		}
		c.next, c.left = block.Pre, c.size
	}
	c.next++
	c.left--
	return c.next, nil
}
