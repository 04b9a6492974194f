// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// work has clients take turns at a lock, each turn of the same length, until the context ends.
func work(ctx context.Context, t *testing.T, wg *sync.WaitGroup, server *zkserver.Server, n int, hold time.Duration, lock func(*framework.Framework) locks.InterProcessLock) {
	t.Helper()
	for range n {
		client := zktest.Client(t, server)
		of := lock(client)
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := of.Acquire(ctx)
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
					return
				}
				time.Sleep(hold)
				assert.NoError(t, lease.Release(context.Background()))
			}
		})
	}
}

func mutexAt(t *testing.T, path string) func(*framework.Framework) locks.InterProcessLock {
	t.Helper()
	return func(client *framework.Framework) locks.InterProcessLock {
		m := must.Get(locks.NewInterProcessMutex(client, path, locks.WithLabel("worker")))(t)
		return m
	}
}

func loadOf(t *testing.T, c inspect.Contention, path string) inspect.Load {
	t.Helper()
	for _, l := range c.Locks {
		if l.Path == path {
			return l
		}
	}
	require.Fail(t, "no such lock", "%s in %+v", path, c)
	return inspect.Load{}
}

// TestTrafficOfAKnownLoad: of a load of fixed holds all figures are right within five hundredths, and no turn costs a request.
func TestTrafficOfAKnownLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		semaphore := func(client *framework.Framework) locks.InterProcessLock {
			s := must.Get(locks.NewInterProcessSemaphoreV2(client, "/sem", locks.FixedLeases(2)))(t)
			return s
		}
		readWrite := func(reads bool) func(client *framework.Framework) locks.InterProcessLock {
			return func(client *framework.Framework) locks.InterProcessLock {
				rw := must.Get(locks.NewInterProcessReadWriteLock(client, "/rw"))(t)
				if reads {
					return rw.ReadLock()
				}
				return rw.WriteLock()
			}
		}
		work(ctx, t, &wg, server, 4, 100*time.Millisecond, mutexAt(t, "/locks/mutex"))
		work(ctx, t, &wg, server, 1, 50*time.Millisecond, mutexAt(t, "/locks")) // and the entrance of no semaphore
		work(ctx, t, &wg, server, 5, 100*time.Millisecond, semaphore)
		work(ctx, t, &wg, server, 1, 100*time.Millisecond, readWrite(true))
		work(ctx, t, &wg, server, 1, 100*time.Millisecond, readWrite(false))
		time.Sleep(2 * time.Second)
		client := zktest.Client(t, server)
		traffic := must.Get(inspect.Follow(t.Context(), client, "/"))(t)
		defer traffic.Close()
		for range 2 { // the second time as the first
			time.Sleep(15 * time.Second)
			c := traffic.Take()
			require.Equal(t, 15*time.Second, c.Until.Sub(c.From).Round(time.Second))
			require.Empty(t, c.Unknown)
			require.Len(t, c.Locks, 4)
			require.False(t, c.Sampled || c.Partial || c.Gaps != 0)
			require.LessOrEqual(t, c.Cost.Looks, 1)
			require.LessOrEqual(t, c.Cost.Reads, 16*100)
			require.InDelta(t, 5, c.Cost.Censuses, 1)
			for _, want := range []inspect.Load{
				{Path: "/locks/mutex", Kind: inspect.Mutex, Turns: 150, Held: 1, Waiters: 3, Most: 3, Wait: inspect.Times{P50: 0.3, P99: 0.3}, Hold: inspect.Times{P50: 0.1, P99: 0.1, Max: 0.1}},
				{Path: "/sem", Kind: inspect.Semaphore, Turns: 300, Held: 1, Waiters: 3, Most: 3, Wait: inspect.Times{P50: 0.15, P99: 0.2}, Hold: inspect.Times{P50: 0.1, P99: 0.1, Max: 0.1}},
				{Path: "/rw", Kind: inspect.ReadWrite, Turns: 150, Held: 1, Waiters: 1, Most: 1, Wait: inspect.Times{P50: 0.1, P99: 0.1}, Hold: inspect.Times{P50: 0.1, P99: 0.1, Max: 0.1}},
				{Path: "/locks", Kind: inspect.Mutex, Turns: 300, Held: 1, Hold: inspect.Times{P50: 0.05, P99: 0.05, Max: 0.05}},
			} {
				got := loadOf(t, c, want.Path)
				require.Equal(t, want.Kind, got.Kind)
				for _, pair := range [][2]float64{
					{float64(want.Turns), float64(got.Turns)},
					{want.Held, got.Held},
					{want.Waiters, got.Waiters},
					{want.Hold.P50, got.Hold.P50},
					{want.Hold.P99, got.Hold.P99},
					{want.Hold.Max, got.Hold.Max},
					{want.Wait.P99, got.Wait.P99},
				} {
					require.InDelta(t, pair[0], pair[1], 0.05*pair[0]+1e-9, "%+v, expected about %+v", got, want)
				}
				if want.Path != "/sem" { // whose first waiter has one of two times
					require.InDelta(t, want.Wait.P50, got.Wait.P50, 0.05*want.Wait.P50+1e-9, "%+v", got)
				}
			}
		}
		stop()
		wg.Wait()
	})
}

// TestTrafficShowsOwnersAndLosses: who has held for longest, who holds and waits now, and that the session of a client that was killed
// has ended its hold. A release is no loss.
func TestTrafficShowsOwnersAndLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		killed, proxy := zktest.ClientViaProxy(t, server, framework.WithSessionTimeout(12*time.Second))
		client := zktest.Client(t, server)
		traffic, err := inspect.Follow(t.Context(), client, "/a") // before there is any
		require.NoError(t, err)
		defer traffic.Close()
		lock := func(client *framework.Framework, label string) locks.InterProcessLock {
			m := must.Get(locks.NewInterProcessMutex(client, "/a/lock", locks.WithLabel(label), locks.WithoutReentry()))(t)
			return m
		}
		lease := must.Get(lock(client, "first").Acquire(t.Context()))(t)
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		must.Get(lock(killed, "second").Acquire(t.Context()))(t)
		contend(t, lock(client, "third"))
		time.Sleep(2 * time.Second)
		proxy.Refuse(true)
		proxy.Cut()
		time.Sleep(30 * time.Second)

		turns := traffic.Turns("/a/lock")
		require.Len(t, turns, 3)
		for i, label := range []string{"first", "second", "third"} {
			require.Contains(t, turns[i].Owner, label)
			require.Equal(t, i == 1, turns[i].Lost)
			require.Equal(t, i == 2, turns[i].Left.IsZero())
			require.False(t, turns[i].Early || turns[i].Granted.IsZero())
		}
		require.Empty(t, traffic.Turns("/a"))
		c := traffic.Take()
		require.Len(t, c.Locks, 1)
		require.Equal(t, 1, c.Locks[0].Losses)
		require.Equal(t, 2, c.Locks[0].Turns)
		require.Contains(t, c.Locks[0].Longest[0].Owner, "third")
		require.Zero(t, c.Locks[0].Longest[0].Left)

		time.Sleep(10 * time.Second)
		c = traffic.Take()
		require.Len(t, c.Locks, 1)
		require.Zero(t, c.Locks[0].Turns+c.Locks[0].Losses)
		require.InDelta(t, 1, c.Locks[0].Held, 1e-9)
		require.Empty(t, traffic.Turns("/b"))
	})
}

// TestTrafficOfWhatWasThere: contenders that were there before are followed, and what is not known of them is left out.
func TestTrafficOfWhatWasThere(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		semaphoreOf := func(client *framework.Framework) locks.InterProcessLock {
			semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/sem", locks.FixedLeases(1)))(t)
			return semaphore
		}
		var held []*locks.Lease
		for i, lockOf := range []func(*framework.Framework) locks.InterProcessLock{mutexAt(t, "/mutex"), semaphoreOf} {
			held = append(held, hold(t, lockOf(client)))
			for range 2 {
				contend(t, lockOf(zktest.Client(t, server)))
			}
			awaitChildren(t, client, []string{"/mutex", "/sem/locks"}[i], 3-i)
		}
		awaitChildren(t, client, "/sem/leases", 2)
		traffic := must.Get(inspect.Follow(t.Context(), client, "/"))(t)
		defer traffic.Close()
		for i, path := range []string{"/mutex", "/sem"} {
			require.NoError(t, held[i].Release(t.Context()))
			for ctx := zktest.Context(t); ; {
				turns := traffic.Turns(path)
				require.NoError(t, ctx.Err(), "%v", turns)
				require.Len(t, turns, 3)
				if !turns[0].Left.IsZero() && !turns[1].Granted.IsZero() {
					require.True(t, turns[0].Early && turns[1].Early && turns[2].Early)
					require.Zero(t, turns[2].Granted)
					break
				}
			}
		}
		c := traffic.Take()
		for _, path := range []string{"/mutex", "/sem"} {
			l := loadOf(t, c, path)
			require.Equal(t, 1, l.Turns)
			require.Equal(t, 2, l.Most)
			require.Equal(t, path == "/mutex", l.Hold.AtLeast, "the hold had begun before: %+v", l)
			require.Positive(t, l.Wait.Count)
		}
		require.Len(t, c.Locks, 2)
	})
}

// TestTrafficOfAPermitThatWasWaitedFor: its owner has waited since it came to the entrance, which is before it asks for the permit, and before
// the next one came.
func TestTrafficOfAPermitThatWasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		first, second, third := zktest.Client(t, server), zktest.Client(t, server), zktest.Client(t, server)
		const name = "_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3"
		putAs(t, first, framework.Ephemeral, "/sem/leases/"+name+"1-lease-0000000001")
		joined := time.Now()
		putAs(t, second, framework.Ephemeral, "/sem/locks/"+name+"2-lock-0000000002")
		time.Sleep(time.Second)
		putAs(t, third, framework.Ephemeral, "/sem/locks/"+name+"3-lock-0000000003")
		time.Sleep(time.Second)
		putAs(t, second, framework.Ephemeral, "/sem/leases/"+name+"2-lease-0000000002")
		traffic := must.Get(inspect.Follow(t.Context(), first, "/"))(t)
		defer traffic.Close()
		turns := traffic.Turns("/sem")
		require.Len(t, turns, 3)
		require.Contains(t, turns[1].Owner, "lease-0000000002")
		require.True(t, joined.Equal(turns[1].Joined))
		require.Contains(t, turns[2].Owner, "lock-0000000003")
	})
}

// TestTrafficWithoutAWatch: before ZooKeeper 3.6, and when there are too many events, looks say what they can.
func TestTrafficWithoutAWatch(t *testing.T) {
	for name, opts := range map[string][]zkserver.Option{"old": {zkserver.WithVersion("3.5.9")}, "flooded": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, append(opts, zkserver.WithoutListener())...)
				client := zktest.Client(t, server)
				traffic := must.Get(inspect.Follow(t.Context(), client, "/"))(t)
				defer traffic.Close()
				if name == "flooded" {
					put(t, client, "/other")
					for range 5001 {
						require.NoError(t, client.Set(t.Context(), "/other", nil))
					}
					time.Sleep(2 * time.Second)
					require.Zero(t, server.Stats().Watches)
				}
				traffic.Take()
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				work(ctx, t, &wg, server, 2, 3500*time.Millisecond, mutexAt(t, "/locks/mutex"))
				time.Sleep(time.Minute)
				c := traffic.Take()
				require.True(t, c.Sampled)
				require.InDelta(t, 60, c.Cost.Looks, 2)
				l := loadOf(t, c, "/locks/mutex")
				require.InDelta(t, 17, l.Turns, 2)
				require.InDelta(t, 3.5, l.Hold.P50, 1)
				require.InDelta(t, 1, l.Waiters, 0.1)
				require.InDelta(t, 1, l.Held, 0.05)
				stop()
				wg.Wait()
			})
		})
	}
}

// TestTrafficOverAnOutage: what has happened while there was no connection is found out, and said to be inexact.
func TestTrafficOverAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		other := zktest.Client(t, server)
		follower, proxy := zktest.ClientViaProxy(t, server)
		first := must.Get(mutexAt(t, "/locks/first")(other).Acquire(t.Context()))(t)
		traffic := must.Get(inspect.Follow(t.Context(), follower, "/locks"))(t)
		defer traffic.Close()
		proxy.Refuse(true)
		proxy.Cut()
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Release(t.Context()))
		hold(t, mutexAt(t, "/locks/second")(other))
		proxy.Refuse(false)
		time.Sleep(10 * time.Second)
		turns := traffic.Turns("/locks/first")
		require.Len(t, turns, 1)
		require.False(t, turns[0].Left.IsZero())
		turns = traffic.Turns("/locks/second")
		require.Len(t, turns, 1)
		require.False(t, turns[0].Granted.IsZero())
		c := traffic.Take()
		require.Equal(t, 1, c.Gaps)
		require.Len(t, c.Locks, 2)
	})
}

// TestTrafficLeavesNothingBehind, and refuses what it cannot do.
func TestTrafficLeavesNothingBehind(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		_, err := inspect.Follow(t.Context(), client, "locks")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = inspect.Follow(t.Context(), client, "/", inspect.HeadsOnly())
		require.ErrorContains(t, err, "HeadsOnly, expected no such option")
		ended, stop := context.WithCancel(t.Context())
		stop()
		_, err = inspect.Follow(ended, client, "/")
		require.ErrorIs(t, err, context.Canceled)
		before := server.Counts(t)
		traffic := must.Get(inspect.Follow(t.Context(), client, "/"))(t)
		require.Greater(t, server.Counts(t).Watches, before.Watches)
		traffic.Close()
		traffic.Close()
		for ctx := zktest.Context(t); server.Counts(t).Watches > before.Watches; { // their removal is in the background
			require.NoError(t, ctx.Err())
		}
	})
}

// TestTrafficOfLongWaits: ten clients take turns of two seconds, so each waits for 18. A look of twelve seconds says so, and so does one
// of five at a lock whose holder does not come to its end.
func TestTrafficOfLongWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		work(ctx, t, &wg, server, 10, 2*time.Second, mutexAt(t, "/locks/slow"))
		stuck := zktest.Client(t, server)
		lease := hold(t, mutexAt(t, "/locks/stuck")(stuck))
		contendUnder(t, lease, mutexAt(t, "/locks/stuck")(zktest.Client(t, server)))
		time.Sleep(time.Minute)
		traffic := must.Get(inspect.Follow(t.Context(), stuck, "/"))(t)
		defer traffic.Close()
		time.Sleep(12 * time.Second)
		c := traffic.Take()
		slow, held := loadOf(t, c, "/locks/slow"), loadOf(t, c, "/locks/stuck")
		require.InDelta(t, 6, slow.Turns, 1)
		require.InDelta(t, 18, slow.Wait.Max, 0.5)
		require.InDelta(t, 18, slow.Wait.P50, 0.5)
		require.False(t, slow.Wait.AtLeast)
		require.InDelta(t, 2, slow.Hold.P50, 0.1)
		require.InDelta(t, 72, held.Wait.P50, 2)
		require.True(t, held.Wait.AtLeast)
		require.Zero(t, held.Hold.Count, "it goes on")
		require.Contains(t, string(must.Get(json.Marshal(held))(t)), `"hold":null`)
		stop()
		wg.Wait()
	})
}
