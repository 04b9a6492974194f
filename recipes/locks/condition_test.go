// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	conditionLock = "/locks/shelf"
	conditionPath = "/locks/shelf-filled"
)

// party is one client with the mutex and its condition.
type party struct {
	client    *framework.Framework
	mutex     *locks.InterProcessMutex
	condition *locks.Condition
}

func newParty(tb testing.TB, connectString string, opts ...framework.Option) *party {
	tb.Helper()
	return partyOf(tb, zktest.Client(tb, connectString, opts...))
}

func partyOf(tb testing.TB, client *framework.Framework) *party {
	tb.Helper()
	p := &party{client: client}
	p.mutex = newMutex(tb, p.client, conditionLock)
	p.condition = newCondition(tb, p.mutex)
	return p
}

func newCondition(tb testing.TB, mutex *locks.InterProcessMutex) *locks.Condition {
	tb.Helper()
	c, err := mutex.NewCondition(conditionPath)
	require.NoError(tb, err)
	return c
}

// awaitLater acquires the lock, begins to wait for the condition, and returns when it
// is the n-th waiter.
func (p *party) awaitLater(tb testing.TB, ctx context.Context, n int) <-chan outcome { //nolint:revive // tb first, as everywhere here
	tb.Helper()
	result := make(chan outcome, 1)
	p.awaitInto(ctx, acquire(tb, p.mutex), result)
	p.awaitWaiters(tb, n)
	return result
}

// awaitInto waits with this lease in another goroutine.
func (p *party) awaitInto(ctx context.Context, lease *locks.Lease, results chan<- outcome) {
	go func() {
		again, err := p.condition.Await(ctx, lease)
		results <- outcome{again, err}
	}()
}

func (p *party) awaitWaiters(tb testing.TB, n int) []locks.Participant {
	tb.Helper()
	return awaitQueue(tb, waitersOf{p.condition}, n)
}

// waitersOf is the queue of a condition.
type waitersOf struct{ *locks.Condition }

func (w waitersOf) Participants(ctx context.Context) ([]locks.Participant, error) {
	return w.Waiters(ctx)
}

// signal signals once and gives the lock back.
func (p *party) signal(tb testing.TB) {
	tb.Helper()
	lease := acquire(tb, p.mutex)
	require.NoError(tb, p.condition.Signal(zktest.Context(tb), lease))
	release(tb, lease)
}

// requireSignalled releases the lease that the wait must have returned.
func requireSignalled(tb testing.TB, result <-chan outcome) {
	tb.Helper()
	o := await(tb, result)
	require.NoError(tb, o.err)
	release(tb, o.lease)
}

// requireWaiting fails if any of the waits is over, or signalled. One that has just
// begun may still have to put old signals away.
func (p *party) requireWaiting(tb testing.TB, results ...<-chan outcome) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		return !slices.ContainsFunc(p.awaitWaiters(tb, len(results)), func(w locks.Participant) bool { return w.Holds })
	}, limit, time.Millisecond, "a waiter has been signalled")
	for i, result := range results {
		require.Empty(tb, result, "waiter %d has returned", i)
	}
}

// TestConditionSignalsGoToTheLongestWaiter signals three waiters of two clients one by one.
func TestConditionSignalsGoToTheLongestWaiter(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		a, b := newParty(t, server.ConnectString()), newParty(t, server.ConnectString())
		before := server.Counts(t)
		ctx := zktest.Context(t)
		a.signal(t) // nobody waits: it is not remembered
		first := a.awaitLater(t, ctx, 1)
		second := b.awaitLater(t, ctx, 2)
		third := a.awaitLater(t, ctx, 3)
		a.requireWaiting(t, first, second, third)

		a.signal(t)
		requireSignalled(t, first)
		a.requireWaiting(t, second, third)
		b.signal(t)
		requireSignalled(t, second)
		a.requireWaiting(t, third)
		b.signal(t)
		requireSignalled(t, third)
		server.AwaitCounts(t, before, limit)
	})
}

// TestConditionSignalIsTakenUnderTheLock: the signalled one goes on when the lock is given back, with
// a lease and a token of its own.
func TestConditionSignalIsTakenUnderTheLock(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		p := newParty(t, server.ConnectString())
		ctx := zktest.Context(t)
		waiting := p.awaitLater(t, ctx, 1)
		lease := acquire(t, p.mutex)
		require.NoError(t, p.condition.Signal(ctx, lease))
		require.NoError(t, p.condition.Signal(ctx, lease), "nobody else waits")
		awaitQueue(t, p.mutex, 2)
		waiters := p.awaitWaiters(t, 1)
		require.True(t, waiters[0].Holds, "signalled")
		require.Empty(t, waiting, "without the lock")
		release(t, lease)
		o := await(t, waiting)
		require.NoError(t, o.err)
		require.NoError(t, o.lease.Err())
		require.Greater(t, o.lease.Token(), lease.Token())
		require.Empty(t, p.awaitWaiters(t, 0))
		release(t, o.lease)

		// The second signal was for nobody.
		p.requireWaiting(t, p.awaitLater(t, cancelled(t), 1))
	})
}

// cancelled returns a context that ends with the test.
func cancelled(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	return ctx
}

// TestSignalAll wakes everybody who waits and nobody who comes later, also not whoever
// has sent the signal and waits himself.
func TestSignalAll(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		a, b := newParty(t, server.ConnectString()), newParty(t, server.ConnectString())
		ctx := zktest.Context(t)
		const n = 5
		waiting := make(chan outcome, n) // of all, as the lock may go to any of them first
		for i := range n {
			p := []*party{a, b}[i%2]
			p.awaitInto(ctx, acquire(t, p.mutex), waiting)
			p.awaitWaiters(t, i+1)
		}
		lease := acquire(t, a.mutex)
		require.NoError(t, a.condition.SignalAll(ctx, lease))
		later := make(chan outcome, 1)
		a.awaitInto(ctx, lease, later)
		for range n {
			requireSignalled(t, waiting)
		}
		b.requireWaiting(t, later)
		b.signal(t)
		requireSignalled(t, later)
	})
}

// TestConditionMoreWaitersThanOneTransactionTells wakes more than are told at once.
func TestConditionMoreWaitersThanOneTransactionTells(t *testing.T) {
	t.Parallel()
	server := zktest.Embedded(zktest.NewServer(t))
	p := newParty(t, server.ConnectString())
	const n = 2*locks.SignalBatch + 1
	results := make(chan outcome, n)
	for range n {
		p.awaitInto(t.Context(), acquire(t, p.mutex), results)
	}
	lease := acquire(t, p.mutex)
	p.awaitWaiters(t, n)
	require.NoError(t, p.condition.SignalAll(t.Context(), lease))
	release(t, lease)
	for range n {
		requireSignalled(t, results)
	}
}

// TestConditionSignalOfAWaiterThatIsGone ends a waiter that was signalled, in each way in
// which one can end before it has the lock again: the next one gets the signal.
func TestConditionSignalOfAWaiterThatIsGone(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, server zktest.Backend, p *party, giveUp func()){
		"gave up": func(_ *testing.T, _ zktest.Backend, _ *party, giveUp func()) { giveUp() },
		"session killed": func(t *testing.T, server zktest.Backend, p *party, _ func()) {
			zktest.KillSession(t, p.client, server.Addr())
		},
		"client closed": func(t *testing.T, _ zktest.Backend, p *party, _ func()) { require.NoError(t, p.client.Close()) },
		"node deleted by hand": func(t *testing.T, _ zktest.Backend, p *party, _ func()) {
			waiters := p.awaitWaiters(t, 2)
			require.NoError(t, p.client.Delete(zktest.Context(t), waiters[0].Path))
		},
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				a, b := newParty(t, server.ConnectString()), newParty(t, server.ConnectString())
				ctx, giveUp := context.WithCancel(zktest.Context(t))
				defer giveUp()
				results := make(chan outcome, 2)
				b.awaitInto(ctx, acquire(t, b.mutex), results)
				a.awaitWaiters(t, 1)
				second := acquire(t, a.mutex)
				a.awaitInto(zktest.Context(t), second, results)
				waiters := a.awaitWaiters(t, 2)
				lease := acquire(t, a.mutex)
				require.NoError(t, a.condition.Signal(zktest.Context(t), lease))
				end(t, server, b, giveUp)
				require.Eventually(t, func() bool {
					left := a.awaitWaiters(t, 1)
					return left[0].Holds && left[0].Path == waiters[1].Path
				}, limit, time.Millisecond, "the second waiter has the signal")
				release(t, lease)
				// The first returns with the lock, or with an error and nothing.
				returned := 0
				for range 2 {
					if o := await(t, results); o.err == nil {
						returned++
						release(t, o.lease)
					}
				}
				require.Positive(t, returned)
				a.awaitWaiters(t, 0)
				awaitQueue(t, a.mutex, 0)
			})
		}
	})
}

// TestConditionWaiterLosesItsSession: a signal may have been missed, so the wait is over.
func TestConditionWaiterLosesItsSession(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		a, b := newParty(t, server.ConnectString()), newParty(t, server.ConnectString())
		waiting := b.awaitLater(t, zktest.Context(t), 1)
		awaitQueue(t, a.mutex, 0) // given back: losing it before would be an error
		old := b.client.Session()
		zktest.KillSession(t, b.client, server.Addr())
		o := await(t, waiting)
		require.NoError(t, o.err)
		require.ErrorIs(t, old.Err(), framework.ErrSessionExpired)
		participants := awaitQueue(t, a.mutex, 1)
		require.Equal(t, o.lease.Token(), participants[0].Token, "it has the lock")
		release(t, o.lease)
		a.awaitWaiters(t, 0)
	})
}

// TestConditionWithoutItsLock is refused, and never leaves the lock held.
func TestConditionWithoutItsLock(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		p := newParty(t, server.ConnectString())
		other := acquire(t, newMutex(t, p.client, "/locks/other"))
		gone := acquire(t, p.mutex)
		release(t, gone)
		lost := acquire(t, p.mutex)
		require.NoError(t, p.client.Delete(zktest.Context(t), lost.Path()))
		awaitDone(t, lost.Done(), "the loss")
		for name, lease := range map[string]*locks.Lease{"nil": nil, "of another lock": other, "released": gone, "lost": lost} {
			ctx := zktest.Context(t)
			require.ErrorIs(t, p.condition.Signal(ctx, lease), locks.ErrNotHeld, name)
			require.ErrorIs(t, p.condition.SignalAll(ctx, lease), locks.ErrNotHeld, name)
			again, err := p.condition.Await(ctx, lease)
			require.ErrorIs(t, err, locks.ErrNotHeld, name)
			require.Nil(t, again, name)
			if name == "lost" {
				var why *locks.LostError
				require.ErrorAs(t, err, &why)
			}
		}
		require.ErrorIs(t, other.Err(), locks.ErrReleased, "whatever lease Await is given")

		lease := acquire(t, p.mutex)
		_, err := p.condition.Await(lease.Context(zktest.Context(t)), lease)
		require.ErrorContains(t, err, "the context ends with the lease")
		require.ErrorIs(t, lease.Err(), locks.ErrReleased)

		outer := acquire(t, p.mutex)
		inner, err := p.mutex.Acquire(outer.Context(zktest.Context(t)))
		require.NoError(t, err)
		_, err = p.condition.Await(zktest.Context(t), inner)
		require.ErrorIs(t, err, locks.ErrReentered)
		require.NoError(t, outer.Err())
		release(t, outer)
		p.awaitWaiters(t, 0)
		awaitQueue(t, p.mutex, 0)
	})
}

// TestConditionSignalOfOneWhoHasLostTheLock without having been told: the server refuses it.
func TestConditionSignalOfOneWhoHasLostTheLock(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		link := zktest.NewProxy(t, server.Addr())
		deaf, p := newParty(t, server.ConnectStringVia(link.Addr())), newParty(t, server.ConnectString())
		waiting := p.awaitLater(t, cancelled(t), 1)
		awaitQueue(t, p.mutex, 0) // the deaf client would not hear of the deletion of the waiter's node
		var read sync.Map         // the names of the nodes that it has read, and watches
		defer link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
			if frame.Kind == zkproxy.Notification {
				return zkproxy.Drop
			}
			if frame.Kind == zkproxy.Reply && frame.Op == opGetData {
				_, name := framework.SplitPath(frame.Path)
				read.Store(name, true)
			}
			return zkproxy.Pass
		})()
		lease := acquire(t, deaf.mutex)
		require.Eventually(t, func() bool {
			_, name := framework.SplitPath(lease.Path())
			_, watched := read.Load(name)
			return watched
		}, limit, time.Millisecond)
		require.NoError(t, p.client.Delete(zktest.Context(t), lease.Path()))
		require.NoError(t, lease.Err(), "it has not heard")
		err := deaf.condition.Signal(zktest.Context(t), lease)
		var lost *locks.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, framework.ReasonNodeDeleted, lost.Reason)
		p.requireWaiting(t, waiting)
	})
}

func TestConditionPaths(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t))
	client := zktest.Client(t, server.ConnectString())
	mutex := newMutex(t, client, "/locks/a")
	for _, path := range []string{"/locks/a", "/locks/a/b", "/locks/a/b/c", "locks", "/x/"} {
		_, err := mutex.NewCondition(path)
		require.Error(t, err, path)
	}
	for _, path := range []string{"/locks/ab", "/locks", "/x"} {
		condition, err := mutex.NewCondition(path)
		require.NoError(t, err, path)
		require.Equal(t, path, condition.Path())
	}
	_, err := client.Create(t.Context(), "/x", []byte("10.1.2.3"), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	condition, err := mutex.NewCondition("/x")
	require.NoError(t, err)
	_, err = condition.Waiters(t.Context())
	require.ErrorContains(t, err, `data "10.1.2.3", expected a number of signals`)
	lease := acquire(t, mutex)
	require.ErrorContains(t, condition.Signal(t.Context(), lease), "expected a number of signals")
	_, err = condition.Await(t.Context(), lease)
	require.ErrorContains(t, err, "expected a number of signals")
	awaitQueue(t, mutex, 0)
}

// TestConditionOfTheWriteLock is waited for by a writer.
func TestConditionOfTheWriteLock(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		rw := newReadWrite(t, client, conditionLock)
		condition, err := rw.WriteLock().NewCondition(conditionPath)
		require.NoError(t, err)
		writer := acquire(t, rw.WriteLock())
		waiting := make(chan outcome, 1)
		go func() {
			again, err := condition.Await(zktest.Context(t), writer)
			waiting <- outcome{again, err}
		}()
		awaitQueue(t, waitersOf{condition}, 1)
		reader := acquire(t, rw.ReadLock())
		require.ErrorIs(t, condition.Signal(zktest.Context(t), reader), locks.ErrNotHeld)
		release(t, reader)
		signaller := acquire(t, rw.WriteLock())
		require.NoError(t, condition.Signal(zktest.Context(t), signaller))
		release(t, signaller)
		requireSignalled(t, waiting)
	})
}

// TestConditionFolderIsReaped between two waits, as an empty container is.
func TestConditionFolderIsReaped(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		p := newParty(t, server.ConnectString())
		for range 2 {
			waiting := p.awaitLater(t, zktest.Context(t), 1)
			p.signal(t)
			requireSignalled(t, waiting)
			require.NoError(t, p.client.Delete(zktest.Context(t), conditionPath, framework.Quietly())) // the server may have been first
			p.signal(t)
		}
	})
}

// TestConditionSignalsAndTheirWaiters: whatever the order of signals and of waiters that give
// up, in the end exactly those return that come first among those who are left, as many
// as there are signals which found somebody waiting.
func TestConditionSignalsAndTheirWaiters(t *testing.T) {
	t.Parallel()
	p := newParty(t, zktest.NewServer(t).Addr())
	rapid.Check(t, func(rt *rapid.T) {
		type waiting struct {
			result <-chan outcome
			giveUp context.CancelFunc
		}
		var waiters []waiting
		for i := range rapid.IntRange(1, 6).Draw(rt, "waiters") {
			ctx, giveUp := context.WithCancel(context.Background())
			waiters = append(waiters, waiting{p.awaitLater(t, ctx, i+1), giveUp})
		}
		lease := acquire(t, p.mutex)
		signals := 0
		for range rapid.IntRange(0, 8).Draw(rt, "steps") {
			if len(waiters) == 0 || rapid.Bool().Draw(rt, "signal") {
				require.NoError(t, p.condition.Signal(zktest.Context(t), lease))
				signals = min(signals+1, len(waiters))
				continue
			}
			i := rapid.IntRange(0, len(waiters)-1).Draw(rt, "gives up")
			waiters[i].giveUp()
			require.ErrorIs(t, await(t, waiters[i].result).err, locks.ErrNotAcquired)
			waiters = slices.Delete(waiters, i, i+1)
			p.awaitWaiters(t, len(waiters))
			signals = min(signals, len(waiters))
		}
		release(t, lease)
		returned := make(chan outcome, signals) // in any order: the lock goes to one after the other
		for _, w := range waiters[:signals] {
			go func() { returned <- <-w.result }()
		}
		for range signals {
			requireSignalled(t, returned)
		}
		var left []<-chan outcome
		for _, w := range waiters[signals:] {
			left = append(left, w.result)
		}
		p.requireWaiting(t, left...)
		for _, w := range waiters {
			w.giveUp()
		}
		p.awaitWaiters(t, 0)
		awaitQueue(t, p.mutex, 0)
	})
}
