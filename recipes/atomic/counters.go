// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

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

// CachedAtomicNumber hands out numbers that no other process gets, from blocks
// that it takes from a counter with one write each. Numbers rise within one
// CachedAtomicNumber, but not across several, and a block that a process has not
// used up is lost with it. Numbers come again if the servers are restored from a
// backup. It is Curator's CachedAtomicLong and CachedAtomicInteger.
//
// It is safe for concurrent use.
type CachedAtomicNumber[T int32 | int64] struct {
	counter *DistributedAtomicNumber[T]
	size    T

	busy chan struct{} // holds a value while a goroutine uses what follows
	next T
	left T
}

// CachedAtomicLong hands out numbers of 64 bits; see [CachedAtomicNumber].
type CachedAtomicLong = CachedAtomicNumber[int64]

// NewCachedAtomicLong returns numbers of counter in blocks of size, which is 1 or more.
func NewCachedAtomicLong(counter *DistributedAtomicLong, size int64) (*CachedAtomicLong, error) {
	return newCached(counter, size)
}

// CachedAtomicInteger hands out numbers of 32 bits; see [CachedAtomicNumber].
type CachedAtomicInteger = CachedAtomicNumber[int32]

// NewCachedAtomicInteger returns numbers of counter in blocks of size, which is 1 or more.
func NewCachedAtomicInteger(counter *DistributedAtomicInteger, size int32) (*CachedAtomicInteger, error) {
	return newCached(counter, size)
}

func newCached[T integer](counter *DistributedAtomicNumber[T], size T) (*CachedAtomicNumber[T], error) {
	switch {
	case counter == nil:
		return nil, errors.New("atomic: cached counter: counter nil, expected one")
	case size < 1:
		return nil, fmt.Errorf("atomic: cached counter: blocks of %d, expected 1 or more", size)
	}
	return &CachedAtomicNumber[T]{counter: counter, size: size, busy: make(chan struct{}, 1)}, nil
}

// Next returns the next number. It sends something only when a block is used
// up; then it blocks until there is another, and fails as Add does.
func (c *CachedAtomicNumber[T]) Next(ctx context.Context) (T, error) {
	if ctx == nil {
		return 0, attempt.Wrapf(attempt.ErrNilContext, "atomic: next")
	}
	// A channel, unlike a mutex, is waited for no longer than the context allows.
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return 0, attempt.Wrapf(attempt.Interrupted(ctx), "atomic: next")
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
