// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// crossed has each client hold one lock, and then wait for the next one under its lease, until the test ends.
func crossed(t *testing.T, server zktest.Backend, n int, lock func(client *framework.Framework, i, of int) locks.InterProcessLock) []*framework.Framework {
	t.Helper()
	clients, leases := make([]*framework.Framework, n), make([]*locks.Lease, n)
	for i := range clients {
		clients[i] = zktest.Client(t, server)
		leases[i] = hold(t, lock(clients[i], i, i))
	}
	for i, client := range clients {
		contendUnder(t, leases[i], lock(client, i, (i+1)%n))
	}
	return clients
}

func pathOf(i int) string { return fmt.Sprint("/locks/", i) }

// await returns the deadlocks when there are any, which takes until all clients wait.
func await(t *testing.T, client *framework.Framework, opts ...inspect.Option) []inspect.Deadlock {
	t.Helper()
	ctx := zktest.Context(t)
	for {
		found := must.Get(inspect.Deadlocks(ctx, client, "/", append(opts, inspect.LongerThan(10*time.Millisecond))...))(t)
		if len(found) > 0 {
			return found
		}
	}
}

// TestDeadlocksAreFound: of any number of clients, and of locks of any kind.
func TestDeadlocksAreFound(t *testing.T) {
	t.Parallel()
	mutex := func(t *testing.T) func(*framework.Framework, int, int) locks.InterProcessLock {
		t.Helper()
		return func(client *framework.Framework, _, of int) locks.InterProcessLock {
			m := must.Get(locks.NewInterProcessMutex(client, pathOf(of), locks.WithLabel("worker")))(t)
			return m
		}
	}
	semaphore := func(t *testing.T) func(*framework.Framework, int, int) locks.InterProcessLock {
		t.Helper()
		return func(client *framework.Framework, _, of int) locks.InterProcessLock {
			s := must.Get(locks.NewInterProcessSemaphoreV2(client, pathOf(of), locks.FixedLeases(1)))(t)
			return s
		}
	}
	for _, test := range []struct {
		name string
		n    int
		lock func(*testing.T) func(*framework.Framework, int, int) locks.InterProcessLock
		kind inspect.Kind
	}{
		{"two with mutexes", 2, mutex, inspect.Mutex},
		{"five with mutexes", 5, mutex, inspect.Mutex},
		{"three with semaphores", 3, semaphore, inspect.Semaphore},
		{"readers and writers", 2, func(t *testing.T) func(*framework.Framework, int, int) locks.InterProcessLock {
			t.Helper()
			return func(client *framework.Framework, i, of int) locks.InterProcessLock {
				rw := must.Get(locks.NewInterProcessReadWriteLock(client, pathOf(of)))(t)
				if i == of {
					return rw.ReadLock()
				}
				return rw.WriteLock()
			}
		}, inspect.ReadWrite},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				clients := crossed(t, server, test.n, test.lock(t))
				found := await(t, clients[0])
				require.Len(t, found, 1)
				require.Len(t, found[0].Waits, test.n)
				var paths, want []string
				for i, w := range found[0].Waits {
					paths, want = append(paths, w.Path), append(want, pathOf(i))
					require.Equal(t, test.kind, w.Kind)
					next := found[0].Waits[(i+1)%test.n]
					require.Equal(t, w.Holder.Session, next.Waiter.Session)
					require.False(t, w.Waiter.Holds)
					require.True(t, w.Holder.Holds)
				}
				require.ElementsMatch(t, want, paths)
				require.Contains(t, found[0].String(), fmt.Sprintf("%d clients wait for each other:\n  ", test.n))
			})
		})
	}
}

// TestDeadlocksFirstLookProvesNothing: a cycle that has dissolved at the second look is none. After an outage between the looks, in which
// nobody could go on, it is the third look that counts.
func TestDeadlocksFirstLookProvesNothing(t *testing.T) {
	for _, outage := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
			clients := []*framework.Framework{zktest.Client(t, servers), zktest.Client(t, servers)}
			var held []*locks.Lease
			for i, client := range clients {
				m := must.Get(locks.NewInterProcessMutex(client, pathOf(i), locks.WithErrorPolicy(framework.SessionErrorPolicy)))(t)
				lease := must.Get(m.Acquire(t.Context()))(t)
				held = append(held, lease)
			}
			for i, client := range clients {
				m := must.Get(locks.NewInterProcessMutex(client, pathOf(1-i), locks.WithErrorPolicy(framework.SessionErrorPolicy)))(t)
				contendUnder(t, held[i], m)
			}
			synctest.Wait()
			found := must.Get(inspect.Deadlocks(t.Context(), clients[0], "/"))(t)
			require.Len(t, found, 1)
			go func() {
				time.Sleep(4 * time.Second) // of the 5 between the looks
				if outage {
					assert.NoError(t, servers.ChangeLeader(servers.Followers()[0]))
					time.Sleep(4 * time.Second)
				}
				for _, lease := range held {
					assert.NoError(t, lease.Release(context.Background()))
				}
			}()
			found = must.Get(inspect.Deadlocks(t.Context(), clients[0], "/"))(t)
			require.Empty(t, found, "outage: %t", outage)
		})
	}
}

// TestDeadlocksThatAreNone: clients with several threads, candidates, and permits that are left.
func TestDeadlocksThatAreNone(t *testing.T) {
	mutex := func(t *testing.T, client *framework.Framework, path string) locks.InterProcessLock {
		t.Helper()
		m := must.Get(locks.NewInterProcessMutex(client, path, locks.WithoutReentry()))(t)
		return m
	}
	for name, enter := range map[string]func(t *testing.T, a, b *framework.Framework){
		"a client that waits for itself": func(t *testing.T, a, _ *framework.Framework) {
			t.Helper()
			hold(t, mutex(t, a, pathOf(0)))
			contend(t, mutex(t, a, pathOf(0)))
		},
		"a client that waits for two locks": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			hold(t, mutex(t, b, pathOf(2)))
			hold(t, mutex(t, a, pathOf(0)))
			hold(t, mutex(t, b, pathOf(1)))
			contend(t, mutex(t, a, pathOf(1)))
			contend(t, mutex(t, a, pathOf(2)))
			contend(t, mutex(t, b, pathOf(0)))
		},
		"a client that has waited since before its hold": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			hold(t, mutex(t, b, pathOf(1)))
			contend(t, mutex(t, a, pathOf(1)))
			synctest.Wait()
			hold(t, mutex(t, a, pathOf(0)))
			contend(t, mutex(t, b, pathOf(0)))
		},
		"a chain": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			hold(t, mutex(t, b, pathOf(1)))
			hold(t, mutex(t, a, pathOf(0)))
			contend(t, mutex(t, a, pathOf(1)))
		},
		"candidates in the elections of each other": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			for i, client := range []*framework.Framework{a, b, b, a} {
				latch := must.Get(leader.NewLeaderLatch(client, pathOf(i%2)))(t)
				require.NoError(t, latch.Start())
				t.Cleanup(func() { require.NoError(t, latch.Close()) })
				synctest.Wait()
			}
		},
		"leaders that are candidates in the election of each other": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			for i, client := range []*framework.Framework{a, b, b, a} {
				selector := must.Get(leader.NewLeaderSelector(client, pathOf(i%2)))(t)
				ctx, stop := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				wg.Go(func() {
					_ = selector.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) // the error of the context, or none
				})
				t.Cleanup(func() {
					stop()
					wg.Wait()
				})
				synctest.Wait()
			}
		},
		"leaders in Java that are candidates in the election of each other": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			for i, client := range []*framework.Framework{a, b, b, a} {
				election := must.Get(locks.NewLockInternals(client, locks.QueueDriver("lock-"), pathOf(i%2), "lock-", 1, locks.WithLockData(nil)))(t)
				if i < 2 {
					hold(t, election)
				} else {
					contend(t, election)
				}
			}
		},
		"members that wait for partitions of each other": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			put(t, a, "/group/members/m", "/group/plan")
			for i, client := range []*framework.Framework{a, b, b, a} {
				partition := mutex(t, client, fmt.Sprint("/group/locks/", i%2))
				if i < 2 {
					hold(t, partition)
				} else {
					contend(t, partition)
				}
			}
		},
		"replicas that wait for jobs of each other": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			for i, client := range []*framework.Framework{a, b, b, a} {
				job := fmt.Sprint("/cron/jobs/", i%2)
				must.Get(client.Create(t.Context(), job+"/state", []byte("{}"), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
				if lock := mutex(t, client, job+"/lock"); i < 2 {
					hold(t, lock)
				} else {
					contend(t, lock)
				}
			}
		},
		"a permit of another client": func(t *testing.T, a, b *framework.Framework) {
			t.Helper()
			semaphore := func(client *framework.Framework) locks.InterProcessLock {
				s := must.Get(locks.NewInterProcessSemaphoreV2(client, pathOf(0), locks.FixedLeases(2)))(t)
				return s
			}
			hold(t, semaphore(a))
			hold(t, semaphore(b))
			hold(t, mutex(t, a, pathOf(1)))
			contend(t, mutex(t, b, pathOf(1)))
			contend(t, semaphore(a)) // its own permit, or the one of b
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				a, b := zktest.Client(t, server), zktest.Client(t, server)
				enter(t, a, b)
				synctest.Wait()
				for _, opts := range [][]inspect.Option{nil, {inspect.LongerThan(time.Minute)}} {
					require.Empty(t, must.Get(inspect.Deadlocks(t.Context(), a, "/", opts...))(t))
				}
			})
		})
	}
}

// TestDeadlocksOfADeadClient go on by themselves, when its session ends.
func TestDeadlocksOfADeadClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		link := zktest.NewProxy(t, server)
		a, b := zktest.Client(t, server), zktest.Client(t, link, framework.WithErrorPolicy(framework.SessionErrorPolicy), framework.WithSessionTimeout(40*time.Second))
		mutex := func(client *framework.Framework, i int) locks.InterProcessLock {
			m := must.Get(locks.NewInterProcessMutex(client, pathOf(i)))(t)
			return m
		}
		first, second := hold(t, mutex(a, 0)), hold(t, mutex(b, 1))
		contendUnder(t, first, mutex(a, 1))
		contendUnder(t, second, mutex(b, 0))
		synctest.Wait()
		found := must.Get(inspect.Deadlocks(t.Context(), a, "/"))(t)
		require.Len(t, found, 1)
		link.Refuse(true)
		link.Cut()
		t.Cleanup(func() {
			link.Refuse(false)
			require.NoError(t, b.BlockUntilConnected(context.Background()))
		})
		for i, reason := range []inspect.Reason{inspect.ReasonTurn, inspect.ReasonLost} {
			e := must.Get(inspect.Explain(t.Context(), a, pathOf(i), inspect.WithDeadlocks("/")))(t)
			require.Equal(t, reason, e.Findings[0].Reason, "%s", e)
		}
		found = must.Get(inspect.Deadlocks(t.Context(), a, "/"))(t)
		require.Empty(t, found)
	})
}

// TestDeadlocksOfOwners: what was acquired with the context of a lease shows its owner, whatever else its client does.
func TestDeadlocksOfOwners(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps int // of the deadlock; 0 for none
		enter func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock)
	}{
		{"of one client", 2, func(t *testing.T, a, _ *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			first, second := hold(t, lock(a, "/1")), hold(t, lock(a, "/2"))
			contendUnder(t, first, lock(a, "/2"))
			contendUnder(t, second, lock(a, "/1"))
		}},
		{"of busy clients", 2, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			first, second := hold(t, lock(a, "/1")), hold(t, lock(b, "/2"))
			contend(t, lock(a, "/2"))
			contend(t, lock(b, "/1"))
			hold(t, lock(a, "/3"))
			contend(t, lock(b, "/3"))
			synctest.Wait()
			contendUnder(t, first, lock(a, "/2"))
			contendUnder(t, second, lock(b, "/1"))
		}},
		{"through another lease of the owner", 2, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			outer := must.Get(lock(a, "/1").Acquire(t.Context()))(t)
			t.Cleanup(func() { require.NoError(t, outer.Release(context.Background())) })
			inner := must.Get(lock(a, "/inner").Acquire(outer.Context(t.Context())))(t)
			t.Cleanup(func() { require.NoError(t, inner.Release(context.Background())) })
			contend(t, lock(a, "/inner"))
			second := hold(t, lock(b, "/2"))
			contendUnder(t, inner, lock(a, "/2"))
			contendUnder(t, second, lock(b, "/1"))
		}},
		{"with itself", 1, func(t *testing.T, a, _ *framework.Framework, _ func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			s := must.Get(locks.NewInterProcessSemaphoreV2(a, "/1", locks.FixedLeases(1)))(t)
			contendUnder(t, hold(t, s), s)
		}},
		{"behind another owner of the client at a semaphore", 2, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			semaphore := func(client *framework.Framework) locks.InterProcessLock {
				s := must.Get(locks.NewInterProcessSemaphoreV2(client, "/2", locks.FixedLeases(1)))(t)
				return s
			}
			first, second := hold(t, lock(a, "/1")), hold(t, semaphore(b))
			contend(t, semaphore(a)) // it has its turn
			hold(t, lock(b, "/3"))
			contend(t, lock(a, "/3"))
			synctest.Wait()
			contendUnder(t, first, semaphore(a))
			contendUnder(t, second, lock(b, "/1"))
		}},
		{"of an owner of several permits", 2, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			semaphore := func(client *framework.Framework) *locks.InterProcessSemaphoreV2 {
				s := must.Get(locks.NewInterProcessSemaphoreV2(client, "/2", locks.FixedLeases(2)))(t)
				return s
			}
			first := hold(t, lock(a, "/1"))
			both := must.Get(semaphore(b).AcquireN(t.Context(), 2))(t)
			t.Cleanup(func() { require.NoError(t, locks.ReleaseAll(context.Background(), both...)) })
			hold(t, lock(a, "/3"))
			contend(t, lock(b, "/3"))
			synctest.Wait()
			contendUnder(t, first, semaphore(a))
			contendUnder(t, both[1], lock(b, "/1"))
		}},
		{"but not of siblings", 0, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			outer := hold(t, lock(a, "/outer"))
			sibling := must.Get(lock(a, "/1").Acquire(outer.Context(t.Context())))(t)
			t.Cleanup(func() { require.NoError(t, sibling.Release(context.Background())) })
			second := hold(t, lock(b, "/2"))
			contendUnder(t, outer, lock(a, "/2"))
			contendUnder(t, second, lock(b, "/1"))
		}},
		{"but not of an owner with nothing", 0, func(t *testing.T, a, b *framework.Framework, lock func(*framework.Framework, string) locks.InterProcessLock) {
			t.Helper()
			hold(t, lock(a, "/1"))
			other, second := hold(t, lock(a, "/other")), hold(t, lock(b, "/2"))
			contendUnder(t, other, lock(a, "/2"))
			contendUnder(t, second, lock(b, "/1"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				a, b := zktest.Client(t, server), zktest.Client(t, server)
				test.enter(t, a, b, func(client *framework.Framework, path string) locks.InterProcessLock {
					m := must.Get(locks.NewInterProcessMutex(client, path))(t)
					return m
				})
				synctest.Wait()
				found := must.Get(inspect.Deadlocks(t.Context(), a, "/"))(t)
				if test.steps == 0 {
					require.Empty(t, found)
					return
				}
				require.Len(t, found, 1)
				require.Len(t, found[0].Waits, test.steps)
				require.True(t, found[0].Certain)
			})
		})
	}
}

// contendUnder is contend with the context of a lease.
func contendUnder(t *testing.T, lease *locks.Lease, lock locks.InterProcessLock) {
	t.Helper()
	ctx, stop := context.WithCancel(lease.Context(context.Background()))
	done := make(chan error, 1)
	go func() {
		got, err := lock.Acquire(ctx)
		if err == nil {
			<-ctx.Done()
			err = got.Release(context.Background())
		}
		done <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			require.ErrorIs(t, err, locks.ErrNotAcquired)
		}
	})
}

// TestDeadlocksOfSessions are a guess: they are returned only when they stand for longer than their holds have lasted, and say so.
func TestDeadlocksOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		clients := []*framework.Framework{zktest.Client(t, server), zktest.Client(t, server)}
		for i, client := range clients {
			hold(t, mutexAt(t, pathOf(i))(client))
		}
		for i, client := range clients {
			contend(t, mutexAt(t, pathOf(1-i))(client))
		}
		time.Sleep(time.Minute)
		for d, want := range map[time.Duration]int{0: 0, time.Minute - time.Second: 0, 10 * time.Minute: 1} {
			var opts []inspect.Option
			if d > 0 {
				opts = append(opts, inspect.LongerThan(d))
			}
			found := must.Get(inspect.Deadlocks(t.Context(), clients[0], "/", opts...))(t)
			require.Len(t, found, want, "%v", d)
			if want == 0 {
				continue
			}
			require.False(t, found[0].Certain)
			require.Contains(t, found[0].String(), "2 clients may wait for each other. Their sessions do, and whether it is one thread of each is not known: "+
				"a dump of the threads of each process shows it")
			return // the holds have lasted for longer now
		}
	})
}
