package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ReleaseAll releases leases, such as the thousands that a process holds when it hands its
// work over. The deletions share writes: up to [framework.DefaultBulkWindow] of them are under
// way at a time, in reverse order of the leases. The deletion of one does not wait for the
// next.
//
// The contract is of [Lease.Release], for each of the leases; the bound of ten seconds is for
// all of them together. One lease that fails keeps no other from its release. The errors are
// joined, in the order of the releases. A nil lease is ignored. A panic of user code, such as
// the retry policy, is logged and is the error of its lease.
//
// A client that is about to close needs no ReleaseAll: [framework.Framework.Close] ends the
// session, with which the server deletes all nodes in one transaction.
func ReleaseAll(ctx context.Context, leases ...*Lease) error {
	if ctx == nil {
		return fmt.Errorf("locks: release: %w", attempt.ErrNilContext)
	}
	bound, done := boundReleases(ctx)
	defer done()
	errs := make([]error, len(leases))
	slots := make(chan struct{}, framework.DefaultBulkWindow)
	var all sync.WaitGroup
	for i, lease := range slices.Backward(leases) {
		if lease == nil {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[len(errs)-1-i] = lease.releaseApart(bound)
		})
	}
	all.Wait()
	return joined(errs...)
}

// releaseApart is release on a goroutine of this package, which a panic must not end.
func (l *Lease) releaseApart(ctx context.Context) error {
	err := attempt.Guard(l.hold.l.client, func() error { return l.release(ctx) })
	if _, panicked := errors.AsType[*attempt.PanicError](err); panicked {
		return &ReleaseError{l.Path(), err}
	}
	return err
}

// boundReleases returns a context for several releases. It ends with ctx, unless ctx has
// ended before or ends by one of the releases.
func boundReleases(ctx context.Context) (context.Context, func()) {
	bound, stopTimer := context.WithDeadline(context.WithoutCancel(ctx), releaseDeadline(ctx))
	if ctx.Err() != nil || ctx.Done() == nil {
		return bound, stopTimer
	}
	bound, cancel := context.WithCancelCause(bound)
	stopCaller := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrReleased) {
			cancel(cause)
		}
	})
	return bound, func() {
		stopCaller()
		cancel(nil)
		stopTimer()
	}
}
