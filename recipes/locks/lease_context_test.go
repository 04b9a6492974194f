// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// A context of a lease that is derived from one which has ended has ended too, and one
// whose parent is cancelled knows it when cancel returns: as in package context.
func TestLeaseContextEndsAtOnce(t *testing.T) {
	m := newMutex(t, zktest.Client(t, zktest.NewServer(t).Addr()), "/lock")
	lease := acquire(t, m)
	defer release(t, lease)
	reason := errors.New("reason")
	for range 1000 {
		ctx, cancel := context.WithCancelCause(context.Background())
		before := lease.Context(ctx)
		child, stop := context.WithCancel(before)
		require.NoError(t, before.Err())
		cancel(reason)
		require.Equal(t, reason, context.Cause(before))
		require.Equal(t, context.Canceled, before.Err())
		awaitDone(t, child.Done(), "the end of a child")
		stop()

		after := lease.Context(ctx)
		require.Equal(t, context.Canceled, after.Err())
		require.Equal(t, reason, context.Cause(after))
		select {
		case <-after.Done():
		default:
			t.Fatal("it has ended, and is not done")
		}
		require.NoError(t, lease.Err())
	}
}

// TestLeaseContextEndsAsItsParent: the error after a deadline is that of a deadline, unless the lease has ended before.
func TestLeaseContextEndsAsItsParent(t *testing.T) {
	m := newMutex(t, zktest.Client(t, zktest.NewServer(t).Addr()), "/lock")
	lease := acquire(t, m)
	reason := errors.New("reason")
	short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, reason)
	defer cancel()
	ctx := lease.Context(lease.Context(short))
	want, _ := short.Deadline()
	got, ok := ctx.Deadline()
	require.True(t, ok)
	require.Equal(t, want, got)
	awaitDone(t, ctx.Done(), "the deadline")
	require.Equal(t, context.DeadlineExceeded, ctx.Err())
	require.Equal(t, reason, context.Cause(ctx))

	long, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	released := lease.Context(long)
	release(t, lease)
	require.Equal(t, context.Canceled, released.Err())
	awaitDone(t, long.Done(), "the deadline")
	require.Equal(t, context.Canceled, released.Err())
	require.Equal(t, context.DeadlineExceeded, ctx.Err(), "and it stays")
}

// asked counts how often it is asked whether it has ended.
type asked struct {
	context.Context
	times atomic.Int64
}

func (a *asked) Err() error {
	a.times.Add(1)
	return a.Context.Err()
}

// TestLeaseContextOfManyLeases: the context of a multi-lock has one inside the other, and knows soon that it has ended.
func TestLeaseContextOfManyLeases(t *testing.T) {
	lease := acquire(t, newMutex(t, zktest.Client(t, zktest.NewServer(t).Addr()), "/lock"))
	defer release(t, lease)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	outer := &asked{Context: ended}
	ctx := context.Context(outer)
	for range 8 {
		ctx = lease.Context(ctx) //nolint:fatcontext // many are meant
	}
	require.Equal(t, context.Canceled, ctx.Err())
	require.Less(t, outer.times.Load(), int64(100))
}

// A lease under which a context is derived for each of many requests does not grow.
func TestLeaseContextsKeepNothing(t *testing.T) {
	const requests = 8_000
	m := newMutex(t, zktest.Client(t, zktest.NewServer(t).Addr()), "/lock")
	lease := acquire(t, m)
	defer release(t, lease)
	long := t.Context()
	type key struct{}
	for name, parent := range map[string]func() (context.Context, context.CancelFunc){
		"without an end": func() (context.Context, context.CancelFunc) {
			return context.WithValue(context.Background(), key{}, name(t)), func() {}
		},
		"long": func() (context.Context, context.CancelFunc) {
			return context.WithValue(long, key{}, name(t)), func() {}
		},
		"short": func() (context.Context, context.CancelFunc) { return context.WithCancel(long) },
	} {
		t.Run(name, func(t *testing.T) {
			before, routines := heap(), runtime.NumGoroutine()
			for i := range requests {
				if i%500 == 0 { // contexts end on goroutines, which take memory forever once they are many
					awaitGoroutines(t, "after a part of the requests", routines)
				}
				ctx, cancel := parent()
				held := lease.Context(ctx)
				if held.Err() != nil || held.Value(key{}) != ctx.Value(key{}) {
					t.Fatal("the lease's context is not its parent's")
				}
				cancel()
			}
			awaitGoroutines(t, "after the last request", routines)
			// Contexts that end faster than they are forgotten leave room in a map.
			require.Eventually(t, func() bool { return heap()-before < 200*requests }, limit, 10*time.Millisecond, "bytes")
		})
	}
}

func name(t *testing.T) string { t.Helper(); return t.Name() }

// heap returns the bytes that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// Each miss of a look-up in a context under a lease passes the lease.
func TestLeaseValueUnderALeaseCostsNoMemory(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	view := must.Get(client.UsingNamespace("app"))(t)
	lease := acquire(t, newMutex(t, view, "/lock"))
	defer release(t, lease)
	type key struct{}
	ctx := lease.Context(t.Context())
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = ctx.Value(key{}) }))
	require.Same(t, lease, locks.LeaseFrom(ctx))
}
