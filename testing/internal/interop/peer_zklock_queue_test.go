// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// isLockNode tells whether a request is about a node of the lock, and not the folder.
func isLockNode(r zkserver.Request) bool { return strings.HasPrefix(r.Path, zkFolder+"/") }

// withFolder makes the folder of the lock.
func withFolder(t *testing.T, server *zkserver.Server) *zkPeer {
	t.Helper()
	admin := newZKPeer(t, server)
	_, err := admin.Create(zkFolder, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	return admin
}

// The reply to the create is lost. The client looks for the node and finds it, unless
// the server that it asks is behind: then it creates another, and waits for its own
// first one.
func TestPeerZKLockLostCreate(t *testing.T) {
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprintf("behind %v", behind), func(t *testing.T) {
			zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
				withFolder(t, server)
				peer := newZKPeer(t, server)
				created, thaw := 0, func() {}
				t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op != zkserver.OpCreate || !isLockNode(r) {
						return zkserver.Pass
					}
					if created++; created > 1 {
						thaw()
						return zkserver.Pass
					}
					if behind {
						thaw = server.FreezeReads(0) // before the node is there
					}
					return zkserver.LoseReply
				}))
				result := lockLater(peer.newLock())
				if !behind {
					require.NoError(t, zktest.Await(t, result, "the lock"))
					require.Equal(t, 1, server.Stats().Ephemerals)
					return
				}
				predecessor := awaitWatch(t, server, peer.SessionID())
				require.Equal(t, peer.SessionID(), stat(t, peer, strings.TrimPrefix(predecessor, zkFolder+"/")).EphemeralOwner)
				staysOut(t, result)
				require.Equal(t, 2, server.Stats().Ephemerals)
			})
		})
	}
}

// The reply to the create is lost, and while the client looks for its node it meets
// one with a short name: go-zookeeper panics, unless the server lists its own first.
func TestPeerZKLockLostCreateWithAForeignChild(t *testing.T) {
	var outcomes tally
	zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
		_, err := withFolder(t, server).Create(zkFolder+"/_c_a", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		peer := newZKPeer(t, server)
		loseOnce(t, server, zkserver.OpCreate, zkserver.LoseReply)
		defer func() {
			require.Equal(t, 1, server.Stats().Ephemerals, "its node is left")
			if recover() != nil {
				outcomes.note("panic")
			}
		}()
		require.Error(t, peer.newLock().Lock())
	})
	outcomes.log(t, peerTrials)
	require.NotZero(t, outcomes.of("panic"))
}

// The session ends with the reply to the create, and the server that is asked next
// does not know yet: the old session's node is taken for the lock's own, and the
// holder has nothing when the next one enters.
func TestPeerZKLockNodeOfTheOldSession(t *testing.T) {
	zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
		withFolder(t, server)
		peer, rival := newZKPeer(t, server), newZKPeer(t, server)
		old := peer.SessionID()
		thaw := staleAfterTheSession(t, server, old)
		loseOnce(t, server, zkserver.OpCreate, zkserver.LoseReply)
		lock := peer.newLock()
		require.NoError(t, lock.Lock())
		require.NotEqual(t, old, peer.SessionID())
		(<-thaw)()
		require.Zero(t, server.Stats().Ephemerals, "it holds without a node")
		rival.holding(t)
		require.ErrorIs(t, lock.Lock(), zk.ErrDeadlock, "both hold")
	})
}

// staleAfterTheSession ends the session when its client comes back to it, and lets
// nobody see its end until the function that it sends is called.
func staleAfterTheSession(t *testing.T, server *zkserver.Server, session int64) <-chan func() {
	t.Helper()
	thaw := make(chan func(), 1)
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreateSession && r.SessionID == session {
			frozen := server.FreezeReads(0)
			if server.KillSession(session) {
				thaw <- frozen
			}
		}
		return zkserver.Pass
	}))
	return thaw
}

// Each request of an acquisition is lost in turn, or its reply. From the list of the
// folder on, the acquisition fails and leaves its node, which keeps everybody else
// out until the session ends.
func TestPeerZKLockLosesARequest(t *testing.T) {
	const requests = 4 // create, list, watch, list again
	for name, fault := range map[string]zkserver.Fault{
		"request lost": zkserver.LoseRequest, "reply lost": zkserver.LoseReply,
	} {
		t.Run(name, func(t *testing.T) {
			var outcomes tally
			zkTrials(t, func(t *testing.T, server *zkserver.Server, trial int) {
				request := trial%requests + 1
				left, err := loseRequest(t, server, request, fault)
				if request == 1 {
					require.NoError(t, err)
					require.False(t, left)
					outcomes.note("acquired, and released")
					return
				}
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				require.True(t, left)
				outcomes.note("failed, and a node is left that keeps others out")
			})
			outcomes.log(t, peerTrials)
		})
	}
}

// loseRequest has one wait for the lock and gives the k-th of its requests the
// fault. It returns how that ended, and whether a node is left when it has failed,
// which keeps another out for longer than the holder does.
func loseRequest(t *testing.T, server *zkserver.Server, k int, fault zkserver.Fault) (left bool, err error) {
	t.Helper()
	holder, waiter, rival := newZKPeer(t, server), newZKPeer(t, server), newZKPeer(t, server)
	held := holder.holding(t)
	count := 0
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != waiter.SessionID() || !strings.HasPrefix(r.Path, zkFolder) {
			return zkserver.Pass
		}
		if count++; count == k {
			return fault
		}
		return zkserver.Pass
	}))
	lock := waiter.newLock()
	result := lockLater(lock)
	time.Sleep(time.Minute) // of the fake clock: it has failed, or waits
	require.NoError(t, held.Unlock())
	err = zktest.Await(t, result, "the end of the acquisition")
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.Faulted })
	if err == nil {
		require.NoError(t, lock.Unlock())
		return server.Stats().Ephemerals > 0, nil
	}
	require.Len(t, waiter.children(t), 1) // once it is connected again
	turn := lockLater(rival.newLock())
	awaitWatch(t, server, rival.SessionID())
	staysOut(t, turn)
	waiter.Close()
	require.NoError(t, zktest.Await(t, turn, "the turn after the session"))
	return true, err
}

// What happens to one who waits and does not cost it its node.
func TestPeerZKLockWaiter(t *testing.T) {
	t.Run("its connection is interrupted while the holder leaves", func(t *testing.T) {
		zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
			held, waiter, turn := waiting(t, server)
			allow := server.Refuse()
			server.Cut(waiter.SessionID(), 1)
			require.NoError(t, held.Unlock())
			allow()
			require.NoError(t, zktest.Await(t, turn, "its turn"))
		})
	})
	t.Run("its session ends", func(t *testing.T) {
		zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
			_, waiter, turn := waiting(t, server)
			require.True(t, server.KillSession(waiter.SessionID()))
			require.ErrorIs(t, zktest.Await(t, turn, "the end of the wait"), zk.ErrSessionExpired)
			require.Equal(t, 1, server.Stats().Ephemerals, "the holder's")
		})
	})
	t.Run("the holder leaves between the list and the watch", func(t *testing.T) {
		zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
			holder, waiter := newZKPeer(t, server), newZKPeer(t, server)
			held := holder.holding(t)
			about, goOn := make(chan struct{}), make(chan struct{})
			watches := 0
			t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpGetData {
					if watches++; watches == 1 {
						close(about)
					}
					return zkserver.HoldUntil(goOn)
				}
				return zkserver.Pass
			}))
			turn := lockLater(waiter.newLock())
			zktest.Await(t, about, "the watch")
			require.NoError(t, held.Unlock())
			close(goOn)
			require.NoError(t, zktest.Await(t, turn, "its turn"))
		})
	})
}

// waiting returns a lock that is held, who waits for it, and where its turn will be.
func waiting(t *testing.T, server *zkserver.Server) (held *zk.Lock, waiter *zkPeer, turn <-chan error) {
	t.Helper()
	holder, waiter := newZKPeer(t, server), newZKPeer(t, server)
	held = holder.holding(t)
	turn = lockLater(waiter.newLock())
	awaitWatch(t, server, waiter.SessionID())
	return held, waiter, turn
}

// The node of one who waits is deleted. It does not look for it when its turn comes,
// and enters without one, together with the next.
func TestPeerZKLockWaitersNodeIsDeleted(t *testing.T) {
	zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
		held, waiter, turn := waiting(t, server)
		admin := newZKPeer(t, server)
		for _, name := range admin.children(t) {
			if stat(t, admin, name).EphemeralOwner == waiter.SessionID() {
				require.NoError(t, admin.Delete(zkFolder+"/"+name, -1))
			}
		}
		require.NoError(t, held.Unlock())
		require.NoError(t, zktest.Await(t, turn, "its turn"))
		require.Zero(t, server.Stats().Ephemerals, "it holds without a node")
		newZKPeer(t, server).holding(t)
	})
}

// A node in the folder whose name is no number at the end fails every acquisition,
// and each leaves its node; one with a small number is waited for.
func TestPeerZKLockForeignChild(t *testing.T) {
	for _, name := range foreignNames {
		t.Run(name, func(t *testing.T) {
			zkTrials(t, func(t *testing.T, server *zkserver.Server, _ int) {
				admin := withFolder(t, server)
				_, err := admin.Create(zkFolder+"/"+name, nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				peer := newZKPeer(t, server)
				// The folder has had one child, so that the number of the next is 1.
				result := lockLater(peer.newLock())
				switch name {
				case "README", "lock-x":
					var malformed *strconv.NumError
					require.ErrorAs(t, zktest.Await(t, result, "the end"), &malformed)
				case "lock--1":
					require.ErrorIs(t, zktest.Await(t, result, "the end"), zk.ErrInvalidPath)
				case "0":
					require.Equal(t, zkFolder+"/0", awaitWatch(t, server, peer.SessionID()))
					staysOut(t, result)
				}
				require.Equal(t, 1, server.Stats().Ephemerals, "its node is left")
				if name == "0" {
					return
				}
				require.NoError(t, admin.Delete(zkFolder+"/"+name, -1))
				turn := lockLater(admin.newLock())
				awaitWatch(t, server, admin.SessionID())
				staysOut(t, turn)
			})
		})
	}
}
