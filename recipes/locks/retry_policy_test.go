// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// panickyClient returns a client whose requests wait for a connection for a second. Once armed
// is set, its retry policy panics when it is next asked.
func panickyClient(t *testing.T, server *zkserver.Server) (client *framework.Framework, armed *atomic.Bool) {
	t.Helper()
	armed = new(atomic.Bool)
	policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
		if armed.CompareAndSwap(true, false) {
			panic("the user's own fault")
		}
		return 100 * time.Millisecond, true
	})
	return zktest.Client(t, server, framework.WithRetryPolicy(policy), framework.WithConnectionTimeout(time.Second)), armed
}

// TestRetryPolicyPanicCostsNoOtherWaiter: two waiters of one client need the list that one
// of them asks for, and the retry policy panics in that request.
func TestRetryPolicyPanicCostsNoOtherWaiter(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		held := acquire(t, newMutex(t, w.holder, "/lock"))
		client, armed := panickyClient(t, w.server)
		first := acquireRecovering(newMutex(t, client, "/lock"))
		second := acquireRecovering(newMutex(t, client, "/lock"))
		time.Sleep(time.Second)

		armed.Store(true)
		allow := w.server.Refuse()
		require.Equal(t, 1, w.server.Cut(client.Session().ID(), 1))
		time.Sleep(5 * time.Second)
		require.False(t, armed.Load(), "it has panicked")
		allow()
		time.Sleep(5 * time.Second)
		var o outcome
		other := second
		select {
		case o = <-first:
		case o = <-second:
			other = first
		}
		require.Error(t, o.err, "one has panicked")
		release(t, held)
		release(t, requireAtOnce(t, other))
	})
}

// TestRetryPolicyPanicEndsNoHold: the policy panics while the hold looks at its node on a
// goroutine of its own. The hold goes on, and looks again.
func TestRetryPolicyPanicEndsNoHold(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		client, armed := panickyClient(t, w.server)
		lease := acquire(t, newMutex(t, client, "/lock", locks.WithErrorPolicy(framework.SessionErrorPolicy)))
		time.Sleep(time.Second)

		armed.Store(true)
		allow := w.server.Refuse()
		require.Equal(t, 1, w.server.Cut(client.Session().ID(), 1))
		time.Sleep(5 * time.Second)
		require.False(t, armed.Load(), "it has panicked")
		allow()
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Err())

		require.NoError(t, w.holder.Delete(zktest.Context(t), lease.Path()))
		awaitDone(t, lease.Done(), "the loss")
		require.Equal(t, framework.ReasonNodeDeleted, must.As[*locks.LostError](t, lease.Release(zktest.Context(t))).Reason)
	})
}

// TestRetryPolicyPanicIsTheErrorOfARelease: ReleaseAll releases on goroutines of its own.
func TestRetryPolicyPanicIsTheErrorOfARelease(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		client, armed := panickyClient(t, w.server)
		lease := acquire(t, newMutex(t, client, "/lock", locks.WithErrorPolicy(framework.SessionErrorPolicy)))
		time.Sleep(time.Second)
		w.server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.LoseRequest))

		armed.Store(true)
		err := locks.ReleaseAll(zktest.Context(t), nil, lease)

		require.False(t, armed.Load(), "it has panicked")
		require.Equal(t, lease.Path(), must.As[*locks.ReleaseError](t, err).Path)
		require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		release(t, acquire(t, newMutex(t, w.holder, "/lock")))
	})
}
