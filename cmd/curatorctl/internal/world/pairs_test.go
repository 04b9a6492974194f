// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// played is how many of the recipes a fleet has. With few of them a history is short, and more are played in the same time.
const played = 5

// yes is the value of the factor that a recipe itself is.
const yes = "yes"

// factors are the options of a fleet, and the values of each. The first value stands for the default. An option of a recipe is none of
// a fleet without it.
var factors = append([]factor{
	{"faults", "", []string{"all", "servers", "clients", "processes", "restores"}},
	{"policy", "", []string{"standard", "quorum", "session"}},
	{"session", "", []string{"4s", "6s", "10s"}},
	{"servers", "", []string{"known", "tracked"}},
	{"retry", "", []string{"default", "forever"}},
	{"namespace", "", []string{"", "app"}},
	{"access", "", []string{"all", "creators"}},
	{"compression", "", []string{"off", "on", "mixed"}},
	{"lock delay", "mutex", []string{"", "3s"}},
	{"longest hold", "mutex", []string{"", "1s"}},
	{"hand-off", "mutex", []string{"", "3"}},
	{"asked", "mutex", []string{"goes on", "gives way"}},
	{"places", "", []string{"", "0", "1"}},
	{"permits", "semaphore", []string{"fixed", "shared", "first version", "one"}},
	{"election", "election", []string{"selector", "latch", "again", "latch that tells"}},
	{"once", "once", []string{"until it succeeds", "never again"}},
	{"retention", "once", []string{"", "1m"}},
	{"queue", "queue", []string{"plain", "priority", "delay", "id", "simple"}},
	{"items", "queue", []string{"locked", "late", "removed first"}},
	{"failures", "queue", []string{"come again", "dead letters", "deleted"}},
	{"room", "queue", []string{"", "2"}},
	{"puts", "queue", []string{"", "in the background"}},
	{"from a list", "queue", []string{"", "3"}},
	{"results", "queue", []string{"none", "transaction"}},
	{"counter", "counter", []string{"optimistic", "promoted", "shared", "cached"}},
	{"depth", "views", []string{"", "1", "children", "selected"}},
	{"kept", "nodes", []string{"", "protected", "edited"}},
	{"slot delay", "slots", []string{"", "3s"}},
	{"set", "partitions", []string{"fixed", "stored"}},
	{"settle", "partitions", []string{"", "0s"}},
	{"return", "partitions", []string{"", "5s"}},
	{"moves", "partitions", []string{"", "1"}},
	{"grace", "partitions", []string{"", "1s"}},
	{"functions fail", "partitions", []string{"", "again", "and end"}},
	{"locks", "partitions", []string{"", "elsewhere"}},
	{"capacity", "partitions", []string{"", "2"}},
	{"standbys", "partitions", []string{"", "1"}},
	{"zones", "partitions", []string{"", "2"}},
	{"loads", "partitions", []string{"", "reported"}},
	{"overlap", "jobs", []string{"queue", "skip", "cancel"}},
	{"catch-up", "jobs", []string{"all", "newest"}},
	{"at most once", "jobs", []string{"no", "yes"}},
	{"give up", "jobs", []string{"no", "yes"}},
	{"names", "jobs", []string{"in the program", "in a list", "in two lists"}},
	{"releases", "jobs", []string{"", "2"}},
	{"operator", "operator", []string{"looks", "acts"}},
}, theRecipes()...)

type factor struct {
	name   string
	recipe string // whose option it is; "" for an option of all
	values []string
}

// theRecipes are factors with one value, so that each two recipes are a pair.
func theRecipes() (all []factor) {
	for _, name := range recipes {
		all = append(all, factor{name, name, []string{yes}})
	}
	return all
}

// options are the values of a fleet, in the order of factors: -1 for one of a recipe that it does not play.
type options []int

// find returns the number of a factor.
func find(name string) int {
	i := slices.IndexFunc(factors, func(f factor) bool { return f.name == name })
	if i < 0 {
		panic(fmt.Sprintf("no fleet has the option %q", name))
	}
	return i
}

// is reports whether a factor has a value.
func (o options) is(name, value string) bool {
	if f := factors[find(name)]; !slices.Contains(f.values, value) {
		panic(fmt.Sprintf("no fleet has the option %q %q", name, value))
	}
	return o.get(name) == value
}

// get returns the value of a factor, and "" without its recipe.
func (o options) get(name string) string {
	i := find(name)
	if o[i] < 0 {
		return ""
	}
	return factors[i].values[o[i]]
}

// plays reports whether a fleet has a recipe.
func (o options) plays(recipe string) bool { return o[find(recipe)] >= 0 }

// recipes are those that a fleet plays.
func (o options) recipes() []string {
	return slices.DeleteFunc(slices.Clone(recipes), func(name string) bool { return !o.plays(name) })
}

func (o options) String() string {
	said := []string{fmt.Sprint(o.recipes())}
	for i, f := range factors {
		if f.name != f.recipe && o[i] > 0 {
			said = append(said, f.name+": "+f.values[o[i]])
		}
	}
	return strings.Join(said, ", ")
}

// pair are two values of two factors, as their numbers.
type pair struct{ a, av, b, bv int }

func ordered(a, av, b, bv int) pair {
	if a > b {
		return pair{b, bv, a, av}
	}
	return pair{a, av, b, bv}
}

func (p pair) compare(q pair) int {
	return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.av, q.av), cmp.Compare(p.b, q.b), cmp.Compare(p.bv, q.bv))
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
		first := make([]pair, 0, len(missing))
		for p := range missing {
			first = append(first, p)
		}
		slices.SortFunc(first, pair.compare)
		fleet := drawFleet(random, missing, first[random.IntN(len(first))])
		for p := range fleet.pairs() {
			delete(missing, p)
		}
		fleets = append(fleets, fleet)
	}
	return fleets
}

// drawFleet draws a fleet with a pair.
func drawFleet(random *rand.Rand, missing map[pair]bool, begin pair) options {
	fleet := make(options, len(factors))
	for i := range fleet {
		fleet[i] = -1
	}
	fleet[begin.a], fleet[begin.b] = begin.av, begin.bv
	plays := make(map[string]bool)
	for _, recipe := range []string{factors[begin.a].recipe, factors[begin.b].recipe} {
		plays[recipe] = true
	}
	plays[""] = true
	for _, i := range random.Perm(len(recipes)) {
		if len(plays) <= played {
			plays[recipes[i]] = true
		}
	}
	for _, f := range random.Perm(len(factors)) {
		if fleet[f] >= 0 || !plays[factors[f].recipe] {
			continue
		}
		most := -1
		for _, v := range random.Perm(len(factors[f].values)) {
			n := 0
			for other, ov := range fleet {
				if ov >= 0 && missing[ordered(f, v, other, ov)] {
					n++
				}
			}
			if n > most {
				most, fleet[f] = n, v
			}
		}
	}
	return fleet
}

// pairs are those that a fleet has.
func (o options) pairs() map[pair]bool {
	all := make(map[pair]bool)
	for a, av := range o {
		for b := a + 1; b < len(o); b++ {
			if av >= 0 && o[b] >= 0 {
				all[pair{a, av, b, o[b]}] = true
			}
		}
	}
	return all
}

// TestPairs: each pair of options comes within 500 histories.
func TestPairs(t *testing.T) {
	fleets := covering(rand.New(rand.NewPCG(1, 2)))
	missing := allPairs()
	t.Logf("%d pairs in %d fleets", len(missing), len(fleets))
	for _, fleet := range fleets[:min(500, len(fleets))] {
		for p := range fleet.pairs() {
			delete(missing, p)
		}
	}
	require.Empty(t, missing)
}
