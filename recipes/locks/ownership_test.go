// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The reply to the create is lost together with the session, and the server that
// is asked next has not yet seen the end of that session: it lists the old node,
// first in the queue (CURATOR-498, CURATOR-604).
//
// See CURATOR-620, CURATOR-653 and CURATOR-696.
func TestOwnershipNodeOfTheOldSessionIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	runTrials(t, func(t *testing.T, _ int) { oldSessionsNodeIsListed(t) })
}

func oldSessionsNodeIsListed(t *testing.T) {
	t.Helper()
	server := zktest.NewServer(t)
	client, link := zktest.ClientViaProxy(t, server)
	old := client.Session()

	thaw := make(chan func(), 1)
	var once atomic.Bool
	remove := link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Direction != zkproxy.ToClient || f.Op != zkproxy.OpCreate2 || f.Err != 0 || !once.CompareAndSwap(false, true) {
			return zkproxy.Pass
		}
		// From now on every read shows the tree with the old session's node.
		thaw <- server.FreezeReads(0)
		server.KillSession(old.ID())
		return zkproxy.CutBefore
	})
	defer remove()

	m := newMutex(t, client, "/locks/604")
	ctx, cancel := context.WithCancel(zktest.Context(t))
	defer cancel()
	result := acquireLater(ctx, m)
	melt := <-thaw
	// While the reads are frozen no new node can be seen in the list, so the mutex
	// must go on trying, and not be satisfied with the node that it sees.
	queue := awaitQueue(t, m, 1)
	require.Equal(t, old.ID(), queue[0].Session)
	melt()

	o := await(t, result)
	require.NoError(t, o.err)
	require.NotEqual(t, queue[0].Path, o.lease.Path())
	require.NotEqual(t, old.ID(), client.Session().ID())
	stat := must.Get(client.Exists(ctx, o.lease.Path()))(t)
	require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
	require.Equal(t, stat.Czxid, o.lease.Token())
	release(t, o.lease)
}

// creator is a driver that may have another node than the one that it should create.
type creator struct {
	locks.StandardLockInternalsDriver

	instead func(session *framework.Session) (node locks.LockNode, ok bool)
}

func (d creator) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	if node, ok := d.instead(session); ok {
		return node, nil
	}
	return d.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
}

// openCreator returns the lock at path with a creator.
func openCreator(
	t *testing.T, client *framework.Framework, path string, instead func(*framework.Session) (locks.LockNode, bool),
) *locks.LockInternals {
	t.Helper()
	driver := creator{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, instead}
	l := must.Get(locks.NewLockInternals(client, driver, path, "lock-", 1))(t)
	return l
}

// See CURATOR-604, CURATOR-498, CURATOR-620, CURATOR-653 and CURATOR-696.
func TestOwnershipNodeMustBelongToTheSession(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		ctx := zktest.Context(t)
		other := zktest.Client(t, server.ConnectString())
		var foreign locks.LockNode
		foreign.Path = must.Get(other.Create(ctx, path+"/lock-", nil,
			framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
			framework.WithMode(framework.EphemeralSequential), framework.StoringStatIn(&foreign.Stat)))(t)

		var offered atomic.Bool
		// As a driver does that finds its node by name only.
		lease := acquire(t, openCreator(t, zktest.Client(t, server.ConnectString()), path, func(*framework.Session) (locks.LockNode, bool) {
			return foreign, offered.CompareAndSwap(false, true)
		}))
		require.True(t, offered.Load())
		require.NotEqual(t, foreign.Path, lease.Path())
		release(t, lease)
	})
}

// TestOwnershipNodeMustBeEphemeral, or each acquisition fails at once, and leaves nothing.
func TestOwnershipNodeMustBeEphemeral(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		created := 0
		l := openCreator(t, client, "/locks/lasting", func(*framework.Session) (node locks.LockNode, ok bool) {
			created++
			node.Path = must.Get(client.Create(t.Context(), "/locks/lasting/lock-", nil,
				framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
				framework.WithMode(framework.PersistentSequential), framework.StoringStatIn(&node.Stat)))(t)
			return node, true
		})
		for _, acquire := range []func(context.Context) (*locks.Lease, error){l.Acquire, l.TryAcquire} {
			_, err := acquire(zktest.Context(t))
			require.ErrorContains(t, err, "driver locks_test.creator: the node /locks/lasting/_c_")
			require.ErrorContains(t, err, "has owner 0x0, must be ephemeral, of the given session")
		}
		require.Equal(t, 2, created, "it has not begun again")
		awaitQueue(t, l, 0)
	})
}

// A child whose name is short crashes other clients when they look for the node of
// a create whose reply was lost.
//
// See CURATOR-43 and go-zookeeper#44.
func TestOwnershipLostReplyWithAForeignChild(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		ctx := zktest.Context(t)
		client, link := zktest.ClientViaProxy(t, server)
		must.Get(client.Create(ctx, path+"/_c_a", nil, framework.CreatingParentsIfNeeded()))(t)
		var lost atomic.Int32
		remove := link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToClient && f.Op == zkproxy.OpCreate2 && lost.CompareAndSwap(0, 1) {
				return zkproxy.CutBefore
			}
			return zkproxy.Pass
		})
		defer remove()
		m := newMutex(t, client, path)
		lease := acquire(t, m)
		require.EqualValues(t, 1, lost.Load())
		require.Equal(t, lease.Path(), awaitQueue(t, m, 1)[0].Path, "the node of the first try is the one that counts")
		release(t, lease)
	})
}

// The server's counter of sequence numbers is a signed 32-bit number, and wraps
// before ZooKeeper 3.6.
//
// See kazoo#606, kazoo#730 and go-zookeeper#65.
func TestOwnershipQueueKeepsItsOrderAcrossTheWrap(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.10"))
	quick := framework.WithRetryPolicy(retry.NTimes(3, time.Millisecond))
	m := newMutex(t, zktest.Client(t, server.Addr(), quick), "/locks/wrap")
	release(t, acquire(t, m)) // makes the folder
	require.NoError(t, server.SetSequence("/locks/wrap", 1<<31-3))

	holder := acquire(t, m)
	var waiting []<-chan outcome
	for i := range 4 {
		client := zktest.Client(t, server.Addr(), quick)
		waiting = append(waiting, acquireLater(zktest.Context(t), newMutex(t, client, "/locks/wrap")))
		awaitSettledQueue(t, m, i+2)
	}
	queue := awaitQueue(t, m, 5)
	var sequences []int32
	for i, p := range queue {
		sequences = append(sequences, p.Sequence)
		if i > 0 {
			require.Greater(t, p.Token, queue[i-1].Token, "the tokens tell the true order")
		}
	}
	// 1<<31-1 is not admitted: it might be that of several nodes.
	require.Equal(t, []int32{1<<31 - 3, 1<<31 - 2, -1 << 31, -1<<31 + 1, -1<<31 + 2}, sequences)
	release(t, holder)
	for i, result := range waiting {
		o := await(t, result)
		require.NoError(t, o.err)
		require.Equal(t, queue[i+1].Path, o.lease.Path())
		release(t, o.lease)
	}
}

// awaitSettledQueue waits until the queue has n contenders, none with the last
// positive number, which leaves again.
func awaitSettledQueue(t *testing.T, m *locks.InterProcessMutex, n int) {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if queue := awaitQueue(t, m, n); queue[n-1].Sequence != math.MaxInt32 {
			return
		}
	}
	t.Fatal("a node with the last number stays")
}

// Since ZooKeeper 3.6 the counter stays at its end, and all further nodes have the
// same number: names cannot tell who was first, so nobody is let in.
//
// See kazoo#606, kazoo#730 and go-zookeeper#65.
func TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithContainerCheckInterval(fastReaping))
	quick := framework.WithRetryPolicy(retry.NTimes(3, time.Millisecond))
	client := zktest.Client(t, server.Addr(), quick)
	m := newMutex(t, client, "/locks/exhausted")
	first := acquire(t, m)
	require.NoError(t, server.SetSequence("/locks/exhausted", 1<<31-2))
	last := acquireLater(zktest.Context(t), m)
	awaitQueue(t, m, 2)
	for range 10 {
		_, err := m.Acquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrSequenceExhausted)
	}
	awaitQueue(t, m, 2)
	require.NoError(t, first.Err())
	release(t, first)
	o := await(t, last)
	require.NoError(t, o.err)

	var gone *framework.Watch
	must.Get(client.Exists(zktest.Context(t), "/locks/exhausted", framework.Watched(&gone)))(t)
	release(t, o.lease)
	awaitDone(t, gone.Fired(), "the end of the folder")
	release(t, acquire(t, m))
}

// The token rises also when the folder, and with it the sequence, begins anew.
func TestOwnershipTokenRisesWhenTheFolderIsMadeAnew(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/anew")
		var last int64
		for range 3 {
			lease := acquire(t, m)
			require.Contains(t, lease.Path(), "-lock-0000000000")
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			release(t, lease)
			err := client.Delete(ctx, "/locks/anew")
			if !errors.Is(err, framework.ErrNoNode) { // the server's own sweep may be first
				require.NoError(t, err)
			}
		}
	})
}

// TestOwnershipLayout: what a lock leaves on the wire is what Curator's does, beside names that have no business there.
func TestOwnershipLayout(t *testing.T) {
	t.Parallel()
	const protected = `/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-`
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		data := []byte("10.1.2.3")
		option := locks.WithLockData(data)
		rw := newReadWrite(t, client, "/locks/rw", option)
		semaphore := newSemaphore(t, client, "/locks/v2", locks.FixedLeases(1), option)
		data[0] = 'x' // the locks have a copy
		for _, test := range []struct {
			lock            locks.InterProcessLock
			folder, pattern string
		}{
			{newMutex(t, client, "/locks/mutex", locks.WithLockData([]byte("10.1.2.3"))), "/locks/mutex", `lock-\d{10}$`},
			{rw.ReadLock(), "/locks/rw", `__READ__\d{10}$`},
			{rw.WriteLock(), "/locks/rw", `__WRIT__\d{10}$`},
			{semaphore, "/locks/v2/leases", `lease-\d{10}$`},
		} {
			for _, name := range []string{"README", "_c_a", "0000000000", "lock-1", "lease-", "__READ__", "__WRIT__1"} {
				must.Get(client.Create(t.Context(), framework.JoinPath(test.folder, name), nil, framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
			}
			lease := acquire(t, test.lock)
			require.Regexp(t, "^"+test.folder+protected+test.pattern, lease.Path())
			require.Equal(t, "10.1.2.3", string(must.Get(client.Get(t.Context(), lease.Path()))(t)))
			awaitQueue(t, test.lock.(queue), 1)
			requireNoChildren(t, client, "/locks/v2/locks") // a turn has been passed on
			release(t, lease)
		}
	})
}

// TestOwnershipGoesByTheNodeAtTheServer: views of one client that name the same node
// name the same lock; the same name in two namespaces is two locks.
func TestOwnershipGoesByTheNodeAtTheServer(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	orders := must.Get(client.UsingNamespace("orders"))(t)
	again := must.Get(orders.UsingNamespace("orders"))(t)
	invoices := must.Get(client.UsingNamespace("invoices"))(t)

	lease := acquire(t, newMutex(t, orders, "/lock"))
	ctx := lease.Context(t.Context())
	same := newMutex(t, client, "/orders/lock")
	must.Get(client.Create(ctx, "/report", nil))(t)
	for _, m := range []*locks.InterProcessMutex{same, newMutex(t, again, "/lock")} {
		inner := must.Get(m.TryAcquire(ctx))(t)
		require.Equal(t, lease.Token(), inner.Token(), "re-entered")
		require.Equal(t, m == same, inner.Path() == "/orders"+lease.Path(), "a path of its own client")
		_, err := inner.Transact(ctx, framework.SetDataOp("/report", nil))
		require.Equal(t, m == same, err == nil, "in the namespace of its own client: %v", err)
		release(t, inner)
	}
	inner := must.Get(newMutex(t, invoices, "/lock").TryAcquire(ctx))(t)
	require.Greater(t, inner.Token(), lease.Token(), "another lock")
	release(t, inner)
	release(t, lease)
}
