// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// zones is one server that can be reached by several names, each of which may be down.
type zones struct {
	server *zkserver.Server

	mu     sync.Mutex
	down   map[string]bool
	dialed []string
}

func newZones(t *testing.T) *zones {
	t.Helper()
	return &zones{server: zktest.NewServer(t, zkserver.WithoutListener()), down: make(map[string]bool)}
}

func (z *zones) dial(ctx context.Context, network, address string) (net.Conn, error) {
	z.mu.Lock()
	down := z.down[address]
	z.dialed = append(z.dialed, address)
	z.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	return z.server.Dial(ctx, network, address)
}

func (z *zones) set(address string, down bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.down[address] = down
}

// taken returns what was dialed since the last call.
func (z *zones) taken() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	dialed := z.dialed
	z.dialed = nil
	return dialed
}

// zoneA prefers the servers whose names begin with a.
func zoneA(server string) int {
	if strings.HasPrefix(server, "a") {
		return 0
	}
	return 1
}

const zoned = "b1:2181,a1:2181,b2:2181,a2:2181"

func (z *zones) client(t *testing.T, opts ...framework.Option) *framework.Framework {
	t.Helper()
	f := must.Get(framework.Connect(t.Context(), zoned, append(opts, framework.WithDialer(z.dial))...))(t)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// TestServerOrderTriesTheLowestRanksFirst, and servers of equal rank in random order.
func TestServerOrderTriesTheLowestRanksFirst(t *testing.T) {
	firsts := make(map[string]bool)
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			z := newZones(t)
			for _, a := range []string{"a1:2181", "a2:2181"} {
				z.set(a, true)
			}
			z.client(t, framework.WithServerOrder(zoneA))
			dialed := z.taken()
			require.Len(t, dialed, 3)
			require.ElementsMatch(t, []string{"a1:2181", "a2:2181"}, dialed[:2])
			firsts[dialed[0]] = true
		})
	}
	require.Len(t, firsts, 2)
}

// TestServerOrderMovesBack in the same session after an outage, at a random time, and not while it
// would cost a hold.
func TestServerOrderMovesBack(t *testing.T) {
	var times []time.Duration
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			z := newZones(t)
			f := z.client(t, framework.WithServerOrder(zoneA))
			session := f.Session()
			z.set("a1:2181", true)
			z.set("a2:2181", true)
			require.NotZero(t, z.server.Cut(session.ID(), 1))
			time.Sleep(5 * time.Second)
			_, release, err := f.Session().Hold(t.Context(), framework.StandardErrorPolicy)
			require.NoError(t, err)
			linked := f.Session().Context(framework.StandardErrorPolicy)
			z.set("a1:2181", false)
			z.taken()
			time.Sleep(10 * time.Minute)
			require.NoError(t, linked.Err(), "the hold keeps it")
			require.Contains(t, z.taken(), "a1:2181", "it has asked")
			release()
			release()
			began := time.Now()
			<-linked.Done()
			times = append(times, time.Since(began))
			require.LessOrEqual(t, time.Since(began), 90*time.Second)
			time.Sleep(5 * time.Second)
			z.taken()
			require.Equal(t, session.ID(), f.Session().ID())
			linked = f.Session().Context(framework.StandardErrorPolicy)
			time.Sleep(time.Hour)
			require.NoError(t, linked.Err(), "it stays")
			require.Empty(t, z.taken(), "and asks no more")
		})
	}
	require.Greater(t, slices.Max(times)-slices.Min(times), 10*time.Second, "not all clients come at once")
}

// TestServerOrderNoHoldBeginsWhileAClientMoves, as it would be lost at once: a lock looks again until it has moved.
func TestServerOrderNoHoldBeginsWhileAClientMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := newZones(t).client(t, framework.WithServerOrder(zoneA)).Session()
		hold := func() (context.Context, func()) {
			held, release, err := session.Hold(t.Context(), framework.StandardErrorPolicy)
			require.NoError(t, err)
			return held, release
		}
		_, release := hold()
		require.False(t, session.WhileFree(func() { t.Error("it moves under a hold") }))
		release()
		var late func()
		require.True(t, session.WhileFree(func() {
			ended, release := hold()
			late = release
			var lost *framework.LostError
			require.ErrorAs(t, context.Cause(ended), &lost)
			require.Equal(t, framework.ReasonSuspended, lost.Reason)
		}))
		require.False(t, session.WhileFree(func() {}), "it counts until its release")
		late()
		require.True(t, session.WhileFree(func() {}))
		held, leave := hold()
		require.NoError(t, held.Err())
		leave()
	})
}

// TestServerOrderDoesNotMoveToAServerThatDoesNotServe, or that cannot be reached.
func TestServerOrderDoesNotMoveToAServerThatDoesNotServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZones(t)
		z.set("a1:2181", true)
		z.set("a2:2181", true)
		f := z.client(t, framework.WithServerOrder(zoneA))
		linked := f.Session().Context(framework.StandardErrorPolicy)
		time.Sleep(time.Hour)
		require.NoError(t, linked.Err())
	})
}

// TestServerOrderOfServersThatComeLater is asked for each once, and a function that panics leaves them last.
func TestServerOrderOfServersThatComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZones(t)
		provider := newDynamic(t, "b1:2181")
		var mu sync.Mutex
		asked := make(map[string]int)
		f := must.Get(framework.Connect(t.Context(), "", framework.WithEnsembleProvider(provider), framework.WithDialer(z.dial),
			framework.WithServerOrder(func(server string) int {
				mu.Lock()
				defer mu.Unlock()
				if asked[server]++; strings.HasPrefix(server, "c") {
					panic("the user's own fault")
				}
				return zoneA(server)
			})))(t)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		z.set("b1:2181", true)
		require.NoError(t, provider.SetConnectionString("c1:2181,b1:2181,a1:2181"))
		linked := f.Session().Context(framework.StandardErrorPolicy)
		synctest.Wait()
		z.taken()
		<-linked.Done() // moves to a1
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"a1:2181", "a1:2181"}, z.taken(), "it asks, and then connects")
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1, asked["b1:2181"])
		require.Equal(t, 1, asked["a1:2181"])
	})
}

// TestServerOrderAsksOnceForEachServer, whatever the answer is, and if there is none.
func TestServerOrderAsksOnceForEachServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZones(t)
		provider := must.Get(framework.NewDynamicEnsembleProvider("a1:2181,a1:2181"))(t)
		var mu sync.Mutex
		asked := make(map[string]int)
		f := must.Get(framework.Connect(t.Context(), "", framework.WithEnsembleProvider(provider), framework.WithDialer(z.dial),
			framework.WithServerOrder(func(server string) int {
				mu.Lock()
				asked[server]++
				mu.Unlock()
				if server == "b1:2181" {
					panic("the user's own fault")
				}
				return math.MaxInt
			})))(t)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		for range 3 {
			for _, servers := range []string{"a1:2181,a2:2181,b1:2181", "a1:2181,b1:2181"} {
				require.NoError(t, provider.SetConnectionString(servers))
				synctest.Wait()
			}
		}
		require.Equal(t, map[string]int{"a1:2181": 1, "a2:2181": 1, "b1:2181": 1}, asked)
	})
}
