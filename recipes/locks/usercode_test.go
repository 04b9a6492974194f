// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// intruder is what users give to a lock: a driver, a source of leases and a listener. Once
// it is asked to, it misbehaves in one of its methods.
type intruder struct {
	locks.StandardLockInternalsDriver

	place string
	does  func()
	armed *atomic.Bool
}

func (i intruder) act(place string) {
	if place == i.place && i.armed.CompareAndSwap(true, false) {
		i.does()
	}
}

func (i intruder) Contends(name string) bool {
	i.act("Contends")
	return i.StandardLockInternalsDriver.Contends(name)
}

func (i intruder) Compare(a, b string) int {
	i.act("Compare")
	return i.StandardLockInternalsDriver.Compare(a, b)
}

func (i intruder) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	i.act("CreatesTheLock")
	return i.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
}

func (i intruder) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	i.act("GetsTheLock")
	return i.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
}

func (i intruder) MaxLeases(context.Context) (int, <-chan struct{}, error) {
	i.act("MaxLeases")
	return 1, nil, nil
}

// intrudedLock returns the lock at the path with the intruder in it.
func intrudedLock(t *testing.T, i intruder, client *framework.Framework, path string) locks.InterProcessLock {
	t.Helper()
	listener := locks.WithRevocationListener(func(*locks.Lease) { i.act("listener") })
	queued := locks.WithQueueListener(func(string, int) { i.act("queue listener") })
	var lock locks.InterProcessLock
	var err error
	if i.place == "MaxLeases" {
		lock, err = locks.NewInterProcessSemaphore(client, path, i, listener, queued)
	} else {
		lock, err = locks.NewLockInternals(client, i, path, "lock-", 1, listener, queued)
	}
	require.NoError(t, err)
	return lock
}

// TestUserCodeCostsItsCallerAlone has what users give to a lock block, panic, call the client
// back or close it. In the meantime the client's other locks work; afterwards another client
// has the lock, and nothing is left.
func TestUserCodeCostsItsCallerAlone(t *testing.T) {
	const soon = time.Second
	for _, place := range []string{"CreatesTheLock", "Contends", "Compare", "GetsTheLock", "MaxLeases", "listener", "queue listener"} {
		for _, behaviour := range []string{"blocks", "panics", "calls back", "closes the client"} {
			t.Run(fmt.Sprintf("%s %s", place, behaviour), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zkserver.WithoutListener())
					client := must.Get(framework.Connect(t.Context(), "memory:2181",
						framework.WithDialer(server.Dial), framework.WithLogger(slog.New(slog.DiscardHandler))))(t)
					t.Cleanup(func() { _ = client.Close() }) // it may be closed
					other := zktest.Client(t, server)
					syncAll(t, client, other)
					before := server.Stats()
					unblock := make(chan struct{})
					i := intruder{StandardLockInternalsDriver: locks.StandardLockInternalsDriver{
						StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
					}, place: place, armed: new(atomic.Bool)}
					i.does = map[string]func(){
						"blocks": func() { <-unblock },
						"panics": func() { panic("the user's own fault") },
						"calls back": func() {
							if _, err := client.Exists(context.Background(), "/"); err != nil {
								t.Error(err)
							}
						},
						"closes the client": func() { _ = client.Close() }, // the test is for what comes of it
					}[behaviour]
					lock := intrudedLock(t, i, client, "/lock")
					first := acquire(t, newMutex(t, other, "/lock")) // so that there are names to compare
					i.armed.Store(true)
					made := acquireRecovering(lock)
					time.Sleep(soon)

					if behaviour == "blocks" {
						release(t, acquire(t, newMutex(t, client, "/another")))
						close(unblock)
					}
					release(t, first)
					time.Sleep(soon)
					if place == "listener" {
						o := <-made
						require.NoError(t, o.err)
						require.NoError(t, locks.AttemptRevoke(t.Context(), other, o.lease.Path()))
						time.Sleep(soon)
						made <- o
					}
					require.False(t, i.armed.Load(), "it was called")
					if o := <-made; o.lease != nil {
						_ = o.lease.Release(t.Context()) // its client may be closed
					}

					began := time.Now()
					release(t, acquire(t, newMutex(t, other, "/lock")))
					require.Less(t, time.Since(began), soon, "until another client has the lock")
					release(t, acquire(t, newMutex(t, other, "/lock")))
					time.Sleep(soon)
					after := server.Stats()
					require.Equal(t, before.Ephemerals, after.Ephemerals, "nodes")
					require.LessOrEqual(t, after.Watches, before.Watches)
				})
			})
		}
	}
}

// acquireRecovering acquires in the background. A panic of the lock's user code is an error.
func acquireRecovering(lock locks.InterProcessLock) chan outcome {
	result := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if recovered := recover(); recovered != nil {
				o.err = errors.New("it has panicked")
			}
			result <- o
		}()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		o.lease, o.err = lock.Acquire(ctx)
	}()
	return result
}

// maximum is a source of leases that a test makes up.
type maximum func() int

func (m maximum) MaxLeases(context.Context) (int, <-chan struct{}, error) { return m(), nil, nil }

// TestUserCodePanicGivesBackTheLeasesBefore: an acquisition of several leases gives back those that
// it has when the source of leases panics.
func TestUserCodePanicGivesBackTheLeasesBefore(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		asked := 0
		s := newSemaphore(t, w.waiter, "/s", maximum(func() int {
			if asked++; asked == 3 { // at first, for the first lease, for the second
				panic("the user's own fault")
			}
			return 2
		}))
		require.Panics(t, func() { _, _ = s.AcquireN(context.Background(), 2) })
		requireNoChildren(t, w.holder, "/s/leases")
		leases := must.Get(s.AcquireN(context.Background(), 2))(t)
		releaseAll(t, leases)
	})
}
