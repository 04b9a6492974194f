// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// latchName is what Curator calls the nodes of a LeaderLatch.
const latchName = "latch-"

// releaseTimeout bounds how long a candidate waits for the server to confirm that
// it has left. After that the deletion goes on in the background.
const releaseTimeout = 10 * time.Second

// cutOffTimeout is the same without a connection. An outage has no known end, and the node is
// deleted in the background.
const cutOffTimeout = 10 * time.Millisecond

// resign releases a leadership, although ctx may have ended.
func resign(ctx context.Context, client *framework.Framework, lease *locks.Lease) error {
	timeout := releaseTimeout
	if !client.State().IsConnected() {
		timeout = cutOffTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return attempt.Guard(client, func() error {
		if errors.Is(lease.Err(), locks.ErrReleased) { // by another goroutine, which the server may not have answered yet
			return attempt.AwaitAbsence(ctx, client, lease.Path())
		}
		return lease.Release(ctx)
	})
}

// LeaderLatch is one candidate of an election. It stands for election from
// [LeaderLatch.Start] to [LeaderLatch.Close]. It does so even before any server can
// be reached, and again after each loss. It shares the election with Curator's class
// of that name.
//
// Layout: <path>/_c_<uuid>-latch-<10 digits>, ephemeral, with the id as data,
// below container nodes. The first in the order of the digits leads. The queue
// is a [locks.LockInternals], and a leadership is a [locks.Lease] of it.
//
// It is safe for concurrent use.
type LeaderLatch struct { //nolint:revive // Curator's name
	*election

	changes *listen.Set[Change]

	// Guarded by mu.
	closeMode CloseMode
	stop      context.CancelCauseFunc // nil before Start
	stopped   chan struct{}           // closed when the candidate has left
	closed    bool
	failure   error         // of the last attempt to join, nil while another is under way
	changed   chan struct{} // closed, and replaced, whenever closed, failure or the leadership changes
}

// Change is the beginning or the end of a leadership of one latch.
type Change struct {
	// Leader says that the latch leads now. Otherwise its leadership has ended.
	Leader bool

	// Term is the fencing token of the leadership that has begun or ended.
	Term int64

	// Err is why it ended: a [*locks.LostError], [locks.ErrReleased] after
	// Resign, or [ErrClosed]. It is nil at the beginning.
	Err error
}

// NewLeaderLatch returns a candidate of the election at path. It checks its
// arguments and sends nothing.
func NewLeaderLatch(client *framework.Framework, path string, opts ...Option) (*LeaderLatch, error) {
	cfg, err := newConfig("leader_latch", opts)
	if err != nil {
		return nil, fmt.Errorf("leader: %s: %w", path, err)
	}
	if cfg.autoRequeue {
		return nil, fmt.Errorf("leader: %s: WithAutoRequeue, expected no such option: a latch always stands again", path)
	}
	// Close promises that the candidate is gone.
	cfg.lock = append([]locks.Option{locks.WithCleanupTimeout(releaseTimeout)}, cfg.lock...)
	e, err := newElection(client, path, latchName, cfg)
	if err != nil {
		return nil, err
	}
	return &LeaderLatch{
		election: e, closeMode: cfg.closeMode, changed: make(chan struct{}),
		changes: listen.New[Change](attempt.LogPanics(client, path, "a leadership listener panicked")),
	}, nil
}

// Start joins the election in the background and returns at once. A latch is
// started once: a second Start, or one after Close, returns an error.
func (l *LeaderLatch) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fmt.Errorf("leader: start %s: %w", l.Path(), ErrClosed)
	case l.stop != nil:
		return fmt.Errorf("leader: start %s: started already", l.Path())
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancelCause(context.Background())
	l.stopped = make(chan struct{})
	go l.stand(ctx)
	return nil
}

// stand joins the election repeatedly, until the latch or the client is closed.
func (l *LeaderLatch) stand(ctx context.Context) {
	defer close(l.stopped)
	loop := attempt.Loop{
		Client: l.client, Path: l.Path(), Warning: "cannot join the election, trying again", Failed: l.noteFailure,
	}
	for {
		var lease *locks.Lease
		err := loop.Do(ctx, func(ctx context.Context) (err error) {
			l.noteFailure(nil)
			lease, err = l.internals.Acquire(ctx)
			return err
		})
		if err != nil {
			l.noteFailure(attempt.Ended(l.client)) // or Close has ended the loop
			return
		}
		l.lead(ctx, lease)
	}
}

// lead keeps a leadership until it ends.
func (l *LeaderLatch) lead(ctx context.Context, lease *locks.Lease) {
	if l.begin(lease) {
		select {
		case <-lease.Done():
		case <-ctx.Done():
		}
		why := lease.Err()
		if why == nil {
			why = context.Cause(ctx)
		}
		// The listeners hear of the end before the node goes, so no later beginning
		// can overtake it.
		l.end(Change{Term: lease.Token(), Err: why})
	}
	err := resign(ctx, l.client, lease)
	if err != nil && !errors.As(err, new(*locks.LostError)) {
		l.client.Logger().Warn("a leader could not leave its election at once", logPath, l.Path(), "error", err)
	}
}

// noteFailure notes why the latch could not join, or that it tries again: a refusal may be over.
func (l *LeaderLatch) noteFailure(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure = err; err != nil {
		l.wakeLocked()
	}
}

// begin notes a leadership and tells the listeners. It does neither, and
// returns false, if the latch was closed while the lease was granted.
func (l *LeaderLatch) begin(lease *locks.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.lease = lease
	l.wakeLocked()
	l.changes.Notify(Change{Leader: true, Term: lease.Token()})
	return true
}

// end notes the end of a leadership and tells the listeners.
func (l *LeaderLatch) end(change Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = nil
	l.wakeLocked()
	if !l.closed || l.closeMode == NotifyLeader {
		l.changes.Notify(change)
	}
}

// wakeLocked wakes those that wait for a change. The caller holds mu.
func (l *LeaderLatch) wakeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Close leaves the election for good. If the latch leads, its leadership ends first,
// and then the next candidate may lead. [WithCloseMode] determines what listeners
// are told. Close waits until the server has confirmed that the candidate is gone,
// for at most ten seconds; then it goes on in the background. Without a connection
// it does not wait. If the server has not answered the creation of the candidate
// yet, Close does not wait. The znode is then deleted in the background, about a
// round trip after the answer. A removal that is not confirmed is logged; the error
// is always nil. A second Close waits for the first and does nothing else.
func (l *LeaderLatch) Close() error {
	l.leave(nil)
	return nil
}

// CloseWith closes the latch as [LeaderLatch.Close] does, with this mode instead of
// the mode of [WithCloseMode].
func (l *LeaderLatch) CloseWith(mode CloseMode) error {
	if err := mode.check(); err != nil {
		return fmt.Errorf("leader: close %s: %w", l.Path(), err)
	}
	l.leave(&mode)
	return nil
}

// leave closes the latch, with another mode if one is given.
func (l *LeaderLatch) leave(mode *CloseMode) {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if mode != nil {
			l.closeMode = *mode
		}
		l.wakeLocked()
	}
	stop, stopped := l.stop, l.stopped
	l.mu.Unlock()
	if stop == nil {
		return // never started, so there is nothing to leave
	}
	stop(ErrClosed)
	<-stopped
}

// Await blocks until this latch leads, and returns the leadership.
// [locks.Lease.Context] ends before another candidate can lead. [locks.Lease.Token]
// is the term. All callers during one leadership get the same lease; releasing it
// resigns.
//
// Await fails when ctx ends, and when the latch is closed or was not started. It
// also fails when the latch cannot join for a reason that does not pass by itself,
// such as a missing permission. The latch goes on trying even then.
func (l *LeaderLatch) Await(ctx context.Context) (*locks.Lease, error) {
	lease, err := l.await(ctx)
	return lease, attempt.Wrapf(err, "leader: await leadership of %s", l.Path())
}

func (l *LeaderLatch) await(ctx context.Context) (*locks.Lease, error) {
	if ctx == nil {
		return nil, attempt.ErrNilContext
	}
	for {
		l.mu.Lock()
		lease, failure, changed := l.lease, l.failure, l.changed
		closed, started := l.closed, l.stop != nil
		l.mu.Unlock()
		switch {
		case ctx.Err() != nil: // first, or a loop around Await would never see the end
			return nil, attempt.InterruptedAfter(ctx, failure)
		case closed:
			return nil, ErrClosed
		case !started:
			return nil, ErrNotStarted
		case lease != nil && lease.Err() == nil:
			return lease, nil
		case failure != nil && !mayPass(failure):
			return nil, failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, attempt.InterruptedAfter(ctx, failure)
		}
	}
}

// Resign ends the leadership of this latch, if it leads, and hands over to the next
// candidate. The latch then stands for election again, as the last candidate in the
// queue. Resign waits until the server has confirmed that the node is gone, or ctx
// ends, or for ten seconds if ctx has no deadline or has ended already. It returns
// nil if the latch does not lead, and a [*locks.LostError] if the leadership is lost
// meanwhile.
func (l *LeaderLatch) Resign(ctx context.Context) error {
	return attempt.Wrapf(l.leadership().Release(ctx), "leader: resign")
}

// OnChange calls fn for each later beginning and end of a leadership of this latch.
// The calls come in order, on a goroutine of their own; see package listen.
// Beginnings and ends alternate. Only the end by a Close that is [Silent] is left
// out. A listener may lag behind: what must not outlive the leadership belongs under
// the lease's context.
func (l *LeaderLatch) OnChange(fn func(Change)) *listen.Registration { return l.changes.Add(fn) }
