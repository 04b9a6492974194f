// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gocurator/curator/internal/bodies"
)

// Health is a snapshot of a client's condition.
type Health struct {
	State ConnectionState

	// Server is the address of the connected server, as host:port, and empty without a connection.
	Server string

	// Session is the newest session, nil before the first.
	Session *Session

	// Err is nil when requests can be sent and the session lives. Otherwise it is
	// [ErrNotStarted], [ErrNotConnected] with the failure of the newest attempt to
	// connect, a [*LostError], [ErrAuthFailed] or [ErrClosed].
	Err error

	// Identities are the identities of the connection, in no particular order, if it was made
	// [WithSASL] and the server has named them; see [Framework.WhoAmI]. They are known a moment
	// after the connection is made, and nil without one.
	Identities []Identity

	// PendingCleanups is the number of deletions that go on in the background (see
	// [ErrCleanupPending]), and OldestCleanup the age of the oldest. Both are 0 once the
	// client has ended.
	PendingCleanups int
	OldestCleanup   time.Duration

	// Sizes warn before a znode, a folder or a transaction is too large.
	Sizes Sizes
}

// Health returns the client's condition at once. It asks no server.
func (f *Framework) Health() Health {
	state, session, server := f.tracker.connectedTo()
	h := Health{State: state, Server: server, Session: session, Err: f.usable(), Identities: session.identities()}
	h.PendingCleanups, h.OldestCleanup = f.janitor.Unfinished()
	h.Sizes = f.sizes.snapshot(f.cfg.MaxRequest)
	switch {
	case h.Err != nil:
	case !state.IsConnected():
		// Before the session: while there is no connection, its failure is the reason.
		h.Err = f.unreachable(ErrNotConnected)
	case session.Err() != nil:
		h.Err = session.Err()
	}
	return h
}

// Done returns a channel that is closed when the client has ended for good: it was closed, or the
// servers refuse its credentials. Health().Err is the reason then.
func (f *Framework) Done() <-chan struct{} { return f.ctx.Done() }

// MarshalJSON encodes the state, the address of the connected server, if any, the session, and the seconds for which the session is certain
// to live, which are negative once it may have ended. It also encodes the identities, if they
// are known, and the error, if any. While deletions go on in the background, it adds their
// number and the age of the oldest in seconds. Once a request or a reply was near the limit, it adds how many were, and
// the largest of both in bytes.
func (h Health) MarshalJSON() ([]byte, error) {
	said := struct {
		State   string   `json:"state"`
		Server  string   `json:"server,omitempty"`
		Session string   `json:"session"`
		Seconds float64  `json:"sessionSecondsLeft"`
		Who     []string `json:"identities,omitempty"`
		Error   string   `json:"error,omitempty"`
		Pending int      `json:"cleanupsPending,omitempty"`
		Oldest  float64  `json:"oldestCleanupSeconds,omitempty"`
		Near    int64    `json:"sizeWarnings,omitempty"`
		Request int      `json:"largestRequest,omitempty"`
		Reply   int      `json:"largestReply,omitempty"`
	}{State: h.State.String(), Server: h.Server, Session: h.Session.String(), Pending: h.PendingCleanups, Oldest: h.OldestCleanup.Seconds()}
	for _, identity := range h.Identities {
		said.Who = append(said.Who, identity.String())
	}
	if h.Session != nil {
		said.Seconds = time.Until(h.Session.Deadline()).Seconds()
	}
	if said.Near = h.Sizes.Warnings; said.Near > 0 {
		said.Request, said.Reply = h.Sizes.Request, h.Sizes.Reply
	}
	if h.Err != nil {
		said.Error = h.Err.Error()
	}
	return json.Marshal(said)
}

// HealthHandler answers every request with the client's [Health] as JSON, with status 200 when
// there is no error and 503 otherwise. Use it for the readiness probes of an orchestrator, and
// never for its liveness probes. A liveness probe would restart every replica during an outage
// of ZooKeeper. The answer names servers, but has no secrets.
func (f *Framework) HealthHandler() http.Handler {
	return bodies.Within(bodies.Unread, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := f.Health()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if h.Err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// It fails only when the client of this request is gone.
		_ = json.NewEncoder(w).Encode(h)
	}))
}
