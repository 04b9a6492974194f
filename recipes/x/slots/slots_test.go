// SPDX-License-Identifier: Apache-2.0

package slots_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.WithSharedServers(m)) }

func newSlots(t *testing.T, client *framework.Framework, size int, opts ...slots.Option) *slots.Slots {
	t.Helper()
	s := must.Get(slots.New(client, "/nodes", size, opts...))(t)
	return s
}

func take(t *testing.T, s *slots.Slots) *slots.Slot {
	t.Helper()
	slot := must.Get(s.Take(zktest.Context(t)))(t)
	return slot
}

func TestSlotsRefuseBadInput(t *testing.T) {
	client := must.Get(framework.New("localhost:1"))(t)
	for want, opts := range map[string][]slots.Option{
		"Prefer(-1), expected 0 or more":                {slots.Prefer(-1)},
		"Prefer(4), expected a number below the size 4": {slots.Prefer(4)},
		"WithDelay(0s), expected more than 0":           {slots.WithDelay(0)},
		"error policy 9, expected":                      {slots.WithErrorPolicy(9)},
		"a nil option":                                  {nil},
		"label \"\\x00\": ":                             {slots.WithLabel("\x00")},
	} {
		_, err := slots.New(client, "/nodes", 4, opts...)
		require.ErrorContains(t, err, want)
	}
	_, err := slots.New(client, "/nodes", 0)
	require.ErrorContains(t, err, "size 0, expected 1 or more")
	_, err = slots.New(client, "nodes", 1)
	require.ErrorIs(t, err, framework.ErrInvalidPath)
}

// TestSlotsGiveTheLowest, the preferred one before it, and ErrFull after the last; what is given back goes to the one who waits.
func TestSlotsGiveTheLowest(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		a, b := newSlots(t, zktest.Client(t, server), 3), newSlots(t, zktest.Client(t, server), 3, slots.Prefer(1))
		zero, one, two := take(t, a), take(t, b), take(t, b)
		require.Equal(t, []int{0, 1, 2}, []int{zero.Number(), one.Number(), two.Number()})
		_, err := a.TryTake(ctx)
		require.ErrorIs(t, err, slots.ErrFull)
		require.ErrorContains(t, err, "no number is free of the 3 at /nodes: 3 are held")

		token := one.Token()
		taken := make(chan *slots.Slot)
		go func() {
			slot, err := a.Take(ctx)
			assert.NoError(t, err)
			taken <- slot
		}()
		require.NoError(t, one.Release(ctx))
		require.NoError(t, one.Release(ctx), "a second time does nothing")
		next := zktest.Await(t, taken, "the number that was given back")
		require.Equal(t, 1, next.Number())
		require.Greater(t, next.Token(), token)
		for _, slot := range []*slots.Slot{zero, two, next} {
			require.NoError(t, slot.Release(ctx))
		}
		left, err := zktest.Client(t, server).Children(ctx, "/nodes")
		if !errors.Is(err, framework.ErrNoNode) { // the server deletes empty containers
			require.NoError(t, err)
		}
		require.Empty(t, left)
	})
}

// TestSlotsTakeOvertakesNoProcessThatWaits, even when a number is free.
func TestSlotsTakeOvertakesNoProcessThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		held := take(t, newSlots(t, zktest.Client(t, server), 1))
		slow, fast := zktest.Client(t, server), zktest.Client(t, server)
		served := make(chan string, 2)
		var all sync.WaitGroup
		join := func(name string, client *framework.Framework) {
			s := newSlots(t, client, 1)
			all.Go(func() {
				slot, err := s.Take(t.Context())
				if assert.NoError(t, err) {
					served <- name
					assert.NoError(t, slot.Release(t.Context()))
				}
			})
			synctest.Wait()
		}
		join("the first", slow)
		released := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == slow.Session().ID() {
				return zkserver.HoldUntil(released)
			}
			return zkserver.Pass
		})
		require.NoError(t, held.Release(t.Context()))
		join("the second", fast)
		close(released)
		all.Wait()
		require.Equal(t, []string{"the first", "the second"}, []string{<-served, <-served})
	})
}

// requests is how many requests the server has had, without pings.
func requests(server *zkserver.Server) (n int) {
	for _, e := range server.Log() {
		if e.Kind == zkserver.Served && e.Request.Op != zkserver.OpPing {
			n++
		}
	}
	return n
}

// TestSlotsJoinCostsFourRequests, however many numbers there are and are held.
func TestSlotsJoinCostsFourRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		crowd := newSlots(t, zktest.Client(t, server), 1<<20, slots.WithDelay(time.Second))
		for range 300 {
			take(t, crowd)
		}
		for want, opts := range map[int][]slots.Option{3: nil, 4: {slots.WithDelay(time.Second)}} {
			s := newSlots(t, zktest.Client(t, server), 1<<20, opts...)
			before := requests(server)
			slot := take(t, s)
			require.Equal(t, 300, slot.Number())
			require.Equal(t, want, requests(server)-before)
			require.NoError(t, slot.Release(t.Context()))
		}
	})
}

// TestSlotsOfAFleet: processes that start at once have a number each, and none is woken in vain.
func TestSlotsOfAFleet(t *testing.T) {
	size := 200
	if seeds.Long() {
		size = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		clients := make([]*framework.Framework, size)
		for i := range clients {
			clients[i] = zktest.Client(t, server)
		}
		// A request takes a millisecond, or all would come one after the other.
		var made atomic.Int64 // the log of the server is too short for all
		defer server.Intercept(func(zkserver.Request) zkserver.Fault {
			made.Add(1)
			return zkserver.Delay(time.Millisecond)
		})()
		began := time.Now()
		numbers := make([]int, size)
		var all sync.WaitGroup
		for i, client := range clients {
			all.Go(func() {
				slot, err := newSlots(t, client, size).Take(t.Context())
				if assert.NoError(t, err) {
					numbers[i] = slot.Number()
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		slices.Sort(numbers)
		for i, number := range numbers {
			require.Equal(t, i, number)
		}
		each := float64(made.Load()) / float64(size)
		t.Logf("%d processes: %.1f requests each, %v with a millisecond for each request", size, each, took)
		require.Less(t, each, 20.0)
		require.Less(t, took, 10*time.Second)
	})
}

// TestSlotsAreLostAsLeasesAre, and given out again at once, or after a delay.
func TestSlotsAreLostAsLeasesAre(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			var opts []slots.Option
			if delay > 0 {
				opts = append(opts, slots.WithDelay(delay))
			}
			unlucky, other := zktest.Client(t, server), newSlots(t, zktest.Client(t, server), 2, opts...)
			slot := take(t, newSlots(t, unlucky, 2, opts...))
			zktest.KillSession(t, unlucky)
			<-slot.Done()
			lost := must.As[*locks.LostError](t, slot.Err())
			require.ErrorAs(t, context.Cause(slot.Context(t.Context())), &lost)
			require.ErrorAs(t, slot.Release(t.Context()), &lost)

			first, began := take(t, other), time.Now()
			second := take(t, other)
			require.InDelta(t, delay, time.Since(began), float64(2*time.Second))
			want := []int{0, 1}
			if delay > 0 {
				want = []int{1, 0}
			}
			require.Equal(t, want, []int{first.Number(), second.Number()})
			require.NoError(t, second.Release(t.Context()))
			again := take(t, other)
			require.Equal(t, second.Number(), again.Number(), "a number that was given back has no delay")
			require.NoError(t, again.Release(t.Context()))
			require.NoError(t, first.Release(t.Context()))
		})
	}
}

// TestSlotsTakeThatIsGivenUp says why, and whether it knows that no number is free.
func TestSlotsTakeThatIsGivenUp(t *testing.T) {
	for _, connected := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			link := zktest.NewProxy(t, server)
			held := take(t, newSlots(t, zktest.Client(t, server), 1))
			s := newSlots(t, zktest.Client(t, link), 1, slots.WithErrorPolicy(framework.SessionErrorPolicy))
			ctx, giveUp := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			time.AfterFunc(11*time.Second, func() { giveUp(enough) })
			if !connected {
				time.AfterFunc(10*time.Second, func() {
					link.Refuse(true)
					link.Cut()
				})
			}
			_, err := s.Take(ctx)
			require.ErrorIs(t, err, enough)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, connected, errors.Is(err, locks.ErrNotAcquired), "%v", err)
			require.Equal(t, !connected, errors.Is(err, framework.ErrNotConnected), "%v", err)
			link.Refuse(false)
			require.NoError(t, held.Release(t.Context()))
		})
	}
}
