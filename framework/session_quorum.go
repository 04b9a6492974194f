package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
)

// HeartbeatPrefix begins the name of the one znode with which a session confirms,
// by writing to it, that a majority of the servers keeps it: an ephemeral child of the
// client's root, named for the session, there only while something is held under
// [QuorumErrorPolicy].
const HeartbeatPrefix = "_curator_heartbeat_"

// heartbeatMinPause is between a heartbeat that has failed and the next.
const heartbeatMinPause = 20 * time.Millisecond

// Hold returns a context that ends when, by the policy, whatever is held on the
// session must be taken to be lost; its cause is a [*LostError]. The hold lasts until
// release is called, which may be done more than once; the context is not for use
// after it.
//
// Under [QuorumErrorPolicy] the first hold of a session blocks for a round trip, which
// ctx bounds, and then a heartbeat is written every quarter of the session timeout, to
// one znode for all holds of the session (see [HeartbeatPrefix]). The deadline counts
// from the sending of the newest request on the same connection that was acknowledged
// a tick before a heartbeat was sent that is acknowledged, too: only of that has the
// leader certainly heard. So the
// session timeout should be four ticks at least, see [WithServerTiming]; with less, holds
// may end although nothing is wrong, and with less than 4/3 ticks, which nothing can
// confirm in time, Hold returns an error that matches [ErrInvalidOption]. With the last hold the znode is deleted, in the
// background. The client needs the permission to create children of its root.
//
// Under the other two policies Hold is [Session.Context], blocks on nothing, returns no
// error and leaves nothing. A policy that is none of the three is an error.
func (s *Session) Hold(ctx context.Context, policy ErrorPolicy) (held context.Context, release func(), err error) {
	if err := policy.validate(); err != nil {
		return nil, nil, fmt.Errorf("framework: hold: %w: %w", ErrInvalidOption, err)
	}
	if s == nil {
		return nil, nil, fmt.Errorf("framework: hold: %w: there has been no session yet", ErrNotConnected)
	}
	if policy != QuorumErrorPolicy {
		return s.Context(policy), func() {}, nil
	}
	if ctx == nil {
		return nil, nil, fmt.Errorf("framework: hold: %w", errNilContext)
	}
	return s.heart.hold(ctx)
}

// HoldDeadline is the time at which a hold under the policy ends if no server is
// heard from again. Under QuorumErrorPolicy it has passed when nothing is held.
func (s *Session) HoldDeadline(policy ErrorPolicy) time.Time {
	if policy == QuorumErrorPolicy {
		return s.clock.QuorumDeadline()
	}
	return s.Deadline()
}

// heartbeat confirms a session while something is held on it.
type heartbeat struct {
	f *Framework
	s *Session

	mu    sync.Mutex
	holds int
	count int
	term  *term // while holds > 0
}

// term is the time from the first hold to the release of the last.
type term struct {
	f *Framework
	s *Session

	ctx   context.Context // ends with the deadline, the session or the last hold
	end   context.CancelCauseFunc
	timer *time.Timer // runs to the deadline
	path  string

	ready chan struct{} // closed when the deadline is known, or err is
	err   error         // why there can be no heartbeat
	first time.Time     // of the heartbeats written since one has failed
}

// goHeartbeat starts a goroutine that Close waits for, or returns false after Close.
func (f *Framework) goHeartbeat(run func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed.Load() { // set under mu, before Close waits
		return false
	}
	f.heartbeats.Go(run)
	return true
}

func newHeartbeat(f *Framework, s *Session) *heartbeat { return &heartbeat{f: f, s: s} }

// context returns that of the current term, or one that has ended.
func (h *heartbeat) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != nil {
		return h.term.ctx
	}
	ctx, end := context.WithCancelCause(h.s.alive)
	end(&LostError{Reason: ReasonLeaseEnd})
	return ctx
}

// look ends the current term if its deadline has passed, which a timer may not know yet.
func (h *heartbeat) look() {
	h.mu.Lock()
	t := h.term
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
		if t.err != nil {
			release()
			return nil, nil, t.err
		}
		return t.ctx, release, nil
	case <-t.ctx.Done(): // for the caller to see
		return t.ctx, release, nil
	case <-ctx.Done():
		release()
		return nil, nil, fmt.Errorf("framework: hold: %w", interrupted(ctx))
	}
}

// confirmable returns an error if no heartbeat can confirm the session before its deadline.
// What a heartbeat confirms was sent a tick before at least, and as heartbeats are a
// quarter of the timeout apart, up to a quarter more. So a timeout below 4/3 ticks is
// over by then.
func (h *heartbeat) confirmable() error {
	tick, timeout := h.f.cfg.tick, h.s.Timeout()
	if 3*timeout < 4*tick {
		return fmt.Errorf("%w: a session timeout of %v cannot be confirmed under QuorumErrorPolicy with a tickTime of %v, "+
			"expected a timeout of %v or more, or the tickTime of the servers in WithServerTiming", ErrInvalidOption, timeout, tick, 4*tick)
	}
	return nil
}

// errUnconfirmed ends a first hold whose heartbeats are all written too late.
var errUnconfirmed = errors.New("heartbeats are written and confirm nothing: " +
	"the servers answer too slowly for the session timeout under QuorumErrorPolicy")

// join adds a hold to the current term, or begins one.
func (h *heartbeat) join() *term {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != nil && h.term.ctx.Err() == nil {
		h.holds++
		return h.term
	}
	h.count++
	t := &term{
		f: h.f, s: h.s, ready: make(chan struct{}),
		path: fmt.Sprintf("/%s%x_%d", HeartbeatPrefix, uint64(h.s.id), h.count),
	}
	t.ctx, t.end = context.WithCancelCause(h.s.alive)
	t.timer = time.AfterFunc(time.Hour, t.watchDeadline)
	t.timer.Stop() // until there is a deadline
	h.term, h.holds = t, 1
	if !h.f.goHeartbeat(t.run) {
		t.end(&LostError{Reason: ReasonClosed})
	}
	return t
}

// leave takes a hold from the term, which ends with the last.
func (h *heartbeat) leave(t *term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != t {
		return // it was lost, and another has begun
	}
	if h.holds--; h.holds == 0 {
		h.term = nil
		t.end(context.Canceled)
	}
}

// run writes heartbeats until the term ends, and takes the znode away.
func (t *term) run() {
	defer t.timer.Stop()
	created := false
	for t.ctx.Err() == nil {
		err := t.beat(&created)
		if t.hopeless(err) {
			t.err = err
			close(t.ready)
			break
		}
		if err != nil {
			t.first = time.Time{}
			t.f.cfg.log.Debug("heartbeat not written", "error", err)
		}
		t.pause(err == nil)
	}
	// Refused when the client is closed: then the session takes it along.
	_ = t.f.Delete(context.WithoutCancel(t.ctx), t.path, InBackground())
}

// hopeless tells whether a first heartbeat has failed for a reason that stays, the
// lack of a permission for instance.
func (t *term) hopeless(err error) bool {
	return err != nil && t.ctx.Err() == nil && !t.isReady() &&
		!Retryable(err) && !errors.Is(err, ErrSessionEnded)
}

// beat writes one heartbeat. When the deadline is known for the first time, it is
// set to end the term, and the holders go on.
func (t *term) beat(created *bool) error {
	c := t.request(*created)
	err := t.f.exchange(t.ctx, c)
	switch {
	case isReply(err, ErrNodeExists): // an earlier try did it
		*created = true
		return t.beat(created)
	case isReply(err, ErrNoNode) && *created: // somebody has deleted it
		*created = false
		return err
	case isReply(err, ErrNoNode): // a hold may be the first thing below a chroot
		root, _ := SplitPath(t.f.cfg.root.below(t.path))
		p := parents{f: t.f.base, mode: Persistent}
		if err := p.create(t.ctx, root); err != nil {
			return err
		}
		return t.beat(created)
	case err != nil:
		return err
	}
	*created = true
	if t.first.IsZero() {
		t.first = time.Now()
	}
	if !t.isReady() && time.Since(t.first) > 2*t.s.Timeout() {
		return errUnconfirmed
	}
	if !t.isReady() && time.Now().Before(t.s.clock.QuorumDeadline()) {
		t.watchDeadline()
		close(t.ready)
	}
	return nil
}

func (t *term) request(created bool) *call {
	full := t.f.cfg.root.below(t.path)
	c := &call{path: t.path, common: common{session: t.s}, confirm: true}
	if created {
		e := wire.NewEncoder(len(full) + 12)
		e.String(full)
		e.Buffer(nil)
		e.Int32(-1) // whatever its version
		c.operation, c.body = opSet, e.Bytes()
		return c
	}
	cfg := createConfig{mode: Ephemeral, acl: zk.WorldACL(zk.PermAll)}
	c.operation, c.body = cfg.mode.operation(), encodeCreate(full, nil, &cfg)
	return c
}

// watchDeadline ends the term at the deadline, wherever that has moved to by then.
func (t *term) watchDeadline() {
	if left := time.Until(t.s.clock.QuorumDeadline()); left > 0 {
		t.timer.Reset(left)
		return
	}
	t.end(&LostError{Reason: ReasonLeaseEnd})
}

// pause waits for the time of the next heartbeat: soon after a failure, and when
// the next may confirm what this one could not.
func (t *term) pause(written bool) {
	wait := t.s.Timeout() / 4
	switch {
	case !written:
		wait = min(wait, heartbeatMinPause)
	case !t.isReady():
		wait = min(wait, t.f.cfg.tick)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

func (t *term) isReady() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}
