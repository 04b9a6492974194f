// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"fmt"
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

// loadOf returns the load of the partitions that a member has.
func (w *world) loadOf(id string, loads map[string]int) (sum int) {
	for name, load := range loads {
		if w.owner(name) == id {
			sum += load
		}
	}
	return sum
}

func zipf(n int) map[string]int {
	loads := make(map[string]int)
	for i, name := range numbered(n) {
		loads[name] = 1000 / (i + 1)
	}
	return loads
}

func sum(loads map[string]int) (total int) {
	for _, load := range loads {
		total += load
	}
	return total
}

// TestLoadsAreDivided: two periods after reports that make it necessary, and with one write of each member
// in a period, each member is within a tenth of its part. A small change writes no plan. When a member dies,
// its loads are still known. An operator sees the loads.
func TestLoadsAreDivided(t *testing.T) {
	play(t, partition.Fixed(numbered(30)...), func(t *testing.T, w *world) {
		workers := []*worker{w.join("a"), w.join("b"), w.join("c")}
		w.await(map[string]int{"a": 10, "b": 10, "c": 10})
		w.takenMoves()
		loads := zipf(30)
		var writes, plans atomic.Int32
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSetData && strings.HasPrefix(r.Path, root+"/members/") {
				writes.Add(1)
			}
			if r.Op == zkserver.OpMulti {
				plans.Add(1)
			}
			return zkserver.Pass
		})

		for range 10 {
			w.report(loads)
			time.Sleep(time.Second)
		}
		time.Sleep(partition.LoadPeriod - 9*time.Second)
		require.Equal(t, int32(3), writes.Load())
		time.Sleep(partition.LoadPeriod + partition.DefaultSettle)

		require.LessOrEqual(t, writes.Load(), int32(6))
		for _, k := range workers {
			require.InEpsilon(t, sum(loads)/3, w.loadOf(k.ID(), loads), 0.1, "%s:\n%s", k.ID(), w.told())
		}
		require.LessOrEqual(t, w.takenMoves(), 6)
		time.Sleep(3 * partition.LoadPeriod)
		got := must.Get(workers[0].Assignment(t.Context()))(t)
		require.True(t, got.Balanced)
		require.Equal(t, 1000, got.Partitions[0].Load)
		i := slices.IndexFunc(got.Members, func(m partition.Peer) bool { return m.ID == got.Partitions[0].Owner })
		require.Equal(t, w.loadOf(got.Members[i].ID, loads), got.Members[i].Load)

		plans.Store(0)
		writes.Store(0)
		for name := range loads {
			loads[name] += loads[name] / 30
		}
		w.report(loads)
		time.Sleep(3 * partition.LoadPeriod)
		require.Equal(t, int32(3), writes.Load())
		require.Zero(t, plans.Load())
		require.Zero(t, w.takenMoves())

		workers[1].link.Refuse(true)
		workers[1].link.Cut()
		time.Sleep(sessionTimeout(workers[1].client) + partition.DefaultSettle + time.Second)
		for _, id := range []string{"a", "c"} {
			require.InEpsilon(t, sum(loads)/2, w.loadOf(id, loads), 0.15, "%s:\n%s", id, w.told())
		}
	})
}

// TestLoadsOfAStoredSet stand behind a tab, and one that is not valid leaves the set as it was.
func TestLoadsOfAStoredSet(t *testing.T) {
	play(t, partition.Stored("/set"), func(t *testing.T, w *world) {
		set := []string{"p00\t600", "p01", "p02\t100", "p03 \t 100 ", "p04\t100"}
		must.Get(w.theirs.Create(t.Context(), "/set", []byte(strings.Join(set, "\n"))))(t)
		w.join("a")
		w.join("b")
		time.Sleep(3 * partition.DefaultSettle)
		require.NotEqual(t, w.owner("p00"), w.owner("p02"))
		w.await(map[string]int{w.owner("p00"): 1, w.owner("p02"): 4})
		for _, bad := range []string{"-1", "many", "1000001"} {
			require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p00\t1\np01\t"+bad)))
			time.Sleep(3 * partition.DefaultSettle)
			require.Equal(t, 5, w.total(), bad)
		}
	})
}

func TestLoadsThatAreNotValid(t *testing.T) {
	p := partition.Partition{Name: "orders"}
	for _, load := range []int{-1, partition.MaxLoad + 1} {
		require.EqualError(t, p.ReportLoad(load), fmt.Sprintf(`partition: load %d of partition "orders", expected 0 to 1000000`, load))
	}
	require.NoError(t, p.ReportLoad(1), "in a test of a function")
}

// TestLoadWhoseReportFailsIsReportedAgain, although the function says nothing more.
func TestLoadWhoseReportFailsIsReportedAgain(t *testing.T) {
	play(t, partition.Fixed(numbered(30)...), func(t *testing.T, w *world) {
		workers := []*worker{w.join("a"), w.join("b"), w.join("c")}
		w.await(map[string]int{"a": 10, "b": 10, "c": 10})
		loads := zipf(30)
		var refused atomic.Int32
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSetData && strings.HasPrefix(r.Path, root+"/members/") && refused.Add(1) <= 3 {
				return zkserver.FailWith(-102)
			}
			return zkserver.Pass
		})
		w.report(loads)
		time.Sleep(3*partition.LoadPeriod + partition.DefaultSettle)
		for _, k := range workers {
			require.InEpsilon(t, sum(loads)/3, w.loadOf(k.ID(), loads), 0.1, "%s:\n%s", k.ID(), w.told())
		}
	})
}
