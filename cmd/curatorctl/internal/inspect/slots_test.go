// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// numbers are slots as a lock.
type numbers struct{ *slots.Slots }

func (n numbers) Acquire(ctx context.Context) (*locks.Lease, error) {
	slot, err := n.Take(ctx)
	if err != nil {
		return nil, err
	}
	return slot.Lease, nil
}

func (n numbers) TryAcquire(ctx context.Context) (*locks.Lease, error) {
	slot, err := n.TryTake(ctx)
	if err != nil {
		return nil, err
	}
	return slot.Lease, nil
}

func numbersAt(tb testing.TB, client *framework.Framework, path string, size int, opts ...slots.Option) numbers {
	tb.Helper()
	s := must.Get(slots.New(client, path, size, opts...))(tb)
	return numbers{s}
}

// TestInspectSlots: which numbers are held, who has them, who waits, and who is next.
func TestInspectSlots(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		for _, n := range []int{11, 9, 10} {
			hold(t, numbersAt(t, client, at, 12, slots.Prefer(n), slots.WithDelay(time.Minute)))
		}
		first := only(t, client, at)
		require.Equal(t, inspect.Slots, first.Kind)
		require.Equal(t, []int{3, 0}, []int{first.Holders, first.Waiters})
		require.Empty(t, first.Foreign)
		for range 9 {
			hold(t, numbersAt(t, client, at, 12))
		}
		for i, label := range []string{"second", "third"} {
			contend(t, numbersAt(t, zktest.Client(t, server), at, 12, slots.WithLabel(label)))
			awaitChildren(t, client, at, 12+3+i+1)
		}
		put(t, client, at+"/README", at+"/taken-x")
		r := only(t, client, at)
		require.Equal(t, []int{12, 2}, []int{r.Holders, r.Waiters})
		require.Equal(t, []string{"README", "taken-x"}, r.Foreign)
		var held []string
		for _, p := range r.Participants[:12] {
			number, ok := inspect.Slot(p)
			require.True(t, ok && p.Holds && inspect.Client(p) == "curator")
			held = append(held, number)
		}
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}, held)
		next, last := r.Participants[12], r.Participants[13]
		require.Equal(t, []string{"second", "third"}, []string{next.Label, last.Label})
		require.Equal(t, [][]string{nil, {next.Path}}, [][]string{next.WaitsFor, last.WaitsFor})

		survey := must.Get(inspect.Walk(t.Context(), client, "/locks", inspect.HeadsOnly()))(t)
		require.Len(t, survey.Recipes, 1)
		heads := survey.Recipes[0]
		require.Equal(t, []int{12, 2, 2}, []int{heads.Holders, heads.Waiters, len(heads.Participants)})
		number, _ := inspect.Slot(*heads.OldestHold())
		require.Equal(t, "11", number, "the oldest hold, and not the lowest number")
		require.Empty(t, must.Get(inspect.Deadlocks(t.Context(), client, "/", inspect.LongerThan(time.Second)))(t))
	})
}

// slotSituations are those of TestExplainSituations with numbers.
var slotSituations = []situation{
	{
		name: "numbers that are held", reason: inspect.ReasonHeld, says: []string{"a set of numbers: 1 hold, 0 wait", " holds the number 0 since "},
		make: func(s scene) { hold(s.T, numbersAt(s, s.client, at, 2)) },
	},
	{
		name: "a wait for a number", reason: inspect.ReasonLimit, says: []string{"1 hold, 1 wait.", "The first waiter gets the next number that is released"},
		make: func(s scene) {
			hold(s.T, numbersAt(s, s.client, at, 1))
			contend(s.T, numbersAt(s, s.client, at, 1))
			s.until(at, 2)
		},
	},
	{
		name: "a number of a process that was killed", reason: inspect.ReasonLost, trouble: true, node: "-slot-0-", advice: "curatorctl lock break -yes -token ",
		make: func(s scene) {
			client, proxy := s.other()
			s.gone(numbersAt(s, client, at, 1))
			contend(s.T, numbersAt(s, s.client, at, 1))
			s.until(at, 2)
			s.kill(proxy)
		},
	},
}

// TestTrafficOfSlots: those who wait for a number are no lock of their own.
func TestTrafficOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		work(ctx, t, &wg, server, 4, 100*time.Millisecond, func(client *framework.Framework) locks.InterProcessLock {
			return numbersAt(t, client, "/ids", 2)
		})
		time.Sleep(time.Second)
		traffic := must.Get(inspect.Follow(t.Context(), zktest.Client(t, server), "/"))(t)
		defer traffic.Close()
		time.Sleep(15 * time.Second)
		c := traffic.Take()
		require.Len(t, c.Locks, 1)
		got := loadOf(t, c, "/ids")
		require.Equal(t, inspect.Slots, got.Kind)
		require.InDelta(t, 300, got.Turns, 10)
		require.InDelta(t, 2, got.Waiters, 0.2)
		require.InDelta(t, 0.1, got.Hold.P50, 0.005)
		require.InDelta(t, 0.1, got.Wait.P50, 0.01)
		require.InDelta(t, 1, got.Held, 0.05)
		stop()
		wg.Wait()
	})
}
