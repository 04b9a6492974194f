// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The reply to the create is lost. Curator looks for the node and finds it, unless the
// server that it asks is behind: then it creates another and waits for its own first
// one, which stays, when it has given up, until the session ends.
func TestPeerCuratorLostCreate(t *testing.T) {
	t.Parallel()
	t.Run("the next server knows", func(t *testing.T) {
		t.Parallel()
		eachTrial(t, func(t *testing.T, server *zkserver.Server) {
			peer := newCuratorPeer(t, server, longSession)
			loseCreate(t, server, func() {}, func() {})
			_, acquired := peer.try(t)
			require.True(t, acquired)
			require.Equal(t, 1, server.Stats().Ephemerals)
		})
	})
	t.Run("the next server is behind", func(t *testing.T) {
		t.Parallel()
		eachTrial(t, func(t *testing.T, server *zkserver.Server) {
			peer, rival := newCuratorPeer(t, server, longSession), rivalOf(t, server)
			var thaw func()
			loseCreate(t, server, func() { thaw = server.FreezeReads(0) }, func() { thaw() })
			_, acquired := peer.try(t)
			require.False(t, acquired)
			awaitEphemerals(t, server, 1) // the second one goes
			require.True(t, notAcquired(t, rival))
			require.Equal(t, 1, server.Stats().Ephemerals)
			peer.close(t)
			require.False(t, notAcquired(t, rival))
		})
	})
}

// loseCreate loses the reply to the first creation of a node of the lock, and calls
// the functions when the first and when the second request for it comes.
func loseCreate(t *testing.T, server *zkserver.Server, first, second func()) {
	t.Helper()
	created := 0
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if !isCreate(r) {
			return zkserver.Pass
		}
		switch created++; created {
		case 1:
			first()
			return zkserver.LoseReply
		case 2:
			second()
		}
		return zkserver.Pass
	}))
}

// A node of the session before is still listed. Curator does not take it for its own
// while it creates one; when the session ends between the creation and the list it
// does, and holds without a node beside the next one.
func TestPeerCuratorNodeOfTheOldSession(t *testing.T) {
	t.Parallel()
	t.Run("the reply to the create is lost", func(t *testing.T) {
		t.Parallel()
		eachTrial(t, func(t *testing.T, server *zkserver.Server) {
			peer := newCuratorPeer(t, server, longSession)
			thaw := staleAfterTheSession(t, server, peer.session)
			loseCreate(t, server, func() {}, func() { (<-thaw)() })
			node, acquired := peer.try(t)
			require.True(t, acquired)
			aliveAt(t, server, node)
		})
	})
	t.Run("the list is lost", func(t *testing.T) {
		t.Parallel()
		eachTrial(t, func(t *testing.T, server *zkserver.Server) {
			peer, rival := newCuratorPeer(t, server, longSession), rivalOf(t, server)
			thaw := make(chan func(), 1)
			t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.SessionID != peer.session || r.Path != curatorFolder {
					return zkserver.Pass
				}
				thaw <- server.FreezeReads(0)
				server.KillSession(peer.session)
				return zkserver.LoseRequest
			}))
			_, acquired := peer.try(t)
			require.True(t, acquired)
			peer.do(t, "await-state", framework.Reconnected.String())
			heard := peer.do(t, "states")
			(<-thaw)()
			require.Zero(t, server.Stats().Ephemerals, "it holds without a node")
			require.False(t, notAcquired(t, rival))
			require.Equal(t, heard, peer.do(t, "states"), "it is told nothing of it")
		})
	})
}

// Each request of an acquisition that gives up after a while is lost in turn, or its
// reply. Whether or not that makes it fail, nothing is left.
func TestPeerCuratorLosesARequest(t *testing.T) {
	t.Parallel()
	type cell struct {
		request int
		fault   zkserver.Fault
	}
	cases := make(map[string]cell)
	for k := range 4 { // create, list, watch, delete
		cases[fmt.Sprintf("request %d", k+1)] = cell{k + 1, zkserver.LoseRequest}
		cases[fmt.Sprintf("reply %d", k+1)] = cell{k + 1, zkserver.LoseReply}
	}
	var outcomes tally
	atOnce(t, cases, func(t *testing.T, server *zkserver.Server, c cell) {
		lease, err := rivalOf(t, server).Acquire(zktest.Context(t))
		require.NoError(t, err)
		peer := newCuratorPeer(t, server, longSession)
		count := 0
		reached := make(chan zkserver.OpCode, 1)
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID != peer.session || !strings.HasPrefix(r.Path, curatorFolder) {
				return zkserver.Pass
			}
			if count++; count != c.request {
				return zkserver.Pass
			}
			reached <- r.Op
			return c.fault
		}))
		_, err = peer.Do(zktest.Context(t), "acquire", "m", "500")
		var thrown *interop.JavaError
		switch {
		case errors.As(err, &thrown):
			outcomes.note(thrown.Class)
		case err == nil:
			outcomes.note("not acquired in time")
		default:
			require.NoError(t, err)
		}
		zktest.Await(t, reached, "the request to lose")
		awaitEphemerals(t, server, 1)
		require.NoError(t, lease.Err())
		outcomes.note("nothing is left")
	})
	outcomes.log(t, len(cases))
	require.Equal(t, len(cases), outcomes.of("nothing is left"))
}

// Every list of the folder is lost until the acquisition fails: Curator deletes its
// node once there is a connection again.
func TestPeerCuratorFailsWithoutAConnection(t *testing.T) {
	t.Parallel()
	eachTrial(t, func(t *testing.T, server *zkserver.Server) {
		peer := newCuratorPeer(t, server, longSession)
		peer.do(t, "retries", "1") // for the end to come sooner
		whole := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path == curatorFolder || r.Op == zkserver.OpDelete {
				return zkserver.LoseRequest
			}
			return zkserver.Pass
		})
		peer.throws(t, connectionLoss, "acquire", "m")
		require.Equal(t, 1, server.Stats().Ephemerals)
		whole()
		awaitEphemerals(t, server, 0)
	})
}

// The holder leaves between the list and the watch of one who waits, which enters.
func TestPeerCuratorHolderLeavesBeforeTheWatch(t *testing.T) {
	t.Parallel()
	eachTrial(t, func(t *testing.T, server *zkserver.Server) {
		lease, err := rivalOf(t, server).Acquire(zktest.Context(t))
		require.NoError(t, err)
		waiter := newCuratorPeer(t, server, longSession)
		goOn := make(chan struct{})
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == waiter.session && r.Op == zkserver.OpGetData && r.Path == lease.Path() {
				return zkserver.HoldUntil(goOn)
			}
			return zkserver.Pass
		}))
		turn := waiter.Begin("acquire", "m")
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
			return e.Kind == zkserver.Faulted && e.SessionID == waiter.session
		})
		require.NoError(t, lease.Release(zktest.Context(t)))
		close(goOn)
		hold, err := turn(zktest.Context(t))
		require.NoError(t, err)
		aliveAt(t, server, hold[0])
	})
}

// What happens to one who waits: it gets its turn.
func TestPeerCuratorWaiter(t *testing.T) {
	t.Parallel()
	type trouble func(t *testing.T, server *zkserver.Server, waiter curatorPeer, holder string)
	cases := map[string]trouble{
		"its connection is interrupted": func(_ *testing.T, server *zkserver.Server, waiter curatorPeer, _ string) {
			server.Cut(waiter.session, 1)
		},
		"its session ends": func(t *testing.T, server *zkserver.Server, waiter curatorPeer, _ string) {
			t.Helper()
			// It joins again at once, unless the reply to its read is lost: then it reads again and waits,
			// without a node, until the holder has gone.
			require.True(t, server.KillSession(waiter.session))
		},
		"its node is deleted": func(t *testing.T, server *zkserver.Server, _ curatorPeer, holder string) {
			t.Helper()
			admin := zktest.Client(t, server)
			names, err := admin.Children(zktest.Context(t), curatorFolder)
			require.NoError(t, err)
			for _, name := range names {
				if path := curatorFolder + "/" + name; path != holder {
					require.NoError(t, admin.Delete(zktest.Context(t), path))
				}
			}
		},
	}
	atOnce(t, cases, func(t *testing.T, server *zkserver.Server, begin trouble) {
		rival := rivalOf(t, server)
		lease, err := rival.Acquire(zktest.Context(t))
		require.NoError(t, err)
		waiter := newCuratorPeer(t, server, longSession)
		turn := waiter.Begin("acquire", "m")
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
			return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID == waiter.session
		})
		begin(t, server, waiter, lease.Path())
		require.NoError(t, lease.Release(zktest.Context(t)))
		hold, err := turn(zktest.Context(t))
		require.NoError(t, err)
		aliveAt(t, server, hold[0])
	})
}
