// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// zkTroubles end a hold without asking the holder.
var zkTroubles = []struct {
	name  string
	begin func(t *testing.T, server *zkserver.Server, holder *zkPeer) (end func())
	told  bool // the holder's client is told, before the rival enters, that the connection is lost
}{
	{
		"the network is silent",
		func(_ *testing.T, server *zkserver.Server, holder *zkPeer) func() {
			return server.Blackhole(holder.SessionID(), zkserver.Both)
		},
		true,
	},
	{
		"requests are lost",
		func(_ *testing.T, server *zkserver.Server, holder *zkPeer) func() {
			return server.Blackhole(holder.SessionID(), zkserver.ToServer)
		},
		true,
	},
	{
		"its server has lost the leader",
		func(_ *testing.T, server *zkserver.Server, holder *zkPeer) func() {
			return server.CutOff(holder.SessionID())
		},
		false,
	},
	{
		"its node is deleted",
		func(t *testing.T, server *zkserver.Server, _ *zkPeer) func() {
			t.Helper()
			admin := newZKPeer(t, server)
			require.NoError(t, admin.Delete(zkFolder+"/"+holderOf(t, admin), -1))
			return func() {}
		},
		false,
	},
}

// holderOf is the name of the oldest node in the folder.
func holderOf(t *testing.T, p *zkPeer) string {
	t.Helper()
	return slices.MinFunc(p.children(t), func(a, b string) int {
		x, y := stat(t, p, a), stat(t, p, b)
		return int(x.Czxid - y.Czxid)
	})
}

func stat(t *testing.T, p *zkPeer, name string) *zk.Stat {
	t.Helper()
	exists, stat, err := p.Exists(zkFolder + "/" + name)
	require.NoError(t, err)
	require.True(t, exists)
	return stat
}

// A lock has no way to tell its holder anything, and takes itself to be held when the
// rival enters. What the client has been told until then depends on the trouble: of a
// lost connection, where the client can notice it, but never that the session has
// expired.
func TestPeerZKLockHolderIsCutOff(t *testing.T) {
	for _, trouble := range zkTroubles {
		t.Run(trouble.name, func(t *testing.T) {
			var outcomes tally
			zkTrials(t, func(t *testing.T, server *zkserver.Server, trial int) {
				holder, rival := newZKPeer(t, server), newZKPeer(t, server)
				lock := holder.holding(t)
				entry := lockLater(rival.newLock())
				awaitWatch(t, server, rival.SessionID())
				time.Sleep(time.Duration(trial) * 500 * time.Millisecond) // another phase of the pings
				holder.forget()
				end := trouble.begin(t, server, holder)
				defer end()

				require.NoError(t, zktest.Await(t, entry, "the rival's turn"))
				heard := holder.states()
				if errors.Is(lock.Lock(), zk.ErrDeadlock) {
					outcomes.note("the lock takes itself to be held")
				}
				if len(heard) == 0 {
					outcomes.note("the client has heard nothing")
				}
				if slices.Contains(heard, zk.StateDisconnected) {
					outcomes.note("the client has heard of a lost connection")
				}
				if slices.Contains(heard, zk.StateExpired) {
					outcomes.note("the client has heard of the end of its session")
				}
			})
			outcomes.log(t, peerTrials)
			silent, disconnected := peerTrials, 0
			if trouble.told {
				silent, disconnected = 0, peerTrials
			}
			require.Equal(t, peerTrials, outcomes.of("the lock takes itself to be held"))
			require.Equal(t, silent, outcomes.of("the client has heard nothing"))
			require.Equal(t, disconnected, outcomes.of("the client has heard of a lost connection"))
			require.Zero(t, outcomes.of("the client has heard of the end of its session"))
		})
	}
}

// After a loss the lock can neither be released nor be acquired again.
func TestPeerZKLockIsOfNoUseAfterALoss(t *testing.T) {
	zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
		holder := newZKPeer(t, server)
		lock := holder.holding(t)
		old := holder.SessionID()
		require.True(t, server.KillSession(old))
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
			return e.Kind == zkserver.SessionOpened && e.SessionID != old
		})
		for range 2 {
			require.ErrorIs(t, lock.Unlock(), zk.ErrNoNode)
			require.ErrorIs(t, lock.Lock(), zk.ErrDeadlock)
		}
	})
}

// What Unlock does when the lock is not held, is held by another, or when the request
// or the reply is lost.
func TestPeerZKLockUnlock(t *testing.T) {
	zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
		peer := newZKPeer(t, server)
		lock := peer.holding(t)
		require.ErrorIs(t, peer.newLock().Unlock(), zk.ErrNotLocked, "of somebody else's")
		require.NoError(t, lock.Unlock())
		require.ErrorIs(t, lock.Unlock(), zk.ErrNotLocked, "a second time")

		require.NoError(t, lock.Lock())
		loseOnce(t, server, zkserver.OpDelete, zkserver.LoseRequest)
		require.ErrorIs(t, lock.Unlock(), zk.ErrConnectionClosed)
		require.NoError(t, lock.Unlock(), "a second time, which is up to the caller")

		require.NoError(t, lock.Lock())
		loseOnce(t, server, zkserver.OpDelete, zkserver.LoseReply)
		require.ErrorIs(t, lock.Unlock(), zk.ErrConnectionClosed)
		require.Empty(t, peer.children(t), "the node is gone")
		for range 2 {
			require.ErrorIs(t, lock.Unlock(), zk.ErrNoNode, "again and again")
			require.ErrorIs(t, lock.Lock(), zk.ErrDeadlock, "it cannot be used any more")
		}
	})
}

// loseOnce gives the next request of a type that comes a fault.
func loseOnce(t *testing.T, server *zkserver.Server, op zkserver.OpCode, fault zkserver.Fault) {
	t.Helper()
	t.Cleanup(server.Intercept(zkserver.Nth(1, op, fault)))
}
