// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func newMulti(tb testing.TB, members ...locks.InterProcessLock) *locks.InterProcessMultiLock {
	tb.Helper()
	m := must.Get(locks.NewInterProcessMultiLock(members...))(tb)
	return m
}

func TestMultiLock(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		client, other := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		before.Sessions += 2
		a, b := newMutex(t, client, "/locks/a"), newMutex(t, client, "/locks/b")
		multi := newMulti(t, newReadWrite(t, client, "/locks/c").WriteLock(), b, a, a)
		lease := must.Get(multi.Acquire(zktest.Context(t)))(t)
		require.Len(t, lease.Leases(), 4)
		tokens := lease.Tokens()
		require.Equal(t, tokens[0], tokens[1], "a mutex that is named twice re-enters")
		require.Less(t, tokens[1], tokens[2], "acquired in the order of the paths")
		require.Less(t, tokens[2], tokens[3])
		require.NoError(t, lease.Err())

		_, err := newMutex(t, other, "/locks/b").TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		ctx := lease.Context(zktest.Context(t))
		again, err := multi.TryAcquire(ctx)
		require.NoError(t, err, "its context carries the ownership of all")
		require.Equal(t, tokens, again.Tokens())
		require.NoError(t, again.Release(zktest.Context(t)))

		require.NoError(t, lease.Release(zktest.Context(t)))
		require.NoError(t, lease.Release(zktest.Context(t)), "idempotent")
		awaitDone(t, ctx.Done(), "the end of the context")
		require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		require.NoError(t, (*locks.MultiLease)(nil).Release(context.Background()))
		server.AwaitCounts(t, before, limit)

		err = multi.Do(zktest.Context(t), func(ctx context.Context) error {
			awaitQueue(t, a, 1)
			return ctx.Err()
		})
		require.NoError(t, err)
		awaitQueue(t, a, 0)
	})
}

// embedding is a lock of another package around one of ours.
type embedding struct{ *locks.InterProcessMutex }

// TestMultiLocksOfViewsDoNotWaitInACircle: clients that name the same locks through
// views and chroots, whose relative paths sort differently, take turns too.
func TestMultiLocksOfViewsDoNotWaitInACircle(t *testing.T) {
	server := zktest.NewServer(t)
	whole := zktest.Client(t, server.Addr())
	view := must.Get(whole.UsingNamespace("shop"))(t)
	rooted := zktest.Client(t, server.Addr()+"/shop")
	top := zktest.Client(t, server.Addr())
	multis := []*locks.InterProcessMultiLock{
		newMulti(t, newMutex(t, whole, "/shop/z"), newMutex(t, whole, "/tax")),
		newMulti(t, newMutex(t, view, "/z"), newMutex(t, whole, "/tax")),
		newMulti(t, newMutex(t, top, "/tax"), newMutex(t, rooted, "/z")),
		newMulti(t, embedding{newMutex(t, rooted, "/z")}, embedding{newMutex(t, top, "/tax")}),
	}
	requireTurns(t, multis, 25)
}

// TestMultiLocksOfSeveralKindsAtOnePath: locks of several kinds may share a path, and
// multi-locks of them acquire them in one order nevertheless.
func TestMultiLocksOfSeveralKindsAtOnePath(t *testing.T) {
	server := zktest.NewServer(t)
	var multis []*locks.InterProcessMultiLock
	for i := range 2 {
		client := zktest.Client(t, server.Addr())
		rw := newReadWrite(t, client, "/locks/a")
		members := []locks.InterProcessLock{
			newMutex(t, client, "/locks/a"), rw.ReadLock(), rw.WriteLock(), newSemaphore(t, client, "/locks/a", locks.FixedLeases(1)),
		}
		if i == 1 {
			slices.Reverse(members)
		}
		multis = append(multis, newMulti(t, members...))
	}
	requireTurns(t, multis, 10)
}

// requireTurns has each multi-lock held so often, one at a time.
func requireTurns(t *testing.T, multis []*locks.InterProcessMultiLock, turns int) {
	t.Helper()
	var wg sync.WaitGroup
	inside := 0 // unprotected on purpose: the race detector is one more witness
	for _, multi := range multis {
		wg.Go(func() {
			for range turns {
				err := multi.Do(zktest.Context(t), func(context.Context) error {
					if inside++; inside != 1 {
						t.Errorf("%d at once", inside)
					}
					inside--
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// failingLock fails; it counts how often it was tried.
type failingLock struct {
	path  string
	err   error
	tries int
}

func (f *failingLock) Path() string { return f.path }

func (f *failingLock) Acquire(context.Context) (*locks.Lease, error) {
	f.tries++
	return nil, f.err
}

func (f *failingLock) TryAcquire(ctx context.Context) (*locks.Lease, error) { return f.Acquire(ctx) }

func TestMultiLockFirstFailureStopsAMultiLock(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		before := server.Counts(t)
		trouble := errors.New("trouble")
		// A multi-lock orders its members by their paths at the server, and the backend has a chroot.
		second := &failingLock{path: client.FullPath("/locks/b"), err: trouble}
		third := &failingLock{path: client.FullPath("/locks/c"), err: errors.New("too late")}
		multi := newMulti(t, third, second, newMutex(t, client, "/locks/a"))
		for _, try := range []func(context.Context) (*locks.MultiLease, error){multi.Acquire, multi.TryAcquire} {
			lease, err := try(zktest.Context(t))
			require.Nil(t, lease)
			require.ErrorIs(t, err, trouble)
			require.Equal(t, trouble.Error(), err.Error(), "the release has nothing to add")
		}
		require.Equal(t, 2, second.tries)
		require.Zero(t, third.tries)
		awaitQueue(t, newMutex(t, client, "/locks/a"), 0)
		server.AwaitCounts(t, before, limit)
	})
}

func TestMultiLockMemberIsLost(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		a, b, c := newMutex(t, client, "/locks/a"), newMutex(t, client, "/locks/b"), newMutex(t, client, "/locks/c")
		lease := must.Get(newMulti(t, a, b, c).Acquire(zktest.Context(t)))(t)
		ctx := lease.Context(zktest.Context(t))
		require.NoError(t, client.Delete(zktest.Context(t), lease.Leases()[0].Path()))
		awaitDone(t, ctx.Done(), "the loss")
		awaitDone(t, lease.Done(), "the loss, as the lease says")
		lost := must.As[*locks.LostError](t, context.Cause(ctx))
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, framework.ReasonNodeDeleted, lost.Reason)
		require.NoError(t, lease.Leases()[2].Err(), "each is lost by itself")
		require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
		awaitQueue(t, c, 0)

		// One is lost while the next is waited for.
		holder := acquire(t, b)
		failed := make(chan error, 1)
		multi := newMulti(t, a, b)
		go func() {
			_, err := multi.Acquire(zktest.Context(t))
			failed <- err
		}()
		awaitQueue(t, b, 2)
		require.NoError(t, client.Delete(zktest.Context(t), awaitQueue(t, a, 1)[0].Path))
		err := <-failed
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.ErrorAs(t, err, &lost)
		awaitQueue(t, b, 1)
		release(t, holder)
	})
}

func TestMultiLockBadMembers(t *testing.T) {
	_, err := locks.NewInterProcessMultiLock()
	require.ErrorContains(t, err, "locks: a multi-lock without members")
	_, err = locks.NewInterProcessMultiLock(&failingLock{}, nil)
	require.ErrorContains(t, err, "locks: member 1 of a multi-lock is nil")
}

// panickingLock is a lock of another package.
type panickingLock struct{ locks.InterProcessLock }

func (panickingLock) Acquire(context.Context) (*locks.Lease, error) { panic("its own fault") }

// TestMultiLockMemberThatPanics: the members before it are given back.
func TestMultiLockMemberThatPanics(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	multi := newMulti(t, newMutex(t, client, "/a"), panickingLock{newMutex(t, client, "/b")})
	require.PanicsWithValue(t, "its own fault", func() { _, _ = multi.Acquire(zktest.Context(t)) })
	lease := must.Get(newMutex(t, zktest.Client(t, server), "/a").TryAcquire(zktest.Context(t)))(t)
	release(t, lease)
}

// emptyLock is a lock of another package, as a test may fake one.
type emptyLock struct{ locks.InterProcessLock }

func (emptyLock) Acquire(context.Context) (*locks.Lease, error) { return nil, nil } //nolint:nilnil // its fault

// TestLockThatReturnsNoLease: a lock that returns neither a lease nor an error is named, and the members before it are given back.
func TestLockThatReturnsNoLease(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	empty := emptyLock{newMutex(t, client, "/b")}
	_, err := newMulti(t, newMutex(t, client, "/a"), empty).Acquire(zktest.Context(t))
	require.ErrorContains(t, err, "locks: acquire /b: locks_test.emptyLock returned no lease and no error")
	lease := must.Get(newMutex(t, zktest.Client(t, server), "/a").TryAcquire(zktest.Context(t)))(t)
	release(t, lease)
	err = locks.Do(zktest.Context(t), empty, func(context.Context) error { return errors.New("the function was called") })
	require.ErrorContains(t, err, "returned no lease and no error")
}
