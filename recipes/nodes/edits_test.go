// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// editing returns an option that accepts each write but "no", and the writes.
func editing() (nodes.Option, <-chan string) {
	edits := make(chan string, 100)
	return nodes.WithEdits(func(data []byte) bool {
		edits <- string(data)
		return string(data) != "no"
	}), edits
}

func TestEditOfAnotherClientIsKeptOnRequest(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		accepts, edits := editing()
		node := started(t, client, framework.Ephemeral, accepts)
		require.NoError(t, other.Set(zktest.Context(t), path, []byte("theirs")))
		require.Equal(t, "theirs", zktest.Await(t, edits, "the edit"))
		require.Eventually(t, func() bool { return string(node.Data()) == "theirs" }, limit, time.Millisecond)

		zktest.KillSession(t, client)
		awaitNode(t, other, path, func(data []byte, stat *framework.Stat) bool {
			return stat != nil && stat.EphemeralOwner == client.Session().ID() && string(data) == "theirs"
		})
		require.NoError(t, node.SetData(zktest.Context(t), []byte("ours")))
		require.NoError(t, other.Set(zktest.Context(t), path, []byte("no")))
		require.Equal(t, "no", zktest.Await(t, edits, "the edit"), "the node has not taken its own writes for edits")
		require.NoError(t, other.Delete(zktest.Context(t), path))
		awaitNode(t, other, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "ours" })
	})
}

func TestEditCostsOneReadAndOwnWritesNone(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		accepts, edits := editing()
		reads, writes := countRequests(t, server, zkserver.OpGetData), countRequests(t, server, zkserver.OpSetData)
		require.NoError(t, started(t, client, framework.Persistent, accepts).SetData(t.Context(), []byte("second")))
		require.NoError(t, client.Delete(t.Context(), path))
		time.Sleep(time.Minute)
		require.Zero(t, reads.Load())
		require.NoError(t, client.Set(t.Context(), path, []byte("theirs")))
		time.Sleep(time.Minute)
		require.Equal(t, int64(1), reads.Load())
		require.Equal(t, int64(2), writes.Load(), "it has not written over the edit")
		require.Len(t, edits, 1)

		require.NoError(t, client.Set(t.Context(), path, []byte("no")))
		time.Sleep(time.Minute)
		server.Cut(client.Session().ID(), 1)
		time.Sleep(time.Minute)
		require.Equal(t, int64(2), reads.Load(), "it has looked at the znode again, and has not read what it knows")
		require.Len(t, edits, 2)
	})
}

// A read of an edit that fails says nothing about the edit.
func TestEditIsHeardOfAlthoughItsReadHasFailed(t *testing.T) {
	for name, fault := range map[string]zkserver.Fault{"lost": zkserver.LoseReply, "throttled": zkserver.FailWith(-127)} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
				accepts, edits := editing()
				node := started(t, client, framework.Persistent, accepts)
				synctest.Wait()
				var failures atomic.Int64
				server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op != zkserver.OpGetData || failures.Load() == 20 {
						return zkserver.Pass
					}
					failures.Add(1)
					return fault
				})
				require.NoError(t, client.Set(t.Context(), path, []byte("theirs")))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.EqualValues(t, 20, failures.Load())
				require.Len(t, edits, 1)
				require.Equal(t, "theirs", string(node.Data()))
				require.NoError(t, node.Err())
			})
		})
	}
}

func TestEditDoesNotReplaceANewerSetData(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
		reading, goOn := make(chan struct{}), make(chan struct{})
		node := started(t, client, framework.Persistent, nodes.WithEdits(func([]byte) bool {
			close(reading)
			<-goOn
			return true
		}))
		require.NoError(t, client.Set(t.Context(), path, []byte("theirs")))
		zktest.Await(t, reading, "the edit")
		done := make(chan error, 1)
		go func() { done <- node.SetData(t.Context(), []byte("ours")) }()
		synctest.Wait()
		close(goOn)
		require.NoError(t, <-done)
		require.Equal(t, "ours", string(must.Get(client.Get(t.Context(), path))(t)))
		require.Equal(t, "ours", string(node.Data()))
	})
}

// Another client writes, and then puts another znode there before the write is read.
func TestEditOfAZnodeThatIsReplacedIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, proxy := zktest.ClientViaProxy(t, server)
		other := zktest.Client(t, server)
		accepts, edits := editing()
		started(t, client, framework.Persistent, accepts)
		synctest.Wait() // it watches the znode
		proxy.Delay(time.Second)
		require.NoError(t, other.Set(t.Context(), path, []byte("theirs")))
		time.Sleep(3500 * time.Millisecond) // the client has heard of it and looked, and its read is on the way
		must.Get(other.Transact(t.Context(), framework.DeleteOp(path), framework.CreateOp(path, []byte("no"))))(t)
		time.Sleep(time.Minute)

		require.Equal(t, "first", string(must.Get(other.Get(t.Context(), path))(t)))
		require.Empty(t, edits)
	})
}
