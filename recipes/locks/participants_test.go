// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// TestParticipantsWhoIsWho: everything that Participants show of an owner, in our default data, in
// Curator's, in data of one's own, and after a request to give the lock back.
func TestParticipantsWhoIsWho(t *testing.T) {
	t.Parallel()
	host := must.Get(os.Hostname())(t)
	here := fmt.Sprintf("%s/%d", host, os.Getpid())
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		lease := acquire(t, newMutex(t, client, "/locks/who", locks.WithLabel("nightly report, Köln")))
		for i, opt := range []locks.Option{
			locks.WithRecipeName("mutex"), // the defaults
			locks.WithLockData([]byte("10.1.2.3")),
			locks.WithLockData([]byte("fe80::1")),
			locks.WithLockData([]byte("replica 1")),
			locks.WithLockData([]byte("host/-7 x")),
			locks.WithLockData([]byte("/7")),
			locks.WithLockData([]byte{}),
		} {
			acquireLater(cancelled(t), newMutex(t, client, "/locks/who", opt, locks.WithQueuePlaces(0)))
			awaitQueue(t, newMutex(t, client, "/locks/who"), i+2)
		}
		m := newMutex(t, client, "/locks/who")
		queue := awaitQueue(t, m, 8)
		for i, want := range []locks.Participant{
			{Identity: here + " nightly report, Köln", Host: host, PID: os.Getpid(), Label: "nightly report, Köln"},
			{Identity: here, Host: host, PID: os.Getpid()},
			{Identity: "10.1.2.3", Host: "10.1.2.3"},
			{Identity: "fe80::1", Host: "fe80::1"},
			{Identity: "replica 1"},
			{Identity: "host/-7 x"},
			{Identity: "/7"},
			{},
		} {
			p := queue[i]
			require.Equal(t, want, locks.Participant{Identity: p.Identity, Host: p.Host, PID: p.PID, Label: p.Label})
			require.Equal(t, i, p.Position)
			require.Equal(t, i == 0, p.Holds)
			require.Equal(t, client.Session().ID(), p.Session)
			require.False(t, p.Since.IsZero())
			if i > 0 {
				require.Equal(t, []string{queue[i-1].Path}, p.WaitsFor)
			}
		}
		require.Equal(t, lease.Token(), queue[0].Token)

		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, lease.Path()))
		p := awaitQueue(t, m, 8)[0]
		require.True(t, p.RevocationRequested())
		require.Empty(t, p.Host+p.Label)
		require.Equal(t, lease.Token(), p.Token)
	})
}

func TestLabels(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	for label, message := range map[string]string{
		"":                       `label "": 0 bytes, expected 1 to 256`,
		strings.Repeat("x", 257): "257 bytes, expected 1 to 256",
		"a\nb":                   `label "a\nb": expected printable characters`,
		"a\xff":                  "expected printable characters",
		strings.Repeat(" ", 2):   "expected no space before or after it",
	} {
		_, err := locks.NewInterProcessMutex(client, "/locks/a", locks.WithLabel(label))
		require.ErrorContains(t, err, message)
	}
	for _, opts := range [][]locks.Option{
		{locks.WithLabel("a"), locks.WithLockData([]byte("b"))},
		{locks.WithLockData(nil), locks.WithLabel("a")},
	} {
		_, err := locks.NewInterProcessSemaphoreMutex(client, "/locks/a", opts...)
		require.ErrorContains(t, err, `WithLabel("a") and WithLockData, expected one of them`)
	}
}

// TestParticipantsOfEveryRecipe of its own and shows their label.
func TestParticipantsOfEveryRecipe(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		label := locks.WithLabel("me")
		mutex := newMutex(t, client, "/locks/mutex", label)
		rw := newReadWrite(t, client, "/locks/rw", label)
		v1 := must.Get(locks.NewInterProcessSemaphore(client, "/locks/v1", locks.FixedLeases(1), label))(t)
		v2 := newSemaphore(t, client, "/locks/v2", locks.FixedLeases(1), label)
		single := must.Get(locks.NewInterProcessSemaphoreMutex(client, "/locks/single", label))(t)
		for _, lock := range []locks.InterProcessLock{mutex, rw.ReadLock(), rw.WriteLock(), v1, v2, single} {
			lease := acquire(t, lock)
			queue := awaitQueue(t, lock.(queue), 1)
			require.Equal(t, lease.Path(), queue[0].Path)
			require.Equal(t, lease.Token(), queue[0].Token)
			require.Equal(t, "me", queue[0].Label)
			require.True(t, queue[0].Holds)
			release(t, lease)
		}

		multi := newMulti(t, v2, mutex)
		lease := must.Get(multi.Acquire(zktest.Context(t)))(t)
		both := awaitQueue(t, multi, 2)
		require.Equal(t, lease.Leases()[0].Path(), both[0].Path)
		require.Equal(t, lease.Leases()[1].Path(), both[1].Path)

		// Who waits for a lease of the second semaphore has a turn, or waits for one.
		for n := range 2 {
			acquireLater(cancelled(t), v2)
			require.Equal(t, "me", awaitQueue(t, waitersFor{v2}, n+1)[n].Label)
		}
		leases := awaitQueue(t, v2, 2)
		require.True(t, leases[0].Holds)
		require.False(t, leases[1].Holds)
		waiters := awaitQueue(t, waitersFor{v2}, 2)
		require.True(t, waiters[0].Holds)
		require.Equal(t, []string{waiters[0].Path}, waiters[1].WaitsFor)
		require.NoError(t, lease.Release(zktest.Context(t)))
	})
}

// waitersFor is the queue for the leases of a semaphore.
type waitersFor struct {
	*locks.InterProcessSemaphoreV2
}

func (w waitersFor) Participants(ctx context.Context) ([]locks.Participant, error) {
	return w.Waiters(ctx)
}

// TestParticipantsAreReadTogether: no request for one of them waits for the reply to
// another. Those that leave between the list and the reads are left out.
//
// CURATOR-358: the leader leaves while it is read.
func TestParticipantsAreReadTogether(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const n, leave = 20, 3
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/many", locks.WithQueuePlaces(0))
		lease := acquire(t, m)
		for range n - 1 {
			acquireLater(cancelled(t), m)
		}
		queue := awaitQueue(t, m, n)

		link := zktest.NewProxy(t, server.Addr())
		seen := newMutex(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/locks/many")
		awaitQueue(t, seen, n)
		var reads atomic.Int64
		all := make(chan struct{})
		sent := sync.OnceFunc(func() { close(all) })
		var once sync.Once
		defer link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
			switch {
			case frame.Kind == zkproxy.Request && frame.Op == opGetData:
				if reads.Add(1) == n {
					sent()
				}
			case frame.Kind == zkproxy.Request && frame.Op == opMultiRead:
				sent() // it is for all of them
			case frame.Kind == zkproxy.Reply && (frame.Op == opGetData || frame.Op == opMultiRead):
				awaitDone(t, all, "the request for the last of them")
			case frame.Kind == zkproxy.Reply && frame.Op == opGetChildren:
				once.Do(func() { // between the list and the reads
					for _, p := range queue[n-leave:] {
						require.NoError(t, client.Delete(zktest.Context(t), p.Path, framework.WithVersion(-1)))
					}
				})
			}
			return zkproxy.Pass
		})()
		got := must.Get(seen.Participants(zktest.Context(t)))(t)
		require.Len(t, got, n-leave)
		for i, p := range got {
			require.Equal(t, queue[i], p)
		}
		release(t, lease)
	})
}

// Opcodes of ZooKeeper's protocol.
const (
	opGetData     = 4
	opGetChildren = 12 // getChildren2
	opMultiRead   = 22
)

// TestParticipantsNodesHaveTheProvidersACL: the lock's nodes and their parents.
func TestParticipantsNodesHaveTheProvidersACL(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		credentials := framework.WithAuth("digest", []byte("locks:secret"))
		owned := zk.DigestACL(zk.PermAll, "locks", "secret")
		provider := framework.WithACLProvider(everywhere(owned))
		client := zktest.Client(t, server.ConnectString(), credentials, provider)
		stranger := zktest.Client(t, server.ConnectString())

		m := newMutex(t, client, "/guarded/mutex")
		v2 := newSemaphore(t, client, "/guarded/semaphore", locks.FixedLeases(1))
		requireOwned := func(paths ...string) {
			t.Helper()
			for _, path := range paths {
				acl, err := client.GetACL(zktest.Context(t), path)
				require.NoError(t, err, path)
				require.Equal(t, owned, acl, path)
			}
		}

		// Each folder has a node in it: the server removes empty containers.
		held := acquire(t, m)
		requireOwned("/guarded", "/guarded/mutex", held.Path())
		release(t, held)
		permit := acquire(t, v2)
		waiting := acquireLater(zktest.Context(t), v2)
		turn := awaitQueue(t, newMutex(t, client, "/guarded/semaphore/locks"), 1)[0]
		requireOwned("/guarded/semaphore", "/guarded/semaphore/leases", permit.Path(), "/guarded/semaphore/locks", turn.Path)

		// Whoever has the credentials shares the lock, and nobody else.
		other := acquire(t, newMutex(t, zktest.Client(t, server.ConnectString(), credentials, provider), "/guarded/mutex"))
		_, err := newMutex(t, stranger, "/guarded/mutex").TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, framework.ErrNoAuth)
		_, err = newMutex(t, stranger, "/guarded/mutex").Participants(zktest.Context(t))
		require.ErrorIs(t, err, framework.ErrNoAuth)
		release(t, other)
		release(t, permit)
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// everywhere is an ACLProvider with one answer.
type everywhere []framework.ACL

func (e everywhere) DefaultACL() []framework.ACL         { return e }
func (e everywhere) ACLForPath(_ string) []framework.ACL { return e }

// TestParticipantsThatCannotBeRead: a node that is too long or forbidden keeps its place, and costs no other participant.
func TestParticipantsThatCannotBeRead(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString(), framework.WithMaxReplySize(4<<10))
		other := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, "/locks/who")
		acquire(t, mutex)
		// The waiter stands behind the one that it may read, or its wait would fail.
		for _, node := range []struct {
			data string
			acl  []framework.ACL
		}{
			{"secret", zk.WorldACL(zk.PermAll &^ zk.PermRead)}, {strings.Repeat("x", 8<<10), zk.WorldACL(zk.PermAll)},
		} {
			must.Get(other.Create(t.Context(), "/locks/who/by-hand-lock-", []byte(node.data),
				framework.WithMode(framework.EphemeralSequential), framework.WithACL(node.acl...)))(t)
		}
		acquireLater(cancelled(t), newMutex(t, other, "/locks/who"))
		awaitQueue(t, newMutex(t, other, "/locks/who"), 4)

		participants := must.Get(mutex.Participants(t.Context()))(t)
		require.Len(t, participants, 4)
		for i, p := range participants {
			require.Equal(t, i, p.Position)
			require.Equal(t, i == 1 || i == 2, p.Identity == "", p.Path)
		}
	})
}
