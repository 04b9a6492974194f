// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
)

// shares returns how often each instance is chosen, of a thousand times.
func shares(t *testing.T, p *discovery.ServiceProvider[string]) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range 1000 {
		i := must.Get(p.Instance())(t)
		counts[i.ID]++
	}
	return counts
}

// byPort is the weight of an instance of a test.
func byPort(i *instance) int { return *i.Port }

// TestWeightedSharesByWeight, which it asks for once for each list, and never takes an instance without one.
func TestWeightedSharesByWeight(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for id, weight := range map[string]int{"a": 1, "b": 3, "c": 0} {
			write(t, writer, id, weight)
		}
		asked := 0
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: discovery.Weighted(func(i *instance) int {
			asked++
			return byPort(i)
		})})
		counts := shares(t, p)
		require.Equal(t, 3, asked)
		require.InDelta(t, 250, counts["a"], 90)
		require.InDelta(t, 750, counts["b"], 90)
		require.Len(t, counts, 2)
		down(p, "b")
		require.Equal(t, map[string]int{"a": 1000}, shares(t, p))
		write(t, writer, "c", 1)
		synctest.Wait()
		require.InDelta(t, 500, shares(t, p)["c"], 110)
		remove(t, writer, "a")
		remove(t, writer, "b")
		write(t, writer, "c", 0)
		synctest.Wait()
		_, err := p.Instance()
		require.ErrorIs(t, err, discovery.ErrNoInstance)
	})
}

// TestWeightedSumsTheGreatestWeights, which instances of other programs may give themselves.
func TestWeightedSumsTheGreatestWeights(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		weights := map[string]int{"a": math.MaxInt, "b": math.MaxInt, "c": 2, "d": math.MinInt}
		for id := range weights {
			write(t, writer, id, 1)
		}
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: discovery.Weighted(func(i *instance) int {
			return weights[i.ID]
		})})
		counts := shares(t, p)
		require.InDelta(t, 500, counts["a"], 110)
		require.Equal(t, 1000, counts["a"]+counts["b"])
	})
}

// TestSameZoneComesFirst, and the others when no instance of the zone is up.
func TestSameZoneComesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for n := range 4 {
			write(t, writer, fmt.Sprint(n), n) // the port is the weight, and even in zone "even"
		}
		zone := func(i *instance) string {
			if *i.Port%2 == 0 {
				return "even"
			}
			return "odd"
		}
		for name, other := range map[string]discovery.Strategy{
			"turns": discovery.RoundRobin(), "random": discovery.Random(), "sticky": discovery.Sticky(discovery.Random()),
			"weighted": discovery.Weighted(byPort),
		} {
			p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: discovery.SameZone("odd", zone, other)})
			counts := shares(t, p)
			require.Equal(t, 1000, counts["1"]+counts["3"], name)
			switch name {
			case "turns":
				require.Equal(t, 500, counts["1"])
			case "sticky":
				require.Len(t, counts, 1)
			case "weighted":
				require.InDelta(t, 750, counts["3"], 90)
			}
			down(p, "1")
			require.Equal(t, map[string]int{"3": 1000}, shares(t, p), name)
			down(p, "3")
			counts = shares(t, p)
			require.Equal(t, 1000, counts["0"]+counts["2"], name)
		}
	})
}

// unshown are candidates of a caller's own, which cannot be compared.
type unshown []string

func (u unshown) Len() int            { return len(u) }
func (u unshown) Up(int) bool         { return true }
func (u unshown) ID(index int) string { return u[index] }
func (u unshown) Index(string) int    { return -1 }

// TestWeightedOfOtherCandidates: without instances to see, all weigh the same, and are of no zone.
func TestWeightedOfOtherCandidates(t *testing.T) {
	require.Nil(t, discovery.InstanceAt[string](unshown{"a"}, 0))
	for _, strategy := range []discovery.Strategy{
		discovery.Weighted(func(*instance) int { panic("there is none") }),
		discovery.SameZone("z", func(*instance) string { panic("there is none") }, discovery.RoundRobin()),
	} {
		require.Equal(t, 0, strategy.Choose(unshown{"a"}))
		chosen := map[int]bool{}
		for range 100 {
			chosen[strategy.Choose(unshown{"a", "b"})] = true
		}
		require.Len(t, chosen, 2)
		require.Equal(t, -1, strategy.Choose(unshown{}))
	}
}

// TestProviderTellsChanges of the instances that it may choose.
func TestProviderTellsChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		write(t, writer, "a", 1)
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{
			Filters: []func(*instance) bool{func(i *instance) bool { return i.ID != "hidden" }},
		})
		lists := make(chan []string, 10)
		listener := p.OnChange(func(all []*instance) { lists <- ids(all) })
		write(t, writer, "hidden", 1)
		write(t, writer, "b", 1)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, <-lists)
		require.Empty(t, lists)
		listener.Remove()
	})
}
