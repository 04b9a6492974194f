// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/bodies"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// Proclaim publishes a value of this leader, such as its address or progress. It replaces the
// data of the leader's node, and so the Identity that [LeaderLatch.Leader] and Participants show,
// and [LeaderLatch.Observe] yields the leader again. The value goes with the leadership: it is
// written only under this term, and the next leader begins with its id.
//
// Proclaim blocks for two round trips, and until ctx or the leadership ends. The error matches
// [locks.ErrNotAcquired] if this candidate does not lead, and a [*locks.LostError] if the
// leadership is lost. While another client asks for the leadership ([locks.Lease.Revoked]), the
// node says so, and Proclaim fails with [ErrRevoked]. After an error [framework.OutcomeUnknown]
// reports whether the value may have been written.
func (e *election) Proclaim(ctx context.Context, value []byte) error {
	return attempt.Wrapf(proclaim(ctx, e.client, e.leadership(), value), "leader: proclaim to %s", e.Path())
}

func proclaim(ctx context.Context, client *framework.Framework, lease *locks.Lease, value []byte) error {
	switch {
	case ctx == nil:
		return attempt.ErrNilContext
	case (locks.Participant{Identity: string(value)}).RevocationRequested():
		return fmt.Errorf("value %s, which asks for the leadership to be given up, expected another value", value)
	case lease.Err() != nil:
		return lease.Err()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	unbind := context.AfterFunc(lease.Context(context.Background()), func() { end(lease.Err()) })
	defer unbind()
	path := lease.Path()
	for {
		// On condition of the version, so that a request to resign is not written over, and a late
		// write does not take back a newer value.
		var stat framework.Stat
		before, err := client.Get(ctx, path, framework.StoringStatIn(&stat), framework.Undecompressed())
		before = attempt.Plain(client, path, before) // a client without compression may ask for the leadership
		switch {
		case errors.Is(err, framework.ErrNoNode): // the leadership is over, which the lease is about to learn
			<-ctx.Done()
			return attempt.Interrupted(ctx)
		case err != nil:
			return err
		case (locks.Participant{Identity: string(before)}).RevocationRequested():
			return ErrRevoked
		case bytes.Equal(before, value): // perhaps by a write whose reply was lost
			return nil
		}
		err = client.Set(ctx, path, value, framework.WithVersion(stat.Version), framework.Idempotent())
		if !errors.Is(err, framework.ErrBadVersion) && !errors.Is(err, framework.ErrNoNode) {
			return err
		}
	}
}

// HealthHandler answers every request with this candidate's part in the election as JSON. The role
// is leader or candidate, with status 200, or outage, with status 503 and an error: without a
// connection, a session or a place in the queue the candidate cannot come to lead. A leader may be
// without a connection under [framework.SessionErrorPolicy]; its role is leader while its
// leadership is valid. The handler asks no server.
func (l *LeaderLatch) HealthHandler() http.Handler {
	return bodies.Within(bodies.Unread, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		said := struct {
			Role  string `json:"role"`
			Term  int64  `json:"term,omitempty"`
			Error string `json:"error,omitempty"`
		}{Role: "candidate"}
		status := http.StatusOK
		l.mu.Lock()
		lease, failure := l.lease, l.failure
		switch {
		case l.closed:
			failure = ErrClosed
		case l.stop == nil:
			failure = ErrNotStarted
		}
		l.mu.Unlock()
		if failure == nil {
			failure = l.client.Health().Err
		}
		switch {
		case lease.Err() == nil:
			said.Role, said.Term = "leader", lease.Token()
		case failure != nil:
			said.Role, said.Error, status = "outage", failure.Error(), http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(said) // a client that is gone reads nothing
	}))
}
