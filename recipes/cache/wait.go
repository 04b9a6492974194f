// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// WaitFor blocks until the predicate returns true. It calls the predicate at once, and again after changes of
// the picture, on the caller's goroutine. It fails with the error and the cause of the context if the context
// ends first. It fails with [ErrClosed] or [framework.ErrClosed] when the cache or the client is closed. An
// expired context does not matter if the predicate is true at once.
func (c *CuratorCache) WaitFor(ctx context.Context, predicate func(*CuratorCache) bool) error {
	switch {
	case ctx == nil:
		return c.failed("wait", attempt.ErrNilContext)
	case predicate == nil:
		return c.failed("wait", fmt.Errorf("%w: predicate nil, expected a function", framework.ErrInvalidOption))
	}
	for {
		changed := c.picture.nextChange() // before the predicate, or a change between the two is missed
		if predicate(c) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c.failed("wait", attempt.Interrupted(ctx))
		case <-c.done:
			return c.failed("wait", c.whyDone())
		}
	}
}

func (c *CuratorCache) whyDone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed // whatever ended first
	}
	return c.err
}

// Fresh blocks until the picture contains every write that was committed before the call. These are the caller's
// own writes, and any write that the caller has learned of. The first Fresh blocks until the picture is full.
// Later writes may be in the picture or not.
//
// Fresh sends a sync, waits for the events before its reply, and for the reads they cause. The
// limit of every sync applies: a leader that is cut off from its followers, and has not noticed,
// may reply without their newest writes.
//
// Fresh fails with the error of [framework.Framework.Sync], with the error and the cause of the context, with
// [ErrNotStarted], and with [ErrClosed] or [framework.ErrClosed]. If the list of a folder is longer than the
// client reads, Fresh fails with [framework.ErrTooLarge] and names the folder, which may have children that are
// not in the picture. The cache goes on, and lists the folder again when it is shorter by a tenth.
func (c *CuratorCache) Fresh(ctx context.Context) error {
	if ctx == nil {
		return c.failed("fresh", attempt.ErrNilContext)
	}
	if err := c.running(); err != nil {
		return c.failed("fresh", err)
	}
	// The server sends events before the replies that follow them. So with the reply to the
	// sync, the client has the events of all that was committed before.
	if err := c.client.Sync(ctx, c.path); err != nil {
		return c.failed("fresh", err)
	}
	if watch := c.inbox.feeder(); watch != nil {
		if err := watch.Flush(ctx); err != nil {
			return c.failed("fresh", err)
		}
	}
	// In the inbox, the message stands behind those events.
	reached := make(chan struct{})
	c.inbox.add(message{reached: reached})
	select {
	case <-reached:
		if folder := c.picture.unlisted.Load(); folder != nil {
			return c.failed("fresh", fmt.Errorf("%w: the list of %s, whose children are left out", framework.ErrTooLarge, *folder))
		}
		return nil
	case <-ctx.Done():
		return c.failed("fresh", attempt.Interrupted(ctx))
	case <-c.done:
		return c.failed("fresh", c.whyDone())
	}
}

func (c *CuratorCache) running() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.stop == nil:
		return ErrNotStarted
	default:
		return nil
	}
}
