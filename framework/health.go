package framework

import (
	"encoding/json"
	"net/http"
	"time"
)

// Health is what a client knows of itself at one moment.
type Health struct {
	State ConnectionState

	// Session is the newest session, nil before the first.
	Session *Session

	// Err is nil when requests can be sent and the session lives. Otherwise it says why not:
	// [ErrNotStarted], [ErrNotConnected] with the reason of the newest attempt to
	// connect, a [*LostError], [ErrAuthFailed] or [ErrClosed].
	Err error

	// PendingCleanups counts the deletions that go on in the background (see
	// [ErrCleanupPending]), and OldestCleanup is the age of the oldest of them.
	PendingCleanups int
	OldestCleanup   time.Duration
}

// Health tells at once how the client is. It asks no server.
func (f *Framework) Health() Health {
	state, session := f.tracker.current()
	h := Health{State: state, Session: session, Err: f.usable()}
	h.PendingCleanups, h.OldestCleanup = f.janitor.unfinished()
	switch {
	case h.Err != nil:
	case !state.IsConnected():
		h.Err = f.unreachable(ErrNotConnected)
	case session.Err() != nil:
		h.Err = session.Err()
	}
	return h
}

// MarshalJSON writes state, session, the seconds for which the session is certain to
// live, which are negative when it may have ended, the error, if there is one, and, while
// deletions go on in the background, their number and the age of the oldest in seconds.
func (h Health) MarshalJSON() ([]byte, error) {
	said := struct {
		State   string  `json:"state"`
		Session string  `json:"session"`
		Seconds float64 `json:"sessionSecondsLeft"`
		Error   string  `json:"error,omitempty"`
		Pending int     `json:"cleanupsPending,omitempty"`
		Oldest  float64 `json:"oldestCleanupSeconds,omitempty"`
	}{State: h.State.String(), Session: h.Session.String(), Pending: h.PendingCleanups, Oldest: h.OldestCleanup.Seconds()}
	if h.Session != nil {
		said.Seconds = time.Until(h.Session.Deadline()).Seconds()
	}
	if h.Err != nil {
		said.Error = h.Err.Error()
	}
	return json.Marshal(said)
}

// HealthHandler answers every request with the client's [Health] as JSON: with status
// 200 when there is no error, and 503 otherwise. It is made for the readiness
// probes of an orchestrator, and never for its liveness probes: in an outage of ZooKeeper
// these would restart every replica, which helps nothing. The answer names servers, but no secret.
func (f *Framework) HealthHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := f.Health()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if h.Err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// Whoever has asked is gone if this fails.
		_ = json.NewEncoder(w).Encode(h)
	})
}
