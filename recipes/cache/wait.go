package cache

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// WaitFor blocks until the predicate returns true. It is asked at once, and again after
// changes of the picture, on the goroutine of the caller. WaitFor fails with the cause of the
// context when that ends first, and with [ErrClosed] or [framework.ErrClosed] when the cache
// or the client is closed.
func (c *CuratorCache) WaitFor(ctx context.Context, predicate func(*CuratorCache) bool) error {
	switch {
	case ctx == nil:
		return c.failed("wait", errNilContext)
	case predicate == nil:
		return c.failed("wait", fmt.Errorf("%w: predicate nil, expected a function", framework.ErrInvalidOption))
	}
	for {
		changed := c.nextChange() // before the predicate, so that no change is between
		if predicate(c) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c.failed("wait", context.Cause(ctx))
		case <-c.done:
			return c.failed("wait", c.whyDone())
		}
	}
}

func (c *CuratorCache) nextChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func (c *CuratorCache) whyDone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return c.err
}

// Fresh blocks until the picture contains everything that was committed before the call: the
// caller's own writes, and those it was told about. For the first time this takes until the
// picture is full. What was committed later may be in the picture or not.
//
// It costs a sync, and waits for the events that came before its answer and for the reads
// that they have caused. As with any sync, a leader that has lost its followers and does not
// know it yet may answer without what the others have committed meanwhile.
//
// Fresh fails with the error of the sync, see [framework.Framework.Sync], with the cause of
// the context, with [ErrNotStarted], and with [ErrClosed] or [framework.ErrClosed].
func (c *CuratorCache) Fresh(ctx context.Context) error {
	if ctx == nil {
		return c.failed("fresh", errNilContext)
	}
	if err := c.running(); err != nil {
		return c.failed("fresh", err)
	}
	if err := c.client.Sync(ctx, c.path); err != nil {
		return c.failed("fresh", err)
	}
	if watch := c.inbox.current(); watch != nil {
		if err := watch.Flush(ctx); err != nil {
			return c.failed("fresh", err)
		}
	}
	reached := make(chan struct{})
	c.inbox.add(message{reached: reached})
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return c.failed("fresh", context.Cause(ctx))
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
