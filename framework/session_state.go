package framework

import (
	"log/slog"
	"sync"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/listen"
)

// ConnectionState is the state of a client's connection and session, with
// Curator's names.
type ConnectionState int

const (
	// NotConnected is the state before the first connection. Listeners are never
	// told of it.
	NotConnected ConnectionState = iota

	// Connected is the first connection of this client.
	Connected

	// Suspended means that the connection is lost. The session may live on at the server, and
	// everything that is ephemeral with it.
	Suspended

	// Reconnected means that a connection is there again after Suspended or Lost. Watches
	// set before are gone; no event does not mean no change.
	Reconnected

	// Lost means that the session has ended, or it has gone unconfirmed for so long that it
	// may have. Ephemeral nodes and locks must be taken to be gone. The client
	// goes on connecting and will open another session.
	Lost

	// ReadOnly means that there is a connection to a server that has no quorum: reads
	// are answered, with what it knew last, and writes fail with [ErrNotReadOnly]. A
	// client enters it only [WithReadOnly].
	ReadOnly
)

// String returns Curator's name of the state.
func (s ConnectionState) String() string {
	switch s {
	case NotConnected:
		return "NOT_CONNECTED"
	case Connected:
		return "CONNECTED"
	case Suspended:
		return "SUSPENDED"
	case Reconnected:
		return "RECONNECTED"
	case Lost:
		return "LOST"
	case ReadOnly:
		return "READ_ONLY"
	default:
		return "UNKNOWN"
	}
}

// IsConnected tells whether requests can be sent in this state.
func (s ConnectionState) IsConnected() bool {
	return s == Connected || s == Reconnected || s == ReadOnly
}

// tracker turns the conduit's events into connection states and sessions. It is
// the one place where either changes.
//
// It declares Lost by the lease clock: a timer runs to the deadline, and when it
// fires the clock decides whether the deadline has moved meanwhile. So a client
// that can reach no server learns of the loss in time.
type tracker struct {
	client    *Framework
	log       *slog.Logger
	listeners *listen.Set[ConnectionState]
	clock     connectionClock

	mu            sync.Mutex
	state         ConnectionState
	everConnected bool
	closed        bool
	session       *Session      // the newest, nil before the first
	readOnly      bool          // it is that of a read-only server
	server        string        // of the newest connection, as host:port
	connected     chan struct{} // closed while there is a connection
	timer         *time.Timer   // runs to the deadline of session
}

// connectionClock is the lease clock of a connection, and can end that.
type connectionClock interface {
	leaseClock

	// Lapse cuts the connection, since the lease is over, unless replies keep coming.
	Lapse(why error)
}

func newTracker(f *Framework, clock connectionClock) *tracker {
	log := f.cfg.log
	return &tracker{
		client: f, log: log, listeners: newStateListeners(log), clock: clock, connected: make(chan struct{}),
	}
}

func (t *tracker) onConnected(h conduit.Handshake) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.server = h.Server
	if h.Fresh || t.session == nil || t.session.Err() != nil {
		t.replaceSession()
		t.session = newSession(h, t.clock)
		t.session.heart = newHeartbeat(t.client, t.session)
		t.armTimer()
	} else {
		t.session.resume(h.Timeout)
		t.resetTimer() // the deadline is an earlier one if the timeout is shorter
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
		t.client.warnOfTiming(h.Timeout)
		t.enter(Connected)
	}
}

// replaceSession ends the session that another one takes the place of. That of a
// read-only server has held nothing that could be lost, so it ends without Lost.
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
	// The contexts end before anything else is told: they are what keeps a holder from
	// going on when another client may hold the lock.
	t.session.suspend()
	t.log.Warn("zookeeper connection suspended", logServer, t.server, logSession, t.session, "error", reason)
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

// onRevived hears that the lease is over and the connection has opened another. So the
// session is replaced, even if the timer of the lease has yet to find out.
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

func (t *tracker) onAuthFailed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endSession(ReasonAuthFailed)
}

// onResumed hears that the machine was suspended, which stops timers: the deadline is
// looked at now.
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
		// Another handshake tells whether the session lives, or an acknowledgement on
		// this connection.
		t.clock.Lapse(session.Err())
	}
}

func (t *tracker) checkTimer(session *Session, deadline time.Time, over bool) (cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != session || session.Err() != nil {
		return false
	}
	if !over {
		t.timer.Reset(time.Until(deadline))
		return false
	}
	cut = t.state.IsConnected()
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
		t.log.Warn("zookeeper session lost", logServer, t.server, logSession, t.session, logReason, string(reason))
		t.enter(Lost)
	}
}

func (t *tracker) armTimer() {
	session := t.session
	deadline, _ := t.clock.Deadline()
	t.timer = time.AfterFunc(time.Until(deadline), func() { t.onTimer(session) })
}

func (t *tracker) resetTimer() {
	deadline, _ := t.clock.Deadline()
	t.timer.Reset(time.Until(deadline))
}

func (t *tracker) enter(s ConnectionState) {
	t.state = s
	t.log.Info("zookeeper connection state", logState, s.String(), logServer, t.server, logSession, t.session)
	t.listeners.Notify(s)
}

// close ends the session for this client before anything is sent: whoever holds
// something on it is told first.
func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.endSession(ReasonClosed)
	t.state = Lost
}

func (t *tracker) current() (ConnectionState, *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.session
}

// everHadSession reports whether there has been a connection.
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
