// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/secrets"
)

// Session is one session of a client, from its handshake until the client no longer relies
// on it. That moment comes no later than the server can expire the session, and often
// earlier. If the server turns out to have kept a session that the client gave up, the
// client continues with another Session of the same id.
//
// The nil Session, before the first connection, is one that has ended: all methods may be
// called on it.
type Session struct {
	id       int64
	password secrets.Secret
	clock    *conduit.Conduit // knows until when servers keep the newest session

	alive    context.Context
	endAlive context.CancelCauseFunc

	unlost context.Context // ends as alive does, but not when the client is closed
	lose   context.CancelCauseFunc

	ended atomic.Pointer[time.Time] // the final deadline, once the session is over

	timeout atomic.Int64           // nanoseconds; a reconnect may negotiate another
	linked  atomic.Pointer[linked] // changed by the tracker only

	heart heartbeat

	standard atomic.Int64 // holds under StandardErrorPolicy, of a client that may move

	owner sessionOwner
	timed atomic.Bool // the timeout does not fit, and the server was asked whether that matters
}

// sessionOwner is what a session needs of its client.
type sessionOwner interface {
	settings() *config

	// inBackground starts a goroutine that ends with the client, or returns false after its end.
	inBackground(run func()) bool

	// nextHeartbeat numbers the heartbeats' znodes of all sessions: a late deletion must not find one of the next session.
	nextHeartbeat() int64
	writeHeartbeat(ctx context.Context, s *Session, path string, created bool) error
	deleteHeartbeat(path string)

	// hasLeader asks the server whether there are others, from which it can be cut off.
	hasLeader() bool
}

// beforeAnySession is the context of a hold before there is a session.
var beforeAnySession = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(ErrNotConnected)
	return ctx
}()

// linked is the part of a session between two losses of the connection.
type linked struct {
	ctx context.Context
	end context.CancelCauseFunc

	identities atomic.Pointer[[]Identity] // of the connection, if they are known
}

func newSession(h conduit.Handshake, clock *conduit.Conduit, owner sessionOwner) *Session {
	s := &Session{id: h.SessionID, password: h.Password, clock: clock, owner: owner}
	s.heart.s = s
	s.alive, s.endAlive = context.WithCancelCause(context.Background())
	s.unlost, s.lose = context.WithCancelCause(context.Background())
	s.resume(h.Timeout)
	return s
}

// ID is the session's id at the server, the ephemeralOwner of its ephemeral nodes.
func (s *Session) ID() int64 {
	if s == nil {
		return 0
	}
	return s.id
}

// Password returns a copy of the session's secret. Whoever has it can end the session, see [EndSession].
func (s *Session) Password() []byte {
	if s == nil {
		return nil
	}
	return slices.Clone(s.password())
}

// Timeout is the timeout that the server has granted.
func (s *Session) Timeout() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(s.timeout.Load())
}

// Deadline is the time until which no server can expire the session, as far as the
// servers' acknowledgements show. It is the send time of the newest acknowledged request,
// plus the timeout, minus a hundredth of the timeout for clocks that differ. It has a
// monotonic reading and advances with every acknowledgement. When it passes, the session
// is over for this client, and the deadline no longer changes. A server of an ensemble that is cut off
// or dies may have acknowledged what its leader has not heard of; see [SessionErrorPolicy].
func (s *Session) Deadline() time.Time {
	if s == nil {
		return time.Time{}
	}
	if ended := s.ended.Load(); ended != nil {
		return *ended
	}
	deadline, _ := s.clock.Deadline()
	return deadline
}

// Done is closed when the session is over for this client.
func (s *Session) Done() <-chan struct{} { return s.Context(SessionErrorPolicy).Done() }

// Err returns nil while the session lives, then a [*LostError] with the reason of its end.
func (s *Session) Err() error {
	if s == nil {
		return ErrNotConnected
	}
	return context.Cause(s.alive)
}

// over returns nil while the session lives, and for a nil session, which means any.
func (s *Session) over() error {
	if s == nil || s.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSessionEnded, s.Err())
}

// Context returns a context that ends when, under the policy, all holds on the session must
// be considered lost. Its cause is a [*LostError].
//
// Under StandardErrorPolicy the context has ended already while the connection is lost.
// Under QuorumErrorPolicy it has ended already while nothing is held: use [Session.Hold].
// The context of the nil Session, before the first connection, has ended with the cause
// [ErrNotConnected].
func (s *Session) Context(policy ErrorPolicy) context.Context {
	if s == nil {
		return beforeAnySession
	}
	switch policy {
	case SessionErrorPolicy:
		return s.alive
	case QuorumErrorPolicy:
		return s.heart.context()
	default:
		return s.linked.Load().ctx
	}
}

// LossContext returns a context that ends when the session is lost, with a [*LostError] as
// its cause. Close does not end it: use it for cleanup requests that Close must wait for.
// The context of the nil Session has ended.
func (s *Session) LossContext() context.Context {
	if s == nil {
		return beforeAnySession
	}
	return s.unlost
}

// String returns the id as ZooKeeper's logs show it, and never the password.
func (s *Session) String() string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("0x%x", uint64(s.id))
}

// Format writes String for every verb, so that no log shows the password.
func (s *Session) Format(f fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(f, s.String())
}

// LogValue returns String for log/slog.
func (s *Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s *Session) resume(timeout time.Duration) {
	s.timeout.Store(int64(timeout))
	ctx, end := context.WithCancelCause(s.alive)
	s.linked.Store(&linked{ctx: ctx, end: end})
}

// identities returns the identities of the connection, nil if they are not known, or there is no connection.
func (s *Session) identities() []Identity {
	if s == nil {
		return nil
	}
	l := s.linked.Load()
	if found := l.identities.Load(); found != nil && l.ctx.Err() == nil {
		return slices.Clone(*found)
	}
	return nil
}

func (s *Session) suspend() { s.linked.Load().end(&LostError{Reason: ReasonSuspended}) }

func (s *Session) end(reason LostReason) {
	ended, _ := s.clock.Deadline()
	// The deadline of a session that is over must have passed.
	if now := time.Now(); now.Before(ended) {
		ended = now
	}
	// Before the contexts end, so that the code they wake reads the final deadline.
	s.ended.Store(&ended)
	s.endAlive(&LostError{Reason: reason})
	if reason != ReasonClosed {
		s.lose(&LostError{Reason: reason})
	}
}

// hasWarned is set once this process has warned of its session timeouts.
var hasWarned atomic.Bool

// warnOfTiming logs a warning if the timeout is too short for the policy, at the first hold of a
// session, once for each process. A standalone server cannot be cut off from a leader.
func (s *Session) warnOfTiming(policy ErrorPolicy) {
	if hasWarned.Load() {
		return
	}
	granted, expected := s.Timeout(), s.owner.settings().safeTimeout()
	if policy == QuorumErrorPolicy {
		expected = 4 * s.owner.settings().Tick
	}
	if policy == SessionErrorPolicy || granted >= expected || s.timed.Swap(true) {
		return
	}
	s.owner.inBackground(func() {
		if !s.owner.hasLeader() || hasWarned.Swap(true) {
			return
		}
		log := s.owner.settings().Logger.With("timeout", granted, "expected", expected, "policy", policy.String(),
			"remedy", "a longer WithSessionTimeout, or WithServerTiming if the servers' timing is not the usual one")
		if policy == QuorumErrorPolicy {
			log.Warn("The session timeout is short for the error policy. Holds may end while all servers are healthy.")
			return
		}
		log.Warn("The session timeout is short for the error policy. A lock may have two holders while a server is cut off from its leader.")
	})
}
