// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// heartbeatPrefix is the first part of the name of a session's heartbeat znode. By writing
// to it the session confirms that a majority of the servers keeps it. The znode is an
// ephemeral child of the client's root, named after the session. It exists only while
// something is held under [QuorumErrorPolicy].
const heartbeatPrefix = "_curator_heartbeat_"

// heartbeatMinPause is the pause between a failed heartbeat and the next.
const heartbeatMinPause = 20 * time.Millisecond

// Hold returns a context that ends when, under the policy, all holds on the session must be
// considered lost; its cause is a [*LostError]. The hold lasts until release is called,
// which may be called more than once. The context must not be used after release.
//
// Under [QuorumErrorPolicy] the first hold of a session blocks for a round trip, which ctx
// bounds. The client then writes a heartbeat every quarter of the session timeout, to one
// ephemeral child of its root, for all holds of the session. It deletes the znode in the
// background after the last hold. It needs permission to create children of that root.
//
// The deadline counts from the send time of the newest request that was acknowledged at
// least one tick before an acknowledged heartbeat was sent. Only that request is certain to
// have reached the leader. So the session timeout should be at least four ticks; see
// [WithServerTiming]. With a shorter timeout, holds may end without a fault. A timeout below
// 4/3 ticks cannot be confirmed in time, and Hold returns an error that matches
// [ErrInvalidOption].
//
// Under the other two policies Hold returns [Session.Context]; it does not block, returns
// no error and leaves nothing behind. While the client cuts its connection to move to another
// server, see [WithServerOrder], the context has ended. Any other policy is an error.
func (s *Session) Hold(ctx context.Context, policy ErrorPolicy) (held context.Context, release func(), err error) {
	if err := policy.validate(); err != nil {
		return nil, nil, fmt.Errorf("framework: hold: %w: %w", ErrInvalidOption, err)
	}
	if s == nil {
		return nil, nil, fmt.Errorf("framework: hold: %w: there has been no session yet", ErrNotConnected)
	}
	s.warnOfTiming(policy)
	if policy == StandardErrorPolicy && s.owner.settings().Rank != nil {
		release = sync.OnceFunc(func() { s.standard.Add(-1) })
		if s.standard.Add(1) <= 0 {
			return whileItMoves, release, nil
		}
		return s.Context(policy), release, nil
	}
	if policy != QuorumErrorPolicy {
		return s.Context(policy), func() {}, nil
	}
	if ctx == nil {
		return nil, nil, fmt.Errorf("framework: hold: %w", errNilContext)
	}
	return s.heart.hold(ctx)
}

// moving is part of the number of holds while the client cuts its connection to move.
const moving = math.MinInt64 / 2

// whileItMoves is the context of a hold that begins while the client cuts its connection.
var whileItMoves = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(&LostError{Reason: ReasonSuspended})
	return ctx
}()

// whileFree calls move, which ends all holds under StandardErrorPolicy, if there is none. None begins meanwhile.
func (s *Session) whileFree(move func()) bool {
	if !s.standard.CompareAndSwap(0, moving) {
		return false
	}
	defer s.standard.Add(-moving)
	move()
	return true
}

// HoldDeadline returns the time at which a hold under the policy ends unless a server
// acknowledges more. Under QuorumErrorPolicy it has passed when nothing is held.
func (s *Session) HoldDeadline(policy ErrorPolicy) time.Time {
	if s != nil && policy == QuorumErrorPolicy {
		return s.clock.QuorumDeadline()
	}
	return s.Deadline()
}

// heartbeat confirms a session while something is held on it, by writes to a znode. Every acknowledged write counts.
type heartbeat struct {
	s *Session

	mu    sync.Mutex
	holds int
	run   *heartbeatRun // while holds > 0
}

// heartbeatRun is the time from the first hold to the release of the last.
type heartbeatRun struct {
	h *heartbeat

	ctx   context.Context // ends with the deadline, the session or the last hold
	end   context.CancelCauseFunc
	timer *time.Timer // runs to the deadline
	path  string

	ready chan struct{} // closed when the deadline is known, or err is
	err   error         // why there can be no heartbeat
	first time.Time     // when the first heartbeat since the last failure was written
}

// context returns the context of the current run, or one that has ended.
func (h *heartbeat) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != nil {
		return h.run.ctx
	}
	ctx, end := context.WithCancelCause(h.s.alive)
	end(&LostError{Reason: ReasonLeaseEnd})
	return ctx
}

// look ends the current run if its deadline has passed, which the timer may not have
// noticed yet.
func (h *heartbeat) look() {
	h.mu.Lock()
	t := h.run
	h.mu.Unlock()
	if t != nil && t.isReady() {
		t.watchDeadline()
	}
}

func (h *heartbeat) hold(ctx context.Context) (context.Context, func(), error) {
	if err := h.confirmable(); err != nil {
		return nil, nil, err
	}
	t := h.join()
	release := sync.OnceFunc(func() { h.leave(t) })
	select {
	case <-t.ready:
	case <-t.ctx.Done(): // the caller sees it in the context
	case <-ctx.Done():
		release()
		return nil, nil, fmt.Errorf("framework: hold: %w", interrupted(ctx))
	}
	if t.hasFailed() {
		release()
		return nil, nil, t.err
	}
	return t.ctx, release, nil
}

// confirmable returns an error if no heartbeat can confirm the session before its deadline.
// A heartbeat confirms a request sent at least a tick before and, as heartbeats are a
// quarter of the timeout apart, up to a quarter of the timeout earlier. So a timeout below
// 4/3 ticks has passed by then.
func (h *heartbeat) confirmable() error {
	tick, timeout := h.s.owner.settings().Tick, h.s.Timeout()
	if 3*timeout < 4*tick {
		return fmt.Errorf("%w: a session timeout of %v cannot be confirmed under QuorumErrorPolicy with a tickTime of %v, "+
			"expected a timeout of %v or more, or the tickTime of the servers in WithServerTiming", ErrInvalidOption, timeout, tick, 4*tick)
	}
	return nil
}

// errUnconfirmed ends a first hold whose heartbeats all come too late.
var errUnconfirmed = errors.New("heartbeats do not confirm the session: " +
	"the servers answer too slowly for the session timeout under QuorumErrorPolicy")

// join adds a hold to the current run, or begins one.
func (h *heartbeat) join() *heartbeatRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != nil && h.run.ctx.Err() == nil && !h.run.hasFailed() {
		// One heartbeat confirms the session for all of its holds.
		h.holds++
		return h.run
	}
	t := &heartbeatRun{
		h: h, ready: make(chan struct{}),
		path: fmt.Sprintf("/%s%x_%d", heartbeatPrefix, uint64(h.s.id), h.s.owner.nextHeartbeat()),
	}
	t.ctx, t.end = context.WithCancelCause(h.s.alive)
	t.timer = time.AfterFunc(time.Hour, t.watchDeadline)
	t.timer.Stop() // until there is a deadline
	h.run, h.holds = t, 1
	if !h.s.owner.inBackground(t.run) {
		t.end(&LostError{Reason: ReasonClosed})
	}
	return t
}

// leave takes a hold from the run, which ends with the last.
func (h *heartbeat) leave(t *heartbeatRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != t {
		t.end(context.Canceled) // it was lost or has failed, and another has begun
		return
	}
	// The heartbeat costs a write per quarter of the timeout, so it ends with the last hold.
	if h.holds--; h.holds == 0 {
		h.run = nil
		t.end(context.Canceled)
	}
}

// run writes heartbeats until the run ends, and then deletes the znode.
func (t *heartbeatRun) run() {
	defer t.timer.Stop()
	created, mayStay := false, false
	for t.ctx.Err() == nil {
		err := t.beat(&created)
		mayStay = mayStay || created || OutcomeUnknown(err)
		if t.hopeless(err) {
			// The holders wait for ready, so they get the reason instead of their timeout.
			t.err = err
			close(t.ready)
			break
		}
		if err != nil {
			t.first = time.Time{}
			t.h.s.owner.settings().Logger.Debug("heartbeat not written", "error", err)
		}
		t.pause(err == nil)
	}
	if mayStay { // the deletion of a znode that was refused may be refused for as long as the client lives
		t.h.s.owner.deleteHeartbeat(t.path)
	}
}

// hopeless reports whether a first heartbeat has failed for a reason that stays, for
// instance a missing permission. That another client has deleted the znode does not.
func (t *heartbeatRun) hopeless(err error) bool {
	return err != nil && t.ctx.Err() == nil && !t.isReady() &&
		!Retryable(err) && !errors.Is(err, ErrSessionEnded) && !isReply(err, ErrNoNode)
}

// beat writes one heartbeat. When it confirms the first deadline, it sets the timer to end
// the run there, and lets the waiting holders continue.
func (t *heartbeatRun) beat(created *bool) error {
	err := t.h.s.owner.writeHeartbeat(t.ctx, t.h.s, t.path, *created)
	switch {
	case isReply(err, ErrNodeExists): // an earlier try did it
		*created = true
		return t.beat(created)
	case isReply(err, ErrNoNode) && *created: // another client has deleted it
		*created = false
		return err
	case err != nil:
		return err
	}
	*created = true
	if t.first.IsZero() {
		t.first = time.Now()
	}
	// By now a heartbeat would have confirmed an earlier one, if any of them were in time.
	if !t.isReady() && time.Since(t.first) > 2*t.h.s.Timeout() {
		return errUnconfirmed
	}
	if !t.isReady() && time.Now().Before(t.h.s.clock.QuorumDeadline()) {
		t.watchDeadline()
		close(t.ready)
	}
	return nil
}

// watchDeadline ends the run if its deadline has passed, or sets the timer to the newest
// deadline.
func (t *heartbeatRun) watchDeadline() {
	if left := time.Until(t.h.s.clock.QuorumDeadline()); left > 0 {
		t.timer.Reset(left) // heartbeats have moved it since the timer was set
		return
	}
	t.end(&LostError{Reason: ReasonLeaseEnd})
}

// pause waits until the next heartbeat is due. It is due soon after a failure, and as long
// as no heartbeat has confirmed a deadline.
func (t *heartbeatRun) pause(written bool) {
	wait := t.h.s.Timeout() / 4
	switch {
	case !written:
		wait = min(wait, heartbeatMinPause)
	case !t.isReady():
		wait = min(wait, t.h.s.owner.settings().Tick)
	}
	select {
	case <-time.After(wait):
	case <-t.ctx.Done():
	}
}

func (t *heartbeatRun) isReady() bool { return isClosed(t.ready) }

// hasFailed reports whether there can be no heartbeat. A later hold tries again.
func (t *heartbeatRun) hasFailed() bool { return t.isReady() && t.err != nil }
