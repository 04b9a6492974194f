// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// Session is one session of a client, from its handshake until the client no longer relies
// on it. That moment comes no later than the server can expire the session, and often
// earlier. If the server turns out to have kept a session that the client gave up, the
// client continues with another Session of the same id.
type Session struct {
	id       int64
	password []byte
	clock    leaseClock

	alive    context.Context
	endAlive context.CancelCauseFunc

	unlost context.Context // ends as alive does, but not when the client is closed
	lose   context.CancelCauseFunc

	ended atomic.Pointer[time.Time] // the final deadline, once the session is over

	timeout atomic.Int64           // nanoseconds; a reconnect may negotiate another
	linked  atomic.Pointer[linked] // changed by the tracker only

	heart *heartbeat

	timing *config     // nil in tests
	timed  atomic.Bool // timing does not fit, and the server was asked whether that matters
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
}

// leaseClock knows until when the servers are certain to keep the newest session.
type leaseClock interface {
	// Deadline counts the acknowledgements of the connection's server. It also reports
	// whether the deadline has passed.
	Deadline() (deadline time.Time, over bool)

	// QuorumDeadline counts only what a majority of the servers has committed.
	QuorumDeadline() time.Time
}

func newSession(h conduit.Handshake, clock leaseClock) *Session {
	s := &Session{id: h.SessionID, password: h.Password, clock: clock}
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

// Password returns a copy of the session's secret. Any client that has it can take over or
// close the session.
func (s *Session) Password() []byte { return append([]byte(nil), s.password...) }

// Timeout is the timeout that the server has granted.
func (s *Session) Timeout() time.Duration { return time.Duration(s.timeout.Load()) }

// Deadline is the time until which no server can expire the session, as far as the
// servers' acknowledgements show: the send time of the newest acknowledged request, plus
// the timeout, minus a hundredth of the timeout for clocks that differ. It has a monotonic
// reading and advances with every acknowledgement. When it passes, the session is over for
// this client, and the deadline no longer changes.
func (s *Session) Deadline() time.Time {
	if ended := s.ended.Load(); ended != nil {
		return *ended
	}
	deadline, _ := s.clock.Deadline()
	return deadline
}

// Done is closed when the session is over for this client.
func (s *Session) Done() <-chan struct{} { return s.alive.Done() }

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
	s.linked.Store(&linked{ctx, end})
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

// The servers' timing as ZooKeeper's sample configuration has it.
const (
	defaultTickTime  = 2 * time.Second
	defaultSyncLimit = 5
)

// WithServerTiming sets the tickTime and syncLimit (in ticks) of the servers, which the
// client cannot ask them for. The two determine which session timeouts are safe under
// [StandardErrorPolicy]; the first hold in a shorter one logs a warning, once for each process. They
// also determine what a heartbeat under [QuorumErrorPolicy] confirms: too long a tick costs
// time, too short a tick costs safety. Default: 2 s
// and 5 ticks, as in ZooKeeper's sample configuration.
func WithServerTiming(tickTime time.Duration, syncLimit int) Option {
	return clientOption{"WithServerTiming", func(c *config) error {
		if tickTime < time.Millisecond || syncLimit < 1 {
			return fmt.Errorf("server timing %v and %d ticks, expected 1ms or more and 1 or more", tickTime, syncLimit)
		}
		c.tick, c.syncLimit = tickTime, syncLimit
		return nil
	}}
}

// safeTimeout is the shortest session timeout T with which StandardErrorPolicy is safe
// when a server is cut off from its leader together with its clients.
//
// A follower that is cut off disconnects its clients syncLimit ticks later. The session must
// not have expired by then. The leader last learned of the session from the answer to its
// own ping, at most half a tick before the cut. The client's ping in that answer was sent at
// most T/3 earlier, because go-zookeeper pings that often. So T - T/3 must be more than
// syncLimit + 1/2 ticks, and T more than 1.5 x (syncLimit + 1/2). A leader that is cut off
// from its followers gives up a tick later than a follower does, but a new leader begins
// with T for every session. The other half of a tick is room for delays.
func (c *config) safeTimeout() time.Duration {
	return time.Duration(c.syncLimit+1) * c.tick * 3 / 2
}

// hasWarned is set once this process has warned of its session timeouts.
var hasWarned atomic.Bool

// warnOfTiming logs a warning if the timeout is too short for the policy, at the first hold of a
// session, once for each process. A standalone server cannot be cut off from a leader.
func (s *Session) warnOfTiming(policy ErrorPolicy) {
	if s.timing == nil || hasWarned.Load() {
		return
	}
	granted, expected := s.Timeout(), s.timing.safeTimeout()
	if policy == QuorumErrorPolicy {
		expected = 4 * s.timing.tick
	}
	if policy == SessionErrorPolicy || granted >= expected || s.timed.Swap(true) {
		return
	}
	s.heart.beats.start(func() {
		if !s.heart.beats.hasLeader() || hasWarned.Swap(true) {
			return
		}
		log := s.timing.log.With("timeout", granted, "expected", expected, "policy", policy.String(),
			"remedy", "a longer WithSessionTimeout, or WithServerTiming if the servers' timing is not the usual one")
		if policy == QuorumErrorPolicy {
			log.Warn("The session timeout is short for the error policy. Holds may end although nothing is wrong.")
			return
		}
		log.Warn("The session timeout is short for the error policy. A lock may have two holders while a server is cut off from its leader.")
	})
}

// LostReason is the reason why a session, or a hold on it, was lost. Telemetry uses the
// same values.
type LostReason string

// The reasons. The client reports what it sees first: when a session is killed at the
// server, its ephemeral nodes go first, so a lock's holder may see ReasonNodeDeleted or
// ReasonSuspended before a reconnect brings ReasonSessionExpired.
const (
	// ReasonSuspended: the connection was lost, and the policy is
	// StandardErrorPolicy.
	ReasonSuspended LostReason = "suspended"

	// ReasonLeaseEnd: no server has acknowledged the session for so long that it
	// may have expired.
	ReasonLeaseEnd LostReason = "lease_end"

	// ReasonSessionExpired: a server said that the session has expired.
	ReasonSessionExpired LostReason = "session_expired"

	// ReasonNodeDeleted: the znode that represents the hold is gone.
	ReasonNodeDeleted LostReason = "node_deleted"

	// ReasonAuthFailed: a server has refused a credential, which ends the client. See
	// ErrAuthFailed.
	ReasonAuthFailed LostReason = "auth_failed"

	// ReasonClosed: the client was closed.
	ReasonClosed LostReason = "closed"
)

var lostTexts = map[LostReason]string{
	ReasonSuspended:      "the connection is suspended",
	ReasonLeaseEnd:       "no server has confirmed the session in time",
	ReasonSessionExpired: "the session has expired",
	ReasonNodeDeleted:    "its znode was deleted",
	ReasonAuthFailed:     "a server has refused the client's credential",
	ReasonClosed:         "the client was closed",
}

// LostError is the cause with which a session, and every hold on it, ends against
// its owner's will.
type LostError struct {
	Reason LostReason
}

// Error names the reason.
func (e *LostError) Error() string { return "lost: " + lostTexts[e.Reason] }

// Is matches [ErrSessionExpired] if the session has, or may have, expired, which
// retry.SessionFailed looks for; [ErrAuthFailed] if a credential was refused; and
// [ErrClosed] if the client was closed.
func (e *LostError) Is(target error) bool {
	switch target {
	case ErrSessionExpired:
		return e.Reason == ReasonSessionExpired || e.Reason == ReasonLeaseEnd
	case ErrAuthFailed:
		return e.Reason == ReasonAuthFailed
	case ErrClosed:
		return e.Reason == ReasonClosed
	default:
		return false
	}
}

// History returns the number of the history of the servers that the client reads. Servers that
// come back empty, or from a backup, number their transactions again. So two Stats can be
// compared by Czxid, Mzxid, Pzxid, Version or any other number only within one history, and
// tokens too. Equal numbers of two histories may stand for different data, and a lower number
// may be the newer one. Compare the data then.
//
//	history := client.History()
//	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
//	if client.History() != history {
//		// The read may be of either: read again.
//	}
//	isKnown := stat.Mzxid == known.mzxid
//	if history != known.history {
//		isKnown = bytes.Equal(data, known.data)
//	}
//
// The number is never 0. It rises with every [Session] after the first. Within a session, a
// reconnecting client names the newest transaction that it has seen, and a server that is behind
// refuses the client. But restored servers can get past that transaction: under a leader of their
// own, or by the writes of other clients. So the number also rises when the first reply of a
// connection names a transaction of another leader than before. It rises as well when a server has
// hung up on the client instead of answering its handshake. In most of these cases nothing was lost, which a
// comparison of the data shows.
//
// One case shows no sign. The servers come back within the session timeout, from a backup that has
// the session. Their leader has the same number as before, or there is a single server. And they
// reach the newest transaction that the client has seen before the client tries to reconnect.
//
// The number changes with connections only. Each new connection ends the one-shot watches, and
// brings an [EventResync] to persistent ones. So code that reads again then, and compares by this
// rule, misses nothing.
func (f *Framework) History() int64 { return f.conduit.History() }
