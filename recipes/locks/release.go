// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/contexts"
)

// ReleaseError is the error of every release that has failed. In the error of [Do] it says
// that the lock was acquired and fn has run, so the work of fn need not be repeated. The
// lease has ended in any case. The error matches a [*LostError] when the lease was lost,
// and [framework.ErrCleanupPending] when the client goes on deleting the lock's node in the
// background.
type ReleaseError struct {
	Path string // of the lock's node
	Err  error
}

// Error names the node and what is wrong.
func (e *ReleaseError) Error() string {
	err := e.Err
	var op *framework.OpError
	if errors.As(err, &op) && err == error(op) && op.Path == e.Path { //nolint:errorlint // an error around it is kept
		err = op.Err // the path is named once
	}
	return fmt.Sprintf("locks: release %s: %v", e.Path, err)
}

// Unwrap returns the cause.
func (e *ReleaseError) Unwrap() error { return e.Err }

// Release gives the lease back, and with the last lease of a hold releases the lock. The
// lease's contexts end first, then the node is deleted. Release blocks until the server
// confirms the deletion, ctx ends, or the session ends; without a deadline in ctx it blocks
// for ten seconds at most. If the deletion is not confirmed by then, it goes on in the
// background and the error matches [framework.ErrCleanupPending]. For a lease that was lost
// before, Release returns the loss at once, while the node is deleted in the background.
//
// If ctx has ended already, or is a context of this lease, Release ignores its end and
// blocks for ten seconds at most. So one line is right everywhere:
//
//	defer lease.Release(ctx)
//
// The error is a [*ReleaseError]. It matches a [*LostError] when the lease was lost, or when
// its session ended before the deletion was confirmed: work under the lease may then have
// been done without the lock. Release is idempotent: calls after the first return nil. It is
// safe on a nil lease. With a nil context it returns an error and does not release.
func (l *Lease) Release(ctx context.Context) error {
	if l != nil && ctx != nil && ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return l.release(ctx)
}

// release is Release for callers within the package that give up: if ctx has ended, it does
// not wait.
func (l *Lease) release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if ctx == nil {
		return &ReleaseError{l.Path(), attempt.ErrNilContext}
	}
	if l.released.Swap(true) {
		return nil
	}
	l.cleanup.Stop()
	bound, done := l.hold.boundRelease(ctx)
	defer done()
	err := l.hold.leave(bound)
	l.end()
	if err != nil {
		return &ReleaseError{l.Path(), err}
	}
	return nil
}

// boundRelease returns a context for the requests of a release. It ends with ctx, with the
// loss of the session, and after releaseTimeout if ctx has no deadline.
func (h *hold) boundRelease(ctx context.Context) (context.Context, func()) {
	if ctx.Err() != nil { // the caller does not wait
		return ctx, func() {}
	}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		bound, done := boundBy(ctx, h.l.patience.in(h.session))
		return contexts.WithValues(bound, ctx), done
	}
	base, stopTimer := context.WithDeadline(h.session.LossContext(), deadline)
	bound, done := boundBy(ctx, base)
	return contexts.WithValues(bound, ctx), func() { done(); stopTimer() }
}

// boundBy returns a context that ends with base and with ctx, unless ctx has ended before or ends by the release itself.
func boundBy(ctx, base context.Context) (context.Context, func()) {
	if ctx.Err() != nil || ctx.Done() == nil {
		return base, func() {}
	}
	bound, cancel := context.WithCancelCause(base)
	stopCaller := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrReleased) {
			cancel(cause)
		}
	})
	return bound, func() {
		stopCaller()
		cancel(nil)
	}
}

// afterWork joins the errors of the work under a lock and of its release. A loss that both
// report appears once.
func afterWork(work, release error) error {
	lost, isLost := errors.AsType[*LostError](release)
	told, isTold := errors.AsType[*LostError](work)
	if isLost && isTold && told.Reason == lost.Reason {
		return work
	}
	return joined(work, release)
}

// releasesAtOnce is how many deletions of ReleaseAll are under way at a time.
const releasesAtOnce = 128

// ReleaseAll releases leases, such as the thousands that a process holds when it hands its
// work over. It begins with the last lease, and up to 128 deletions are under way at a time.
// They share writes, and none waits for another.
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
	deadline, bounded := ctx.Deadline()
	if !bounded || ctx.Err() != nil {
		deadline = time.Now().Add(releaseTimeout)
	}
	base, stopTimer := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer stopTimer()
	bound, done := boundBy(ctx, base)
	defer done()
	errs := make([]error, len(leases))
	slots := make(chan struct{}, releasesAtOnce)
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

// allOrNone acquires n leases one after the other. If one fails it gives back those before.
func allOrNone(ctx context.Context, n int, acquire func(i int) (*Lease, error)) (leases []*Lease, err error) {
	defer func() {
		if len(leases) < n { // or user code has panicked
			leases, err = nil, joined(err, giveBack(ctx, leases))
		}
	}()
	for i := range n {
		lease, err := acquire(i)
		if err != nil {
			return leases, err
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// giveBack releases leases in reverse. Its error says that a node may stay.
func giveBack(ctx context.Context, leases []*Lease) error {
	var errs []error
	for _, lease := range slices.Backward(leases) {
		errs = append(errs, unsettled(lease.release(ctx)))
	}
	return joined(errs...)
}
