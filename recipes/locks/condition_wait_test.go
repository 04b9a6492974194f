// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// holdLook has the server hold the next read of a waiter's node, and all after it, until
// release is called. reached gets the path of the node.
func holdLook(t *testing.T, server *zkserver.Server) (reached <-chan string, release func()) {
	t.Helper()
	path, open := make(chan string, 1), make(chan struct{})
	var held atomic.Bool
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetData && strings.HasPrefix(r.Path, conditionPath+"/") && held.CompareAndSwap(false, true) {
			path <- r.Path
			return zkserver.HoldUntil(open)
		}
		return zkserver.Pass
	}))
	return path, func() { close(open) }
}

// TestConditionSignalThatComesDuringALook: after an interruption a waiter sets its watch again, and
// the signal comes when it has read some of the folder.
func TestConditionSignalThatComesDuringALook(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		waits, signals := partyOf(t, w.waiter), partyOf(t, w.holder)
		result := waits.awaitLater(t, zktest.Context(t), 1)
		time.Sleep(time.Second)
		reached, release := holdLook(t, w.server)
		require.Equal(t, 1, w.server.Cut(w.waiter.Session().ID(), 1))
		<-reached
		signals.signal(t)
		release()
		requireSignalled(t, result)
	})
}

// TestConditionWaiterWithoutANodeTakesNoSignalAway: its node is deleted before its first look, and
// the number of signals stays a number.
func TestConditionWaiterWithoutANodeTakesNoSignalAway(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		waits, signals := partyOf(t, w.waiter), partyOf(t, w.holder)
		reached, release := holdLook(t, w.server)
		result := make(chan outcome, 1)
		waits.awaitInto(zktest.Context(t), acquire(t, waits.mutex), result)
		require.NoError(t, w.holder.Delete(t.Context(), <-reached))
		release()
		requireSignalled(t, result) // it may have been signalled
		next := waits.awaitLater(t, zktest.Context(t), 1)
		signals.signal(t)
		requireSignalled(t, next)
	})
}

// TestConditionWaitOutlastsAnOutage that lasts longer than a verb repeats its request.
func TestConditionWaitOutlastsAnOutage(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		impatient := zktest.Client(t, w.server,
			framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(100*time.Millisecond))
		waits, signals := partyOf(t, impatient), partyOf(t, w.holder)
		result := waits.awaitLater(t, zktest.Context(t), 1)
		time.Sleep(time.Second)
		require.NoError(t, w.server.Stop())
		time.Sleep(2 * time.Second)
		require.Empty(t, result)
		require.NoError(t, w.server.Restart())
		require.NoError(t, w.holder.BlockUntilConnected(zktest.Context(t)))
		require.NoError(t, w.waiter.BlockUntilConnected(zktest.Context(t)))
		signals.signal(t)
		requireSignalled(t, result)
	})
}
