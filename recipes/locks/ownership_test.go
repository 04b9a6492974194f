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
	stat, err := client.Exists(ctx, o.lease.Path())
	require.NoError(t, err)
	require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
	require.Equal(t, stat.Czxid, o.lease.Token())
	release(t, o.lease)
}

// foreignNodeDriver returns, once, the node of another session as its own, as a
// driver does that finds its node by name only.
type foreignNodeDriver struct {
	locks.StandardLockInternalsDriver
	node func() (locks.LockNode, bool)
}

func (d *foreignNodeDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	if node, ok := d.node(); ok {
		return node, nil
	}
	return d.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
}

// See CURATOR-604, CURATOR-498, CURATOR-620, CURATOR-653 and CURATOR-696.
func TestOwnershipNodeMustBelongToTheSession(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		ctx := zktest.Context(t)
		other := zktest.Client(t, server.ConnectString())
		var foreign locks.LockNode
		var err error
		foreign.Path, err = other.Create(ctx, path+"/lock-", nil,
			framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
			framework.WithMode(framework.EphemeralSequential), framework.StoringStatIn(&foreign.Stat))
		require.NoError(t, err)

		var offered atomic.Bool
		driver := &foreignNodeDriver{
			StandardLockInternalsDriver: locks.StandardLockInternalsDriver{
				StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
			},
			node: func() (locks.LockNode, bool) { return foreign, offered.CompareAndSwap(false, true) },
		}
		client := zktest.Client(t, server.ConnectString())
		internals, err := locks.NewLockInternals(client, driver, path, "lock-", 1)
		require.NoError(t, err)
		lease, err := internals.Acquire(ctx)
		require.NoError(t, err)
		require.True(t, offered.Load())
		require.NotEqual(t, foreign.Path, lease.Path())
		require.NoError(t, lease.Release(ctx))
	})
}

// Names that others may have put into a lock's folder, by accident or on purpose.
//
// See CURATOR-43 and go-zookeeper#44.
func TestOwnershipForeignChildrenAreIgnored(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server.ConnectString())
		for _, name := range []string{
			"_c_a", "README", "lock-", "lock-x", "lock-1", "lock-99999999999", "lock-+000000001",
			"_c_00000000-0000-0000-0000-000000000000-lease-0000000000", "0000000000",
		} {
			_, err := client.Create(ctx, "/locks/foreign/"+name, nil, framework.CreatingParentsIfNeeded())
			require.NoError(t, err)
		}
		m := newMutex(t, client, "/locks/foreign")
		lease := acquire(t, m)
		require.Len(t, awaitQueue(t, m, 1), 1)
		waiting := acquireLater(ctx, newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/foreign"))
		awaitQueue(t, m, 2)
		release(t, lease)
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, o.lease)
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
		_, err := client.Create(ctx, path+"/_c_a", nil, framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
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
	_, err := client.Exists(zktest.Context(t), "/locks/exhausted", framework.Watched(&gone))
	require.NoError(t, err)
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

// What a mutex leaves on the wire is what Curator's does.
func TestOwnershipLayout(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/layout", locks.WithLockData([]byte{}))
		lease := acquire(t, m)
		require.Regexp(t, `^/locks/layout/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-\d{10}$`, lease.Path())
		data, err := client.Get(zktest.Context(t), lease.Path())
		require.NoError(t, err)
		require.Empty(t, data)
		stat, err := client.Exists(zktest.Context(t), "/locks/layout")
		require.NoError(t, err)
		require.Zero(t, stat.EphemeralOwner)
		require.Zero(t, stat.DataLength)
		release(t, lease)
	})
}
