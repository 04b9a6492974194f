// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// factors are the options of a fleet, and the values of each. The first one stands for the default.
var factors = []struct {
	name   string
	values []string
}{
	{"faults", []string{"all", "servers", "clients", "processes"}},
	{"policy", []string{"standard", "quorum", "session"}},
	{"session", []string{"4s", "6s", "10s"}},
	{"retry", []string{"default", "forever"}},
	{"namespace", []string{"", "app"}},
	{"compression", []string{"off", "on"}},
	{"first", recipes}, // what most actions are about
	{"second", recipes},
	{"lock delay", []string{"", "3s"}},
	{"longest hold", []string{"", "1s"}},
	{"hand-off", []string{"", "3"}},
	{"places", []string{"", "0", "1"}},
	{"election", []string{"selector", "latch"}},
	{"queue", []string{"plain", "priority", "delay", "id"}},
	{"items", []string{"locked", "late", "removed first"}},
	{"results", []string{"none", "transaction"}},
	{"counter", []string{"optimistic", "promoted"}},
	{"slot delay", []string{"", "3s"}},
	{"set", []string{"fixed", "stored"}},
	{"settle", []string{"", "0s"}},
	{"return", []string{"", "5s"}},
	{"moves", []string{"", "1"}},
	{"standbys", []string{"", "1"}},
	{"overlap", []string{"queue", "skip", "cancel"}},
	{"catch-up", []string{"all", "newest"}},
	{"at most once", []string{"no", "yes"}},
	{"give up", []string{"no", "yes"}},
}

// options are the values of a fleet, in the order of factors.
type options []string

// is reports whether a factor has a value.
func (o options) is(name, value string) bool {
	for i, f := range factors {
		if f.name == name && slices.Contains(f.values, value) {
			return o[i] == value
		}
	}
	panic(fmt.Sprintf("no fleet has the option %q %q", name, value))
}

// get returns the value of a factor.
func (o options) get(name string) string {
	for i, f := range factors {
		if f.name == name {
			return o[i]
		}
	}
	panic(fmt.Sprintf("no fleet has the option %q", name))
}

// pair are two values of two factors, as their numbers.
type pair struct{ a, av, b, bv int }

func ordered(a, av, b, bv int) pair {
	if a > b {
		return pair{b, bv, a, av}
	}
	return pair{a, av, b, bv}
}

// allPairs are the pairs that there are.
func allPairs() map[pair]bool {
	all := make(map[pair]bool)
	for a := range factors {
		for b := a + 1; b < len(factors); b++ {
			for av := range factors[a].values {
				for bv := range factors[b].values {
					all[pair{a, av, b, bv}] = true
				}
			}
		}
	}
	return all
}

// covering draws fleets until each pair of values has come: each begins with a pair that is missing, and takes of each other factor
// the value with the most missing pairs.
func covering(random *rand.Rand) (fleets []options) {
	missing := allPairs()
	for len(missing) > 0 {
		values := make([]int, len(factors))
		for i := range values {
			values[i] = -1
		}
		first := slices.SortedFunc(func(yield func(pair) bool) {
			for p := range missing {
				if !yield(p) {
					return
				}
			}
		}, func(p, q pair) int { return slices.Compare([]int{p.a, p.av, p.b, p.bv}, []int{q.a, q.av, q.b, q.bv}) })
		begin := first[random.IntN(len(first))]
		values[begin.a], values[begin.b] = begin.av, begin.bv
		for _, f := range random.Perm(len(factors)) {
			if values[f] >= 0 {
				continue
			}
			most := -1
			for _, v := range random.Perm(len(factors[f].values)) {
				n := 0
				for other, ov := range values {
					if ov >= 0 && missing[ordered(f, v, other, ov)] {
						n++
					}
				}
				if n > most {
					most, values[f] = n, v
				}
			}
		}
		fleet := make(options, len(factors))
		for a, av := range values {
			fleet[a] = factors[a].values[av]
			for b := a + 1; b < len(values); b++ {
				delete(missing, pair{a, av, b, values[b]})
			}
		}
		fleets = append(fleets, fleet)
	}
	return fleets
}

// TestPairs: each pair of options comes within 500 histories.
func TestPairs(t *testing.T) {
	fleets := covering(rand.New(rand.NewPCG(1, 2)))
	missing := allPairs()
	t.Logf("%d pairs in %d fleets", len(missing), len(fleets))
	for _, fleet := range fleets[:min(500, len(fleets))] {
		for p := range missing {
			if fleet[p.a] == factors[p.a].values[p.av] && fleet[p.b] == factors[p.b].values[p.bv] {
				delete(missing, p)
			}
		}
	}
	require.Empty(t, missing)
}
