// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// told is a revocation listener that keeps what it was told.
type told chan *locks.Lease

func (c told) option() locks.Option {
	return locks.WithRevocationListener(func(lease *locks.Lease) { c <- lease })
}

func (c told) await(t *testing.T) *locks.Lease {
	t.Helper()
	select {
	case lease := <-c:
		return lease
	case <-time.After(limit):
		t.Fatal("the listener has not been told")
		return nil
	}
}

// requireNothing is for when what could have been told has been looked at.
func requireNothing(t *testing.T, signal <-chan struct{}, listener told) {
	t.Helper()
	select {
	case <-signal:
		t.Fatal("revoked, and nobody asked for it")
	case lease := <-listener:
		t.Fatalf("the listener was told of %s, and nobody asked for it", lease.Path())
	default:
	}
}

func TestRevocationHolderIsTold(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		listener := make(told, 10)
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/polite", listener.option())
		other := zktest.Client(t, server.ConnectString())
		before := server.Counts(t)
		for range 3 { // the listener stays for the life of the lock
			lease := acquire(t, m)
			requireNothing(t, lease.Revoked(), listener)
			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, lease.Path()))
			awaitDone(t, lease.Revoked(), "the request")
			require.Same(t, lease, listener.await(t))

			require.NoError(t, lease.Err(), "a request is not a loss")
			require.True(t, awaitQueue(t, m, 1)[0].RevocationRequested())
			_, err := newMutex(t, other, "/locks/polite").TryAcquire(zktest.Context(t))
			require.ErrorIs(t, err, locks.ErrNotAcquired, "the owner decides when to release")

			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, lease.Path()), "a second time")
			require.NoError(t, other.Sync(zktest.Context(t), "/"))
			release(t, lease)
			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, lease.Path()), "the node has gone")
		}
		require.Empty(t, listener, "told once for each lease")
		server.AwaitCounts(t, before, limit)
	})
}

// A listener that releases hands the lock over.
func TestRevocationListenerReleases(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/over",
			locks.WithRevocationListener(func(lease *locks.Lease) {
				if err := lease.Release(context.Background()); err != nil {
					t.Errorf("release: %v", err)
				}
			}))
		other := zktest.Client(t, server.ConnectString())
		held := acquire(t, m).Path() // only the listener can get at the lease from now on
		next := acquireLater(zktest.Context(t), newMutex(t, other, "/locks/over"))
		awaitQueue(t, m, 2)
		runtime.GC()
		runtime.GC() // of what the first has found to be unreachable
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, held))
		o := await(t, next)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// A contender that waits is told when it has the lock, whenever it was asked.
func TestRevocationWaiterIsToldOnceItHolds(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		listener := make(told, 10)
		waiter := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/waiting", listener.option())
		other := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, other, "/locks/waiting")

		lease := acquire(t, holder)
		result := acquireLater(zktest.Context(t), waiter)
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, awaitQueue(t, holder, 2)[1].Path))
		requireNothing(t, nil, listener)
		select {
		case <-lease.Revoked():
			t.Fatal("the holder was told of a request to the one that waits")
		default:
		}
		release(t, lease)
		o := await(t, result)
		require.NoError(t, o.err)
		awaitDone(t, o.lease.Revoked(), "the request")
		require.Same(t, o.lease, listener.await(t))
		release(t, o.lease)
	})
}

// Each change of the data is looked at, and only the whole message is a request.
func TestRevocationOtherDataIsNoRequest(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		listener := make(told, 10)
		link := zktest.NewProxy(t, server.Addr())
		m := newMutex(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/locks/forged", listener.option())
		other := zktest.Client(t, server.ConnectString())
		looked := make(chan struct{}, 100)
		remove := link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToClient && f.Op == zkproxy.OpGetData {
				looked <- struct{}{}
			}
			return zkproxy.Pass
		})
		defer remove()
		lease := acquire(t, m)
		awaitSignal(t, looked)
		for _, data := range []string{"", "__REVOKE__\n", "__REVOKE_", "__revoke__", " __REVOKE__", "replica 2", "the last"} {
			require.NoError(t, other.Set(zktest.Context(t), lease.Path(), []byte(data)))
			awaitSignal(t, looked) // the data before has been judged, since looks follow each other
			requireNothing(t, lease.Revoked(), listener)
		}
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), other, lease.Path()))
		awaitDone(t, lease.Revoked(), "the request")
		require.Same(t, lease, listener.await(t))
		release(t, lease)
	})
}

func TestRevocationEveryLeaseOfAHoldIsTold(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		listener := make(told, 10)
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/nested", listener.option())
		outer := acquire(t, m)
		inner := must.Get(m.Acquire(outer.Context(zktest.Context(t))))(t)
		gone := must.Get(m.Acquire(outer.Context(zktest.Context(t))))(t)
		release(t, gone)
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, inner.Path()))
		require.ElementsMatch(t, []*locks.Lease{outer, inner}, []*locks.Lease{listener.await(t), listener.await(t)})

		late := must.Get(m.Acquire(outer.Context(zktest.Context(t))))(t)
		awaitDone(t, late.Revoked(), "the request, in a lease that came after it")
		require.Same(t, late, listener.await(t))
		for _, lease := range []*locks.Lease{outer, inner, late} {
			release(t, lease)
		}
		require.Empty(t, listener)
	})
}

func TestRevocationPanicOfTheListenerIsLogged(t *testing.T) {
	server := zktest.NewServer(t)
	var log lineLog
	client := zktest.Client(t, server.Addr(), log.option())
	m := newMutex(t, client, "/locks/panic", locks.WithRevocationListener(func(lease *locks.Lease) {
		defer func() { _ = lease.Release(context.Background()) }()
		panic("no manners")
	}))
	lease := acquire(t, m)
	require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, lease.Path()))
	awaitDone(t, lease.Done(), "the release")
	require.Eventually(t, func() bool { return len(log.with("no manners")) > 0 }, limit, time.Millisecond)
}

// TestMakeRevocable is for the leases that are acquired after the call, until the next call.
func TestMakeRevocable(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	readWrite := newReadWrite(t, client, "/rw")
	for name, lock := range map[string]interface {
		locks.InterProcessLock
		locks.Revocable
	}{"mutex": newMutex(t, client, "/mutex"), "read": readWrite.ReadLock(), "write": readWrite.WriteLock()} {
		first, second := make(told, 10), make(told, 10)
		before := must.Get(lock.Acquire(zktest.Context(t)))(t)
		lock.MakeRevocable(func(lease *locks.Lease) { first <- lease })
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, before.Path()))
		awaitDone(t, before.Revoked(), "the request")
		release(t, before)

		lease, err := lock.Acquire(zktest.Context(t))
		require.NoError(t, err, name)
		lock.MakeRevocable(func(lease *locks.Lease) { second <- lease })
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, lease.Path()))
		require.Equal(t, lease, first.await(t))
		release(t, lease)
		lock.MakeRevocable(nil)
		lease = must.Get(lock.Acquire(zktest.Context(t)))(t)
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, lease.Path()))
		awaitDone(t, lease.Revoked(), "the request")
		release(t, lease)
		require.Empty(t, first)
		require.Empty(t, second)
	}
}
