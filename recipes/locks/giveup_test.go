// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// distant returns a proxy in memory with the given round trip.
func distant(t *testing.T, server *zkserver.Server, roundTrip time.Duration) *zkproxy.Proxy {
	t.Helper()
	link := zktest.NewProxy(t, server)
	link.Delay(roundTrip / 2)
	return link
}

// TestAcquireThatTimesOutKeepsNoClientOut has the goroutines of a distant client give
// up waiting for a lock, again and again. Its folder never has more nodes than there are
// callers and a few, and soon after they have stopped the lock is free for another client.
func TestAcquireThatTimesOutKeepsNoClientOut(t *testing.T) {
	const (
		backlog   = 32 // what a folder may have to clean up before creations wait
		available = 50 * time.Millisecond
	)
	length := time.Second
	if !seeds.Long() {
		length /= 4
	}
	for _, c := range []struct {
		roundTrip, timeout time.Duration
		callers            int
	}{
		{2 * time.Millisecond, 100 * time.Millisecond, 40},
		{10 * time.Millisecond, 200 * time.Millisecond, 50},
		{10 * time.Millisecond, 8 * time.Millisecond, 20}, // no create is answered in time
		{10 * time.Millisecond, 100 * time.Millisecond, 100},
		{100 * time.Millisecond, 70 * time.Millisecond, 100},
	} {
		t.Run(fmt.Sprintf("%d callers, %v at a round trip of %v", c.callers, c.timeout, c.roundTrip), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				client := zktest.Client(t, distant(t, server, c.roundTrip))
				other := newMutex(t, zktest.Client(t, server), "/lock")
				held := acquire(t, other)

				stop, end := context.WithCancel(context.Background())
				var callers sync.WaitGroup
				for range c.callers {
					m := newMutex(t, client, "/lock")
					callers.Go(func() {
						for stop.Err() == nil {
							ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
							_, err := m.Acquire(ctx)
							cancel()
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("acquire: %v", err)
								return
							}
						}
					})
				}
				most := 0
				for began := time.Now(); time.Since(began) < length; time.Sleep(7 * time.Millisecond) {
					participants := must.Get(other.Participants(context.Background()))(t)
					most = max(most, len(participants)-1)
				}
				require.LessOrEqual(t, most, c.callers+backlog)
				require.Greater(t, most, 1, "nobody has waited")
				end()
				callers.Wait()

				release(t, held)
				freed := time.Now()
				release(t, acquire(t, other))
				require.LessOrEqual(t, time.Since(freed), c.roundTrip+available)
			})
		})
	}
}

// TestAcquireManyLocksLostAtOnce: one reset costs a distant client all its locks under
// StandardErrorPolicy. Another client has each of them soon after, and not only when the
// session would have expired.
func TestAcquireManyLocksLostAtOnce(t *testing.T) {
	t.Parallel()
	const roundTrip, soon = 10 * time.Millisecond, 2 * time.Second
	many := 1000
	switch {
	case seeds.Long():
		many = 3000
	case testing.Short():
		many = 200
	}
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		link := distant(t, server, roundTrip)
		client, other := zktest.Client(t, link), zktest.Client(t, server)
		leases, waiting := make([]*locks.Lease, many), make([]<-chan outcome, many)
		var acquired sync.WaitGroup
		for i := range many {
			path := fmt.Sprintf("/locks/%d", i)
			m := newMutex(t, client, path)
			acquired.Go(func() {
				leases[i] = acquire(t, m)
				waiting[i] = acquireLater(context.Background(), newMutex(t, other, path))
			})
		}
		acquired.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		requests := countRequests(t, server).of
		link.Cut()
		cut := time.Now()
		for i := range many {
			next := <-waiting[i]
			require.NoError(t, next.err)
			require.Error(t, leases[i].Err())
			waiting[i] = nil
			release(t, next.lease)
		}
		require.LessOrEqual(t, time.Since(cut), soon)
		// The deletion of a lost node, and the turn of the next: no search and no repetition.
		require.LessOrEqual(t, requests(zkserver.OpDelete), 2*many)
		require.Zero(t, requests(zkserver.OpSync))
	})
}

// TestAcquireCrowdThatHasGoneLeavesNothingUnderWay: the goroutines of many clients give up behind a holder, again and again,
// faster than the server answers. When the last call has returned, no more creations arrive than each client may have
// under way while its callers give up, and the lock is free after as many requests.
func TestAcquireCrowdThatHasGoneLeavesNothingUnderWay(t *testing.T) {
	const (
		each     = 10
		patience = 10 * time.Millisecond
		work     = 200 * time.Microsecond // of the server for a request, one after the other
	)
	clients := 50
	if testing.Short() {
		clients = 30
	}
	for name, calls := range map[string]int{"one call each": 1, "again and again": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				holder := zktest.Client(t, server)
				lease := acquire(t, newMutex(t, holder, "/lock"))
				var crowd []*framework.Framework
				for range clients {
					crowd = append(crowd, zktest.Client(t, server))
				}

				var mu sync.Mutex
				var busyUntil time.Time
				sent := countRequests(t, server)
				defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
					mu.Lock()
					defer mu.Unlock()
					if r.Op == zkserver.OpPing {
						return zkserver.Pass
					}
					if now := time.Now(); busyUntil.Before(now) {
						busyUntil = now
					}
					busyUntil = busyUntil.Add(work)
					return zkserver.Delay(time.Until(busyUntil))
				})()
				var callers sync.WaitGroup
				for _, client := range crowd {
					for range each {
						mutex := newMutex(t, client, "/lock")
						callers.Go(func() {
							for range calls {
								ctx, cancel := context.WithTimeout(context.Background(), patience)
								_, err := mutex.Acquire(ctx)
								cancel()
								if !errors.Is(err, context.DeadlineExceeded) {
									t.Errorf("acquire: %v", err)
								}
							}
						})
					}
				}
				callers.Wait()
				before := sent.since(zkserver.OpCreate2)
				returned := time.Now()
				release(t, lease)
				next := acquire(t, newMutex(t, holder, "/lock"))
				freed := time.Since(returned)
				release(t, next)
				time.Sleep(time.Minute)
				after := sent.since(zkserver.OpCreate2)
				t.Logf("%d creations, then %d more; the next turn after %v", before, after, freed)
				require.LessOrEqual(t, after, 3*clients, "of %d calls", clients*each*calls)
				// For each client two creations, and up to two that came before, with their lists and deletions.
				require.LessOrEqual(t, freed, time.Duration(12*clients)*work)
			})
		})
	}
}
