// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
	"github.com/gocurator/curator/testing/zktest"
)

// How long to wait for what happens on another goroutine, and the pause between two looks.
const soon, often = 30 * time.Second, 5 * time.Millisecond

// errEndedSession is the cause of a context of a session.
var errEndedSession = errors.New("reason")

// heldIn returns a hold of the lease's node in a context that may have ended.
func heldIn(ctx context.Context, lease *Lease) *hold {
	held := lease.hold
	h := &hold{
		l: held.l, session: held.session, parent: ctx, endUse: func() {}, token: held.token, self: held.self,
		node: heldnode.Node{Client: held.l.client, Path: held.node.Path, Czxid: held.node.Czxid},
	}
	h.begin()
	return h
}

// TestHoldThatBeginsAfterTheEndIsAbandoned: the context of the session may end between the
// grant and the hold.
func TestHoldThatBeginsAfterTheEndIsAbandoned(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	mutex := must.Get(NewInterProcessMutex(client, "/lock"))(t)
	lease := must.Get(mutex.Acquire(t.Context()))(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEndedSession)
	late := heldIn(ctx, lease)
	require.Equal(t, errEndedSession, late.Ended())
	require.Eventually(t, func() bool {
		stat, err := client.Exists(t.Context(), lease.Path())
		return err == nil && stat == nil
	}, soon, often, "its node is deleted")
	require.False(t, late.release(), "it is lost")
	require.Error(t, lease.Release(t.Context()), "it has no node any more")
}
