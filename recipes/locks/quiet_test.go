// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestWaiterIsQuiet: who waits sends what it takes to be told, and then nothing, however
// long it is; and the node of a waiter that is deleted meanwhile is missed at once.
func TestWaiterIsQuiet(t *testing.T) {
	const enough = 15 // creation with its parents, lists, watches, and a turn at a semaphore
	for _, p := range pairings {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				lease := p.hold(t, zktest.Client(t, server), "/lock")
				client := zktest.Client(t, server)
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				var sent atomic.Int64
				remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID == client.Session().ID() && r.Op != zkserver.OpPing && sent.Add(1) > 10*enough {
						stop() // or the clock would stand still
					}
					return zkserver.Pass
				})
				rival := p.rival(t, client, "/lock")
				waiting := acquireLater(ctx, rival)
				time.Sleep(time.Minute)
				require.LessOrEqual(t, sent.Load(), int64(enough))
				remove()

				queue, err := rival.Participants(zktest.Context(t))
				require.NoError(t, err)
				ours := queue[len(queue)-1]
				require.NoError(t, client.Delete(zktest.Context(t), ours.Path))
				time.Sleep(time.Second)
				queue, err = rival.Participants(zktest.Context(t))
				require.NoError(t, err)
				require.Greater(t, queue[len(queue)-1].Token, ours.Token, "it has joined again")
				release(t, lease)
				o := await(t, waiting)
				require.NoError(t, o.err)
				release(t, o.lease)
			})
		})
	}
}

// TestWaitLongHoldIsReleasedInOneRequest: the deletion ends the watch on the node.
func TestWaitLongHoldIsReleasedInOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		mutex := newMutex(t, zktest.Client(t, server), "/lock")
		lease := acquire(t, mutex)
		time.Sleep(time.Second)
		require.Equal(t, 1, server.Stats().Watches, "the holder watches its node")
		var sent []zkserver.OpCode
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpPing {
				sent = append(sent, r.Op)
			}
			return zkserver.Pass
		})
		release(t, lease)
		remove()
		require.Equal(t, []zkserver.OpCode{zkserver.OpDelete}, sent)
		require.Zero(t, server.Stats().Watches)
	})
}

// TestWaiterThatStartsAgainTakesItsWatchesBack: it is told together that the one before it
// is there and that its own node is not. When it gives up later, no watch is left.
func TestWaiterThatStartsAgainTakesItsWatchesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		mutex := newMutex(t, zktest.Client(t, server), "/lock")
		lease := acquire(t, mutex)
		time.Sleep(time.Second)
		before := server.Stats().Watches
		client := zktest.Client(t, server)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		waiting := acquireLater(ctx, newMutex(t, client, "/lock"))
		time.Sleep(time.Second)
		queue, err := mutex.Participants(zktest.Context(t))
		require.NoError(t, err)
		require.Len(t, queue, 2)

		const noNode = -101
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetData && r.Path == queue[1].Path {
				return zkserver.FailWith(noNode)
			}
			return zkserver.Pass
		})
		defer remove()
		server.Cut(client.Session().ID(), 1) // the watches are set again, both in one go
		time.Sleep(time.Second)
		again, err := mutex.Participants(zktest.Context(t))
		require.NoError(t, err)
		require.Greater(t, again[1].Token, queue[1].Token, "it has joined again")
		stop()
		require.ErrorIs(t, await(t, waiting).err, context.Canceled)
		synctest.Wait()
		require.Equal(t, before, server.Stats().Watches)
		release(t, lease)
	})
}
