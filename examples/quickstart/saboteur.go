package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// workFunc is the work on one report under a lease of the client's. It stops, with
// the cause, when ctx ends.
type workFunc func(ctx context.Context, client *framework.Framework, lease *locks.Lease, round int) error

// saboteur lets the replicas work, but kills the session of the first one that
// is half through the report of a certain round. It strikes once.
type saboteur struct {
	journal *journal
	round   int
	struck  atomic.Bool
}

// work returns work on a report that takes d, and may be sabotaged.
func (s *saboteur) work(who string, d time.Duration) workFunc {
	return func(ctx context.Context, client *framework.Framework, lease *locks.Lease, round int) error {
		if err := pause(ctx, d/2); err != nil {
			return err
		}
		if round == s.round && s.struck.CompareAndSwap(false, true) {
			s.journal.sayf("", "killing the session of %s, %v, while it works", who, client.Session())
			// The strike itself ends ctx.
			if err := killSession(context.WithoutCancel(ctx), client, lease.Done()); err != nil {
				return fmt.Errorf("kill the session of %s: %w", who, err)
			}
		}
		return pause(ctx, d-d/2)
	}
}

// pause returns nil after d, or earlier the cause with which ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
