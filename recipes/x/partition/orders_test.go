// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkserver"
)

// slowly is a function that takes longer to end than the group waits between plans.
func slowly(context.Context, partition.Partition) error {
	time.Sleep(3 * time.Second)
	return nil
}

// requireUnderWay checks for a while that no more partitions are on their way from members that live. It
// returns the most that were.
func (w *world) requireUnderWay(most int, d time.Duration) (seen int) {
	w.tb.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(d / 200) {
		a := must.Get(partition.Read(w.tb.Context(), w.theirs, root))(w.tb)
		n := 0
		for _, p := range a.Partitions {
			if p.Owner != "" && p.Holder != "" && p.OnItsWay() {
				n++
			}
		}
		require.LessOrEqual(w.tb, n, most, w.told())
		seen = max(seen, n)
	}
	return seen
}

// TestMovesAtOnce: a join moves no more partitions at a time than the budget has, and all that it should in
// the end. A death is not held back.
func TestMovesAtOnce(t *testing.T) {
	play(t, partition.Fixed(numbered(40)...), func(t *testing.T, w *world) {
		bounds := partition.WithMoves(3, 0)
		w.joinWith("a", slowly, bounds)
		w.await(map[string]int{"a": 40})
		time.Sleep(10 * partition.DefaultSettle)
		b := w.join("b", bounds)

		require.Equal(t, 3, w.requireUnderWay(3, time.Minute))

		w.await(map[string]int{"a": 20, "b": 20})
		b.link.Refuse(true)
		b.link.Cut()
		time.Sleep(sessionTimeout(b.client) + time.Second)
		w.await(map[string]int{"a": 40})
	})
}

// TestMovesCoolDown: a partition that has moved does not move again for balance before its time.
func TestMovesCoolDown(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(_ *testing.T, w *world) {
		bounds := partition.WithMoves(0, time.Hour)
		w.join("a", bounds)
		w.await(map[string]int{"a": 12})
		w.join("b", bounds)
		w.await(map[string]int{"a": 6, "b": 6})
		time.Sleep(2 * time.Hour)
		w.join("c", bounds)
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		w.join("d", bounds)
		time.Sleep(30 * time.Minute)
		w.await(map[string]int{"a": 3, "b": 3, "c": 4, "d": 2})
		time.Sleep(31 * time.Minute)
		w.await(map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		w.takenMoves()
	})
}

// TestDrainBeforeLeaving: a member gives one partition after the other up, and has none when Drain returns.
func TestDrainBeforeLeaving(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		a := w.joinWith("a", slowly)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.await(map[string]int{"a": 12})
		require.ErrorIs(t, a.Drain(short), context.DeadlineExceeded, "there is no other member")
		a.leave()
		require.ErrorIs(t, a.Drain(t.Context()), partition.ErrNotRunning)
		a.begin("a", slowly)
		w.join("b")
		w.join("c")
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		time.Sleep(10 * partition.DefaultSettle)
		w.takenMoves()
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(t.Context()) }()

		require.Equal(t, 1, w.requireUnderWay(1, 30*time.Second))

		require.NoError(t, <-drained)
		w.await(map[string]int{"b": 6, "c": 6})
		got := must.Get(a.Assignment(t.Context()))(t)
		require.True(t, got.Balanced)
		require.True(t, got.Members[0].Drained)
		a.leave()
		time.Sleep(10 * partition.DefaultSettle)
		require.Equal(t, 4, w.takenMoves())
		a.begin("a", nil)
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
	})
}

// TestOrdersOfAnOperator are followed: a member is drained over a restart, a partition is pinned and excluded.
func TestOrdersOfAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newWorld(t, partition.Fixed(numbered(6)...))
		a := w.join("a")
		b := w.join("b")
		w.await(map[string]int{"a": 3, "b": 3})
		state := func(name string) partition.State {
			got := must.Get(partition.Read(ctx, w.theirs, root))(t)
			for _, p := range got.Partitions {
				if p.Name == name {
					return p
				}
			}
			return partition.State{}
		}
		require.NoError(t, partition.Drain(ctx, w.theirs, root, "a", true))
		w.await(map[string]int{"b": 6})
		a.restart(time.Second)
		time.Sleep(10 * partition.DefaultSettle)
		w.await(map[string]int{"b": 6})
		require.NoError(t, partition.Drain(ctx, w.theirs, root, "b", true)) // now none has another member
		time.Sleep(10 * partition.DefaultSettle)
		require.Equal(t, 6, w.total())
		for _, id := range []string{"a", "b"} {
			require.NoError(t, partition.Drain(ctx, w.theirs, root, id, false))
		}
		time.Sleep(10 * partition.DefaultSettle)
		w.await(map[string]int{"a": 3, "b": 3})

		name := "p00"
		other := map[string]string{"a": "b", "b": "a"}[w.owner(name)]
		require.NoError(t, partition.Pin(ctx, w.theirs, root, name, other))
		time.Sleep(10 * partition.DefaultSettle)
		w.await(map[string]int{"a": 3, "b": 3})
		require.Equal(t, other, w.owner(name))
		require.Equal(t, other, state(name).Pinned)
		for _, k := range []*worker{a, b} {
			if k.ID() == other {
				k.restart(time.Second)
			}
		}
		time.Sleep(10 * partition.DefaultSettle)
		require.Equal(t, other, w.owner(name), "the pin is in force again")
		require.NoError(t, partition.Pin(ctx, w.theirs, root, name, ""))

		require.NoError(t, partition.Exclude(ctx, w.theirs, root, name, true))
		w.mu.Lock()
		function := w.held[name].Lease
		w.mu.Unlock()
		time.Sleep(10 * partition.DefaultSettle)
		require.Error(t, function.Err())
		require.Equal(t, 5, w.total())
		require.Equal(t, "excluded", state(name).Describe())
		require.NoError(t, partition.Exclude(ctx, w.theirs, root, name, false))
		time.Sleep(10 * partition.DefaultSettle)
		w.await(map[string]int{"a": 3, "b": 3})
	})
}

func TestOrdersThatAreNotValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newWorld(t, partition.Fixed("p"))
		require.ErrorContains(t, partition.Drain(ctx, w.theirs, root, "a/b", true), `name "a/b"`)
		require.ErrorContains(t, partition.Pin(ctx, w.theirs, root, "", "a"), `name ""`)
		require.ErrorContains(t, partition.Pin(ctx, w.theirs, root, "p", "a/b"), `member "a/b"`)
		require.ErrorContains(t, partition.Exclude(ctx, nil, root, "p", true), "client nil")
		require.ErrorIs(t, partition.Exclude(ctx, w.theirs, root, "p", true), framework.ErrNoNode)
		a := w.join("a")
		w.await(map[string]int{"a": 1})
		must.Get(w.theirs.Create(ctx, root+"/orders", []byte("drain a")))(t)
		require.ErrorContains(t, partition.Exclude(ctx, w.theirs, root, "p", true), "invalid character", "they may be another version's")
		a.leave()
		w.join("b")
		w.await(map[string]int{"b": 1})
	})
}

// TestDrainOfAMemberThatALatePlanGivesAPartition: the plan was made before the member said that it is drained.
func TestDrainOfAMemberThatALatePlanGivesAPartition(t *testing.T) {
	play(t, partition.Stored("/set"), func(t *testing.T, w *world) {
		must.Get(w.theirs.Create(t.Context(), "/set", []byte("p")))(t)
		a := w.join("a")
		w.await(map[string]int{"a": 1})
		b := w.join("b")
		time.Sleep(10 * partition.DefaultSettle)
		goOn := make(chan struct{})
		remove := w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == a.client.Session().ID() && r.Op == zkserver.OpMulti {
				return zkserver.HoldUntil(goOn)
			}
			return zkserver.Pass
		})
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p\nq")))
		synctest.Wait()
		require.NoError(t, b.Drain(t.Context()))
		time.Sleep(10 * partition.DefaultSettle)
		close(goOn)
		remove()
		time.Sleep(10 * partition.DefaultSettle)
		w.await(map[string]int{"a": 2})
	})
}

// TestDrainIsSaidBeforeItReturns: otherwise a member without partitions would be given some.
func TestDrainIsSaidBeforeItReturns(t *testing.T) {
	play(t, partition.Fixed("p"), func(t *testing.T, w *world) {
		w.join("a")
		w.await(map[string]int{"a": 1})
		b := w.join("b")
		time.Sleep(10 * partition.DefaultSettle)
		remove := w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == b.client.Session().ID() && r.Op == zkserver.OpSetData {
				return zkserver.FailWith(-102) // no permission
			}
			return zkserver.Pass
		})
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(t.Context()) }()
		synctest.Wait()
		data := must.Get(w.theirs.Get(t.Context(), root+"/plan/b"))(t)
		require.NoError(t, w.theirs.Set(t.Context(), root+"/plan/b", data)) // b hears of it
		time.Sleep(10 * time.Minute)
		require.Empty(t, drained)
		remove()
		require.NoError(t, <-drained)
	})
}

// TestOrdersAndRemovalsWithoutAValidSet are heeded at once: what is excluded, and what the last plan has no more.
func TestOrdersAndRemovalsWithoutAValidSet(t *testing.T) {
	spoilt := map[string]func(*world) error{
		"no list": func(w *world) error { return w.theirs.Set(w.tb.Context(), "/set", []byte("p00\np/3")) },
		"missing": func(w *world) error { return w.theirs.Delete(w.tb.Context(), "/set") },
		"no right": func(w *world) error {
			return w.theirs.SetACL(w.tb.Context(), "/set", []framework.ACL{{Perms: framework.PermWrite, Scheme: "world", ID: "anyone"}})
		},
	}
	for name, spoil := range spoilt {
		for _, members := range []int{1, 3} {
			playAs(t, fmt.Sprintf("%s, %d members", name, members), partition.Stored("/set"), func(t *testing.T, w *world) {
				must.Get(w.theirs.Create(t.Context(), "/set", []byte("p00\np01\np02\np03")))(t)
				for i := range members {
					w.join(fmt.Sprint("m", i))
				}
				time.Sleep(time.Minute)
				require.Equal(t, 4, w.total())
				// The members look whether p03 was removed when there is no set any more.
				w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpMulti {
						return zkserver.Delay(time.Second)
					}
					return zkserver.Pass
				})
				require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p00\np01\np02")))
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, spoil(w))
				require.NoError(t, partition.Exclude(t.Context(), w.theirs, root, "p01", true))
				time.Sleep(time.Minute)
				require.Empty(t, w.owner("p03"), "%s", w.told())
				require.Empty(t, w.owner("p01"), "%s", w.told())
				require.Equal(t, 2, w.total(), "%s", w.told())
			})
		}
	}
}

// TestDrainBehindAFunctionThatDoesNotReturn: it takes one move of the budget for the grace, and the others go on. So does balance.
func TestDrainBehindAFunctionThatDoesNotReturn(t *testing.T) {
	for name, drain := range map[string]bool{"drain": true, "balance": false} {
		playAs(t, name, partition.Fixed(numbered(10)...), func(t *testing.T, w *world) {
			returns := make(chan struct{})
			var hung atomic.Bool
			bounds := partition.WithMoves(1, 0)
			w.joinWith("a", func(context.Context, partition.Partition) error {
				if !hung.Swap(true) {
					<-returns
				}
				return nil
			}, bounds)
			w.await(map[string]int{"a": 10})
			if drain {
				require.NoError(t, partition.Drain(t.Context(), w.theirs, root, "a", true))
			}
			w.join("b", bounds)
			want := map[bool]map[string]int{true: {"a": 1, "b": 9}, false: {"a": 6, "b": 4}}[drain]
			time.Sleep(5 * time.Minute)
			require.Equal(t, want, w.counts(), "%s", w.told())
			close(returns)
			w.await(map[bool]map[string]int{true: {"b": 10}, false: {"a": 5, "b": 5}}[drain])
		})
	}
}

// TestDrainedMemberThatDiesIsNotAwaited, although it has a return: it leaves for good.
func TestDrainedMemberThatDiesIsNotAwaited(t *testing.T) {
	for name, drain := range map[string]func(*world, *worker){
		"by an operator": func(w *world, _ *worker) {
			require.NoError(w.tb, partition.Drain(w.tb.Context(), w.theirs, root, "a", true))
		},
		"by itself": func(w *world, a *worker) {
			short, cancel := context.WithTimeout(w.tb.Context(), time.Second)
			defer cancel()
			require.ErrorIs(w.tb, a.Drain(short), context.DeadlineExceeded)
		},
	} {
		playAs(t, name, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
			stays := partition.WithReturn(time.Hour)
			a := w.joinWith("a", slowly, stays)
			w.join("b", stays)
			w.await(map[string]int{"a": 6, "b": 6})
			time.Sleep(10 * partition.DefaultSettle)
			drain(w, a)
			time.Sleep(4 * time.Second)
			require.NotZero(t, w.counts()["a"])
			w.hurts(a)
			a.dies()
			time.Sleep(10 * time.Second)
			require.Equal(t, map[string]int{"b": 12}, w.counts(), "%s", w.told())
		})
	}
}

func TestStateIsDescribed(t *testing.T) {
	for text, state := range map[string]partition.State{
		"excluded":          {Excluded: true},
		"held":              {Owner: "a", Holder: "a", Asked: true},
		"not held":          {Owner: "a", Asked: true},
		"moving, asked for": {Owner: "a", Holder: "b", Asked: true},
		"moving":            {Owner: "a", Holder: "b"},
	} {
		require.Equal(t, text, state.Describe())
	}
}
