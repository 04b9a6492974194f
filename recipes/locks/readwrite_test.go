// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

func TestReadWriteLockReadersShareAndWritersQueue(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const readers, writers = 20, 8
		rw := newReadWrite(t, zktest.Client(t, server.ConnectString()), "/locks/rw")
		var reading []*locks.Lease
		for range readers {
			reading = append(reading, acquire(t, rw.ReadLock()))
		}
		var writing []<-chan outcome
		for i := range writers {
			writing = append(writing, acquireLater(zktest.Context(t), rw.WriteLock()))
			awaitQueue(t, rw.WriteLock(), i+1)
		}
		all := awaitQueue(t, rw, readers+writers)
		for i, p := range all {
			require.Equal(t, i < readers, p.Holds, "%d", i)
			require.EqualValues(t, i, p.Sequence)
			if i < readers {
				require.Equal(t, "__READ__", p.LockName)
				require.Empty(t, p.WaitsFor)
			} else {
				require.Equal(t, "__WRIT__", p.LockName)
				require.Equal(t, []string{all[i-1].Path}, p.WaitsFor)
			}
		}
		require.Equal(t, all[:readers], awaitQueue(t, rw.ReadLock(), readers))
		require.Equal(t, all[readers:], awaitQueue(t, rw.WriteLock(), writers))
		_, err := rw.ReadLock().TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a reader does not overtake a writer that waits")

		for _, lease := range reading {
			release(t, lease)
		}
		for i, result := range writing {
			o := await(t, result)
			require.NoError(t, o.err)
			require.Equal(t, all[readers+i].Path, o.lease.Path())
			release(t, o.lease)
		}
	})
}

func TestReadWriteLockReaderCannotBecomeAWriter(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		rw := newReadWrite(t, zktest.Client(t, server.ConnectString()), "/locks/rw")
		reader := acquire(t, rw.ReadLock())
		for _, try := range []func(context.Context) (*locks.Lease, error){rw.WriteLock().TryAcquire, rw.WriteLock().Acquire} {
			_, err := try(reader.Context(zktest.Context(t)))
			require.ErrorIs(t, err, locks.ErrUpgrade)
			require.ErrorContains(t, err, "locks: acquire /locks/rw: a read lock cannot be upgraded")
		}
		awaitQueue(t, rw, 1)
		require.NoError(t, reader.Err())
		again, err := rw.ReadLock().Acquire(reader.Context(zktest.Context(t)))
		require.NoError(t, err, "it re-enters its own side")
		require.Equal(t, reader.Path(), again.Path())
		release(t, again)
		release(t, reader)
		release(t, acquire(t, rw.WriteLock()))
	})
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		rw := newReadWrite(t, client, "/locks/rw")
		for _, writerFirst := range []bool{true, false} {
			writer := acquire(t, rw.WriteLock())
			owner := writer.Context(zktest.Context(t))
			_, err := rw.ReadLock().TryAcquire(zktest.Context(t))
			require.ErrorIs(t, err, locks.ErrNotAcquired, "a context without ownership is another owner")

			reader := must.Get(rw.ReadLock().TryAcquire(owner))(t)
			require.NotEqual(t, writer.Path(), reader.Path())
			require.Equal(t, writer.Token(), reader.Token())
			require.Equal(t, client.Session().ID(), must.Get(client.Exists(owner, reader.Path()))(t).EphemeralOwner)
			_, digits, _ := strings.Cut(writer.Path(), "__WRIT__")
			require.True(t, strings.HasSuffix(reader.Path(), "-__READ__"+digits), "%s takes the place of %s", reader.Path(), writer.Path())
			both := awaitQueue(t, rw, 2)
			require.Equal(t, writer.Path(), both[0].Path)
			require.True(t, both[0].Holds && both[1].Holds)

			write, err := rw.WriteLock().Acquire(reader.Context(owner))
			require.NoError(t, err, "the owner of both sides re-enters either")
			release(t, write)
			read := must.Get(rw.ReadLock().Acquire(reader.Context(owner)))(t)
			require.Equal(t, reader.Path(), read.Path())
			release(t, read)

			leases := []*locks.Lease{reader, writer}
			if writerFirst {
				leases = []*locks.Lease{writer, reader}
			}
			release(t, leases[0])
			require.NoError(t, leases[1].Err())
			awaitQueue(t, rw, 1)
			if writerFirst {
				another, err := rw.ReadLock().TryAcquire(zktest.Context(t))
				require.NoError(t, err, "what remains is a reader")
				release(t, another)
				_, err = rw.WriteLock().Acquire(reader.Context(zktest.Context(t)))
				require.ErrorIs(t, err, locks.ErrUpgrade)
			}
			release(t, leases[1])
			_, err = rw.ReadLock().Acquire(context.WithoutCancel(owner))
			require.ErrorIs(t, err, locks.ErrReleased, "ownership of an ended lease is an error")
			awaitQueue(t, rw, 0)
		}
	})
}

// The writer's node goes while the request that creates the reader's is on its way:
// by then the next writer has got in, so there is nothing left to downgrade.
//
// See CURATOR-621.
func TestDowngradeComesTooLate(t *testing.T) {
	tryInTurn(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		admin := zktest.Client(t, server.ConnectString())
		link := zktest.NewProxy(t, server.Addr())
		rw := newReadWrite(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/locks/rw")
		before.Sessions += 2
		writer := acquire(t, rw.WriteLock())
		rival := newReadWrite(t, admin, "/locks/rw")
		waiting := acquireLater(zktest.Context(t), rival.WriteLock())
		awaitQueue(t, rival, 2)

		onItsWay, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		defer link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToServer && f.Op == zkproxy.OpCreate2 {
				once.Do(func() { close(onItsWay) })
				<-goOn
			}
			return zkproxy.Pass
		})()
		// Without its end: that of the writer is for the list to tell.
		owner := context.WithoutCancel(writer.Context(zktest.Context(t)))
		downgrade := acquireLater(owner, rw.ReadLock())
		awaitDone(t, onItsWay, "the request")
		require.NoError(t, admin.Delete(zktest.Context(t), writer.Path()))
		next := await(t, waiting)
		require.NoError(t, next.err)
		close(goOn)

		o := await(t, downgrade)
		lost := must.As[*locks.LostError](t, o.err)
		require.Equal(t, framework.ReasonNodeDeleted, lost.Reason)
		awaitQueue(t, rival, 1)
		release(t, next.lease)
		require.ErrorAs(t, writer.Release(zktest.Context(t)), &lost)
		server.AwaitCounts(t, before, limit)
	})
}

// Nobody is let in on either side with a number that several nodes may have.
//
// See kazoo#606, kazoo#730 and go-zookeeper#65.
func TestReadWriteLockWhenTheSequenceIsExhausted(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.None()))
	rw := newReadWrite(t, client, "/locks/rw")
	first := acquire(t, rw.ReadLock())
	require.NoError(t, server.SetSequence("/locks/rw", 1<<31-1))
	for range 2 {
		_, err := rw.ReadLock().Acquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrSequenceExhausted)
		_, err = rw.WriteLock().Acquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrSequenceExhausted)
	}
	awaitQueue(t, rw, 1)
	release(t, first)
}
