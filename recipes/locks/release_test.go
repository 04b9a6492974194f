// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A release without a connection says that the deletion is pending (CURATOR-678),
// does it when there is one again, and the lock can be acquired as ever.
func TestReleaseWhileDisconnected(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		client, link := zktest.ClientViaProxy(t, server)
		other := newMutex(t, zktest.Client(t, server.ConnectString()), path)
		m := newMutex(t, client, path, locks.WithErrorPolicy(framework.SessionErrorPolicy))
		lease := acquire(t, m)
		suspended := make(chan struct{})
		var once sync.Once
		defer client.OnConnectionState(func(s framework.ConnectionState) {
			if s == framework.Suspended {
				once.Do(func() { close(suspended) })
			}
		}).Remove()
		link.Refuse(true)
		link.Cut()
		awaitDone(t, suspended, "the end of the connection")
		require.NoError(t, lease.Err())

		ctx, cancel := context.WithCancel(context.Background())
		released := make(chan error, 1)
		go func() { released <- lease.Release(ctx) }()
		awaitDone(t, lease.Done(), "the end of the lease")
		cancel()
		require.ErrorIs(t, <-released, framework.ErrCleanupPending)
		require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		require.NoError(t, lease.Release(zktest.Context(t)), "a second release has nothing to do")
		require.Equal(t, lease.Path(), awaitQueue(t, other, 1)[0].Path)

		link.Refuse(false)
		release(t, acquire(t, other))
		release(t, acquire(t, m))
		awaitQueue(t, other, 0)
	})
}

// Whoever releases a lease at the same time as others, it is released once, and
// nobody else's hold is touched.
//
// See CURATOR-376 and redsync#125.
func TestReleaseAllReleaseAtOnce(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/once")
		lease := acquire(t, m)
		waiting := acquireLater(zktest.Context(t), m)
		awaitQueue(t, m, 2)
		errs := make(chan error, 8)
		var wg sync.WaitGroup
		for range cap(errs) {
			wg.Go(func() { errs <- lease.Release(zktest.Context(t)) })
		}
		wg.Wait()
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, lease)
		require.NoError(t, o.lease.Err())
		awaitQueue(t, m, 1)
		release(t, o.lease)
	})
}

// The lock is given back after the function that it was held for has returned, also
// when its context has ended long before.
//
// See kubernetes#139991 and controller-runtime#1132.
func TestDoGivesBackAfterTheFunction(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/do")
		ctx, cancel := context.WithCancel(context.Background())
		waiting := make(<-chan outcome)
		err := m.Do(ctx, func(ctx context.Context) error {
			waiting = acquireLater(zktest.Context(t), newMutex(t, client, "/locks/do"))
			queue := awaitQueue(t, m, 2)
			cancel()
			awaitDone(t, ctx.Done(), "the end of the context")
			require.NoError(t, client.Sync(zktest.Context(t), "/")) // whatever was sent has been done
			require.Equal(t, queue, must.Get(m.Participants(zktest.Context(t)))(t))
			require.Empty(t, waiting)
			return nil
		})
		require.NoError(t, err)
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// TestReleaseLeasesOfAHoldAreReleasedAtOnce: whichever is the last one, each release succeeds.
//
// It has each of them stop where it has counted itself out and let go of the hold's
// mutex, until the last one has ended the hold: the releases have waited for the mutex
// for more than a millisecond, so it is handed from one to the next (see sync.Mutex on
// starvation), and there is one processor, which goes with it.
func TestReleaseLeasesOfAHoldAreReleasedAtOnce(t *testing.T) {
	const rounds, leases = 5, 4
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	server := zktest.NewServer(t)
	m := newMutex(t, zktest.Client(t, server.Addr()), "/locks/together")
	for range rounds {
		all := []*locks.Lease{acquire(t, m)}
		for deadline := time.Now().Add(limit); server.Stats().Watches == 0; time.Sleep(time.Millisecond) {
			require.Less(t, time.Now(), deadline, "the hold does not watch its node")
		}
		for range leases - 1 {
			again := must.Get(m.Acquire(all[0].Context(zktest.Context(t))))(t)
			all = append(all, again)
		}
		held := locks.MutexOfHold(all[0])
		held.Lock()
		var released sync.WaitGroup
		errs := make([]error, leases)
		for i, lease := range all {
			released.Go(func() { errs[i] = lease.Release(context.Background()) })
		}
		awaitStacks(t, "locks.(*hold).leave(", leases)
		time.Sleep(2 * time.Millisecond) // no signal comes of it: they have to wait for so long
		held.Unlock()
		held.Lock()       // before the first of them wakes up, who then
		runtime.Gosched() // asks for the mutex to be handed on
		held.Unlock()
		released.Wait()
		require.NoError(t, errors.Join(errs...))
	}
}

// A release that is answered while the client is being closed has come first: it is no loss.
func TestReleaseClientIsClosedDuringTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		lease := acquire(t, newMutex(t, client, "/lock"))
		ended := client.Session().Done()
		arrived := make(chan struct{})
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpDelete {
				return zkserver.Pass
			}
			close(arrived)
			return zkserver.HoldUntil(ended)
		})
		defer remove()
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		<-arrived
		require.NoError(t, client.Close())
		require.NoError(t, <-released)
	})
}

// TestReleaseThatIsRefused, because somebody has taken the right to delete away, is
// made as soon as there is the right again, and does not block the lock until the
// session ends.
func TestReleaseThatIsRefused(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		holder, other := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		lease := acquire(t, newMutex(t, holder, "/locks/refused"))
		waiting := acquireLater(zktest.Context(t), newMutex(t, other, "/locks/refused"))
		awaitQueue(t, newMutex(t, other, "/locks/refused"), 2)
		require.NoError(t, other.SetACL(zktest.Context(t), "/locks/refused", zk.WorldACL(zk.PermRead|zk.PermAdmin)))
		err := lease.Release(zktest.Context(t))
		require.ErrorIs(t, err, framework.ErrCleanupPending)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Empty(t, waiting)
		require.NoError(t, other.SetACL(zktest.Context(t), "/locks/refused", zk.WorldACL(zk.PermAll)))
		next := await(t, waiting)
		require.NoError(t, next.err)
		release(t, next.lease)
	})
}

// awaitStacks waits until so many goroutines are in the function.
func awaitStacks(t *testing.T, function string, n int) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(limit); ; runtime.Gosched() {
		in := bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(function))
		if in == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are in %s, want %d", in, function, n)
		}
	}
}

// TestReleaseInAnOutage is bounded by what comes first: the deadline of its context, ten
// seconds if there is none, or the end of the session.
func TestReleaseInAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		session  time.Duration
		deadline time.Duration // of the context, 0 for none
		ended    bool
		bound    time.Duration
		lost     bool
	}{
		"no deadline":     {session: 40 * time.Second, bound: 10 * time.Second},
		"ended":           {session: 40 * time.Second, ended: true, bound: 10 * time.Second},
		"short deadline":  {session: 40 * time.Second, deadline: 3 * time.Second, bound: 3 * time.Second},
		"late deadline":   {session: 40 * time.Second, deadline: 20 * time.Second, bound: 20 * time.Second},
		"short session":   {session: 6 * time.Second, bound: 6 * time.Second, lost: true},
		"session, ended":  {session: 6 * time.Second, ended: true, bound: 6 * time.Second, lost: true},
		"session, all on": {session: 6 * time.Second, deadline: time.Hour, bound: 6 * time.Second, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithTick(2*time.Second))
				client := zktest.Client(t, server, framework.WithSessionTimeout(c.session))
				require.Equal(t, c.session, client.Session().Timeout())
				lease := acquire(t, newMutex(t, client, "/lock", locks.WithErrorPolicy(framework.SessionErrorPolicy)))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.ended {
					cancel()
				}
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				defer server.Refuse()()
				require.Equal(t, 1, server.Cut(client.Session().ID(), 1))
				zktest.AwaitState(t, client, framework.Suspended)
				began := time.Now()
				err := lease.Release(ctx)
				require.LessOrEqual(t, time.Since(began), c.bound)
				require.Greater(t, time.Since(began), c.bound*9/10)
				require.Equal(t, lease.Path(), must.As[*locks.ReleaseError](t, err).Path)
				require.Equal(t, 1, strings.Count(err.Error(), lease.Path()), err.Error())
				require.ErrorIs(t, err, framework.ErrCleanupPending)
				var lost *locks.LostError
				require.Equal(t, c.lost, errors.As(err, &lost), err.Error())
				if c.lost {
					require.Equal(t, framework.ReasonLeaseEnd, lost.Reason)
				}
			})
		})
	}
}

// TestDoTellsWorkDoneFromNotAcquired: a failed release is a *ReleaseError, and a loss that
// the work has reported is told once, in one line.
func TestDoTellsWorkDoneFromNotAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		m := newMutex(t, client, "/lock", locks.WithErrorPolicy(framework.SessionErrorPolicy))
		trouble := errors.New("trouble")
		suspend := func() (allow func()) {
			allow = server.Refuse()
			server.Cut(client.Session().ID(), 1)
			zktest.AwaitState(t, client, framework.Suspended)
			return allow
		}
		var failed *locks.ReleaseError
		for _, work := range []error{nil, trouble} {
			var allow func()
			err := m.Do(context.Background(), func(context.Context) error {
				allow = suspend()
				return work
			})
			require.ErrorAs(t, err, &failed)
			if work != nil {
				require.ErrorIs(t, err, work)
			}
			require.NotContains(t, err.Error(), "\n")
			allow()
			zktest.AwaitState(t, client, framework.Reconnected)
			time.Sleep(time.Minute)
		}
		var lost *locks.LostError
		err := m.Do(context.Background(), func(ctx context.Context) error {
			defer suspend()()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorAs(t, err, &lost)
		require.Equal(t, lost.Error(), err.Error())

		time.Sleep(time.Minute)
		allow := suspend()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err = m.Do(ctx, func(context.Context) error { t.Error("it cannot have been acquired"); return nil })
		require.Error(t, err)
		require.NotErrorAs(t, err, &failed)
		allow()
	})
}
