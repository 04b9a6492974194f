// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/listen"
)

// tracker turns the conduit's events into connection states and sessions. No other code
// changes either of them.
//
// It declares Lost by the lease clock: a timer runs to the deadline, and when it fires the
// clock decides whether the deadline has moved since. So a client that reaches no server
// still notices the loss in time.
type tracker struct {
	owner     sessionOwner
	log       *slog.Logger
	listeners *listen.Set[ConnectionState]
	clock     *conduit.Conduit

	mu            sync.Mutex
	state         ConnectionState
	everConnected bool
	closed        bool
	session       *Session      // the newest, nil before the first
	readOnly      bool          // session was opened by a read-only server
	refusals      []string      // that were logged since the last connection
	server        string        // of the newest connection, as host:port
	connected     chan struct{} // closed while there is a connection
	timer         *time.Timer   // runs to the deadline of session
}

func newTracker(clock *conduit.Conduit, owner sessionOwner) *tracker {
	log := owner.settings().Logger
	return &tracker{
		owner: owner, log: log, clock: clock, connected: make(chan struct{}),
		listeners: listen.New[ConnectionState](listen.OnPanic(func(recovered any, stack []byte) {
			log.Error("connection state listener panicked", "panic", recovered, "stack", string(stack))
		})),
	}
}

func (t *tracker) onConnected(h conduit.Handshake) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.server, t.refusals = h.Server, nil
	// A session that this client gave up is a new one, even if the server has kept it.
	if h.Fresh || t.session == nil || t.session.Err() != nil {
		t.replaceSession()
		t.session = newSession(h, t.clock, t.owner)
		t.armTimer()
	} else {
		t.session.resume(h.Timeout)
		deadline, _ := t.clock.Deadline()
		t.timer.Reset(time.Until(deadline)) // a shorter timeout moves the deadline back
	}
	close(t.connected)
	t.readOnly = h.ReadOnly
	switch {
	case h.ReadOnly:
		t.enter(ReadOnly)
	case t.everConnected:
		t.enter(Reconnected)
	default:
		t.everConnected = true
		t.enter(Connected)
	}
}

// replaceSession ends the session before another one begins. A session of a read-only
// server has held nothing that could be lost, so it ends without the state Lost.
func (t *tracker) replaceSession() {
	if t.readOnly && t.session.Err() == nil {
		t.session.end(ReasonLeaseEnd)
		t.timer.Stop()
	}
	t.endSession(ReasonLeaseEnd)
}

func (t *tracker) onDisconnected(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holdCalls()
	if t.closed {
		return
	}
	// The contexts end before anything is logged or reported: they stop a holder when
	// another client may hold the lock.
	t.session.suspend()
	if !errors.Is(t.session.Err(), ErrAuthFailed) { // that was told already, and is the end
		t.log.Warn("zookeeper connection suspended", logServer, t.server, logSession, t.session, "error", reason)
	}
	// If the clock has declared the loss before the connection ends, Suspended would take it
	// back.
	if t.state != Lost {
		t.enter(Suspended)
	}
}

// holdCalls makes calls wait for the next connection, or for this one to be revived.
func (t *tracker) holdCalls() {
	select {
	case <-t.connected:
		t.connected = make(chan struct{})
	default: // some wait already, and must be told
	}
}

// onRevived is called when the lease is over and the same connection has opened another.
// The session is replaced, even if the timer has not noticed its end yet.
func (t *tracker) onRevived(h conduit.Handshake) {
	t.mu.Lock()
	t.endSession(ReasonLeaseEnd)
	t.holdCalls()
	t.mu.Unlock()
	t.onConnected(h)
}

func (t *tracker) onExpired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endSession(ReasonSessionExpired)
}

// maxRefusals bounds the refusals that are logged between two connections.
const maxRefusals = 16

// onAuthFailed is called when the client has no access. A client that tries again meets the same
// reasons many times, so each is logged once.
func (t *tracker) onAuthFailed(why error, final bool) {
	text := why.Error()
	t.mu.Lock()
	defer t.mu.Unlock()
	// Servers and tickets may have texts of their own, but not any number of them.
	if !t.closed && !slices.Contains(t.refusals, text) && (final || len(t.refusals) < maxRefusals) {
		t.refusals = append(t.refusals, text)
		t.log.Error("zookeeper authentication failed", "error", why, "final", final)
	}
	if final {
		t.endSession(ReasonAuthFailed)
	}
}

// onResumed is called when the machine was suspended, which stops timers. It checks the
// deadline now.
func (t *tracker) onResumed() {
	t.mu.Lock()
	session := t.session
	t.mu.Unlock()
	if session != nil {
		t.onTimer(session)
		session.heart.look()
	}
}

// onTimer runs at the deadline of session.
func (t *tracker) onTimer(session *Session) {
	deadline, over := t.clock.Deadline()
	if cut := t.checkTimer(session, deadline, over); cut {
		// Another handshake shows whether the session lives, or an acknowledgement on
		// this connection does.
		t.clock.Lapse(session.Err())
	}
}

func (t *tracker) checkTimer(session *Session, deadline time.Time, over bool) (cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != session || session.Err() != nil {
		return false // another session has taken its place since the timer was set
	}
	if !over {
		t.timer.Reset(time.Until(deadline)) // acknowledgements have moved it
		return false
	}
	cut = t.state.IsConnected()
	// Calls wait until a handshake, or an acknowledgement, shows which session they run in.
	t.holdCalls()
	t.endSession(ReasonLeaseEnd)
	return cut
}

// endSession ends the newest session, if it has not ended, and enters Lost.
func (t *tracker) endSession(reason LostReason) {
	if t.session == nil || t.session.Err() != nil {
		return
	}
	t.session.end(reason)
	t.timer.Stop()
	if !t.closed {
		level := slog.LevelWarn
		if reason == ReasonAuthFailed {
			level = slog.LevelInfo // the refusal is told as an error
		}
		t.log.Log(context.Background(), level, "zookeeper session lost", logServer, t.server, logSession, t.session, logReason, string(reason))
		t.enter(Lost)
	}
}

func (t *tracker) armTimer() {
	session := t.session
	deadline, _ := t.clock.Deadline()
	t.timer = time.AfterFunc(time.Until(deadline), func() { t.onTimer(session) })
}

func (t *tracker) enter(s ConnectionState) {
	t.state = s
	t.log.Info("zookeeper connection state", logState, s.String(), logServer, t.server, logSession, t.session)
	t.listeners.Notify(s)
}

// close ends the session for this client before anything is sent, so that its holders
// learn of the end first.
func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// First, so that the end of the session is not reported as a loss.
	t.closed = true
	t.endSession(ReasonClosed)
	t.state = Lost
}

func (t *tracker) current() (ConnectionState, *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.session
}

// connectedTo returns the current state and session with the address of the server, which is empty without a connection.
func (t *tracker) connectedTo() (state ConnectionState, session *Session, server string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.IsConnected() {
		server = t.server
	}
	return t.state, t.session, server
}

func (t *tracker) everHadSession() bool {
	_, session := t.current()
	return session != nil
}

// whenConnected returns a channel that is closed while there is a connection.
func (t *tracker) whenConnected() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.connected
}
