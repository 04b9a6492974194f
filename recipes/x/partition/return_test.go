// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkserver"
)

// starts returns how often functions have started.
func (w *world) starts() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.story {
		if strings.Contains(line, " has ") {
			n++
		}
	}
	return n
}

// restart has a member leave, and return after a while.
func (k *worker) restart(after time.Duration, opts ...partition.Option) {
	id := k.ID()
	k.leave()
	time.Sleep(after)
	k.begin(id, nil, opts...)
}

// TestReturnRollingRestart: each of ten members restarts, and each of 100 partitions starts once more, at the
// member that had it.
func TestReturnRollingRestart(t *testing.T) {
	play(t, partition.Fixed(numbered(100)...), func(t *testing.T, w *world) {
		stays := partition.WithReturn(30 * time.Second)
		want, workers := make(map[string]int), make(map[string]*worker)
		for i := range 10 {
			id := fmt.Sprintf("m%d", i)
			want[id], workers[id] = 10, w.join(id, stays)
		}
		w.await(want)
		time.Sleep(10 * partition.DefaultSettle)
		before := w.starts()
		w.takenMoves()

		for _, id := range slices.Sorted(maps.Keys(workers)) {
			workers[id].restart(5*time.Second, stays)
			time.Sleep(2 * partition.DefaultSettle)
		}

		w.await(want)
		require.Equal(t, 100, w.starts()-before)
		require.Zero(t, w.takenMoves())
		time.Sleep(10 * partition.DefaultSettle)
		require.True(t, must.Get(workers["m0"].Assignment(t.Context()))(t).Balanced)
	})
}

// TestReturnIsAwaitedNoLonger: the partitions of a member that does not return go to the others when its time
// is over, also if the member has died that has noticed it. A join does not move them before.
func TestReturnIsAwaitedNoLonger(t *testing.T) {
	for _, noticerDies := range []bool{false, true} {
		play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
			a := w.join("a", partition.WithReturn(time.Minute))
			b, c := w.join("b"), w.join("c")
			w.await(map[string]int{"a": 4, "b": 4, "c": 4})
			time.Sleep(10 * partition.DefaultSettle)
			w.takenMoves()
			a.leave()
			left := time.Now()
			time.Sleep(20 * time.Second)
			state := must.Get(c.Assignment(t.Context()))(t)
			require.WithinDuration(t, left.Add(time.Minute), state.Members[0].Until, time.Second)
			require.False(t, state.Balanced)
			if noticerDies {
				w.hurts(b)
				b.link.Refuse(true)
				b.link.Cut()
				w.server.KillSession(b.client.Session().ID())
			} else {
				w.join("d")
			}
			time.Sleep(39 * time.Second)
			require.Equal(t, 8, w.total(), w.told())
			if !noticerDies {
				require.Zero(t, w.takenMoves(), "nothing moves for the newcomer yet")
			}
			for w.total() < 12 {
				require.Less(t, time.Since(left), time.Minute+time.Second, w.told())
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(10 * partition.DefaultSettle)
			if noticerDies {
				w.await(map[string]int{"c": 12})
			} else {
				w.await(map[string]int{"b": 4, "c": 4, "d": 4})
			}
			w.check()
		})
	}
}

// TestReturnIsAwaitedWithoutRequests, although the group is not balanced meanwhile.
func TestReturnIsAwaitedWithoutRequests(t *testing.T) {
	play(t, partition.Fixed(numbered(4)...), func(t *testing.T, w *world) {
		a := w.join("a", partition.WithReturn(time.Hour))
		w.join("b")
		w.await(map[string]int{"a": 2, "b": 2})
		time.Sleep(10 * partition.DefaultSettle)
		a.leave()
		time.Sleep(10 * partition.DefaultSettle)
		var requests atomic.Int32
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpPing {
				requests.Add(1)
			}
			return zkserver.Pass
		})
		time.Sleep(30 * time.Minute)
		require.Zero(t, requests.Load())
		require.Equal(t, map[string]int{"b": 2}, w.counts())
	})
}

// TestReturnOfTheWholeGroup: all members restart at once, and each has its partitions again. When all have gone
// for good, the next member has them after the time, and leaves nothing.
func TestReturnOfTheWholeGroup(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		stays := partition.WithReturn(time.Minute)
		workers := []*worker{w.join("a", stays), w.join("b", stays), w.join("c", stays)}
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		time.Sleep(10 * partition.DefaultSettle)
		w.takenMoves()
		for _, k := range workers {
			k.leave()
		}
		time.Sleep(30 * time.Second)
		for i, k := range workers {
			k.begin(string("abc"[i]), nil, stays)
		}
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		require.Zero(t, w.takenMoves())
		time.Sleep(10 * partition.DefaultSettle)
		for _, k := range workers {
			k.leave()
		}
		d := w.join("d")
		joined := time.Now()
		w.await(map[string]int{"d": 12})
		require.InDelta(t, time.Minute, time.Since(joined), float64(time.Second))
		d.leave()
		w.requireNothingLeft()
	})
}
