// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var picture = flag.String("day", "", "simulate the day of recipes/SIZING.md, and draw it to this `file`")

// TestDay: by load no member is far beyond the ideal, whoever joins and leaves. By number some member is. Both have
// each partition at a member.
func TestDay(t *testing.T) {
	d := newDay(2000, 40, 100)
	if *picture != "" {
		d = newDay(10_000, 200, stepsOfADay)
	}
	dividers := d.run()
	t.Logf("%d joins and leaves", d.changes)
	for _, a := range dividers {
		require.Len(t, a.owners, len(d.partitions))
		for name, id := range a.owners {
			require.Contains(t, d.members, id, name)
		}
		sorted := slices.Sorted(slices.Values(a.heaviest))
		t.Logf("%s: heaviest member over the ideal: median %.2f, worst %.2f; load moved between members that stay: %.2f of all",
			a.name, sorted[len(sorted)/2], sorted[len(sorted)-1], a.moved)
	}
	if *picture != "" {
		require.NoError(t, os.WriteFile(*picture, []byte(draw(dividers)), 0o600))
	}
	require.Less(t, slices.Max(dividers[0].heaviest), 1.25)
	require.Greater(t, slices.Max(dividers[1].heaviest), 1.4)
	require.Less(t, dividers[0].moved, 0.5)
}

// draw returns a picture of the heaviest members, from 1 to 2.2 times the ideal.
func draw(dividers []*divider) string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 330" font-family="sans-serif" font-size="12">` + "\n")
	for i := range 7 {
		y := 300 - 40*i
		fmt.Fprintf(&b, `<path d="M40 %dH680" stroke="#ddd"/><text x="10" y="%d">%.1f</text>`+"\n", y, y+4, 1+0.2*float64(i))
	}
	for hour := 0; hour <= 24; hour += 6 {
		fmt.Fprintf(&b, `<text x="%d" y="320">%d:00</text>`+"\n", 30+hour*620/24, hour)
	}
	for i, a := range dividers {
		color := []string{"#1f77b4", "#d62728"}[i]
		fmt.Fprintf(&b, `<text x="60" y="%d" fill="%s">%s</text>`+"\n"+`<polyline fill="none" stroke="%s" points="`, 20+16*i, color, a.name, color)
		for step, y := range a.heaviest {
			fmt.Fprintf(&b, "%.0f,%.0f ", 40+640*float64(step)/float64(len(a.heaviest)), 300-200*(y-1))
		}
		b.WriteString(`"/>` + "\n")
	}
	return b.String() + "</svg>\n"
}

// day is a day in the life of a group that divides partitions. Nothing of it runs: the algorithms are called with
// the loads of each step.
type day struct {
	random     *rand.Rand
	steps      int
	partitions []partitionLoad
	members    []string
	joined     int
	changes    int // joins and leaves
}

// partitionLoad is a partition whose load changes.
type partitionLoad struct {
	name        string
	base, phase float64
	wander      float64 // a random walk
	load        float64
}

// divider is an algorithm under test, and how it does.
type divider struct {
	name     string
	assign   func(d *day, owners map[string]string, hasJoined bool) map[string]string
	owners   map[string]string
	heaviest []float64 // over the ideal, in each step
	moved    float64   // load that has moved between members that stay
}

// stepsOfADay are five minutes each.
const stepsOfADay = 288

// newDay begins with a load of Zipf's law, exponent 0.5, so that the heaviest partition is about the part of a
// member.
func newDay(partitions, members, steps int) *day {
	d := &day{random: rand.New(rand.NewPCG(1, 62)), steps: steps}
	for i := range partitions {
		p := partitionLoad{name: fmt.Sprintf("p%05d", i), base: 10_000 / math.Sqrt(float64(i+1)), phase: d.random.Float64() / 3}
		d.partitions = append(d.partitions, p)
	}
	d.random.Shuffle(partitions, func(i, j int) {
		d.partitions[i].base, d.partitions[j].base = d.partitions[j].base, d.partitions[i].base
	})
	for range members {
		d.join()
	}
	return d
}

func (d *day) join() {
	d.members = append(d.members, fmt.Sprintf("m%04d", d.joined))
	d.joined++
}

// run has each algorithm live through the same day.
func (d *day) run() []*divider {
	dividers := []*divider{
		{name: "partition, by load", assign: byLoad}, {name: "cooperative-sticky, by number", assign: cooperativeSticky},
	}
	size := len(d.members)
	for step := range d.steps {
		d.changeLoads(float64(step) / float64(d.steps))
		if step > 0 {
			for _, a := range dividers {
				a.heaviest = append(a.heaviest, d.heaviest(a.owners))
			}
		}
		isNew := step == 0
		switch n := d.random.IntN(12); {
		case n == 0 && len(d.members) > size-size/20:
			i := d.random.IntN(len(d.members))
			d.members = slices.Delete(d.members, i, i+1)
			isNew = true
		case n == 1 && len(d.members) < size+size/20:
			d.join()
			isNew = true
		}
		if isNew && step > 0 {
			d.changes++
		}
		for _, a := range dividers {
			before := a.owners
			a.owners = a.assign(d, before, isNew)
			a.moved += d.moved(before, a.owners)
		}
	}
	return dividers
}

// changeLoads has each partition follow its day, by half of its load, and wander.
func (d *day) changeLoads(of float64) {
	for i := range d.partitions {
		p := &d.partitions[i]
		p.wander = 0.98*p.wander + 0.02*d.random.NormFloat64()
		p.load = max(1, p.base*(1+0.5*math.Sin(2*math.Pi*(of+p.phase)))*math.Exp(p.wander))
	}
}

// heaviest returns the load of the heaviest member over the ideal: the mean of all members, or the heaviest
// partition.
func (d *day) heaviest(owners map[string]string) float64 {
	loads, sum, largest := make(map[string]float64), 0.0, 0.0
	for _, p := range d.partitions {
		loads[owners[p.name]] += p.load
		sum += p.load
		largest = max(largest, p.load)
	}
	return slices.Max(slices.Collect(maps.Values(loads))) / max(largest, sum/float64(len(d.members)))
}

// moved returns the part of the load that has another member, though the one before has stayed.
func (d *day) moved(before, after map[string]string) float64 {
	sum, moved := 0.0, 0.0
	for _, p := range d.partitions {
		sum += p.load
		if was := before[p.name]; was != after[p.name] && slices.Contains(d.members, was) {
			moved += p.load
		}
	}
	return moved / sum
}

// held returns what each member has.
func (d *day) held(owners map[string]string) map[string][]string {
	held := make(map[string][]string)
	for _, p := range d.partitions { // in the order of the names
		held[owners[p.name]] = append(held[owners[p.name]], p.name)
	}
	return held
}

// byLoad is what package partition does: what has no member is placed, and then the group is balanced.
func byLoad(d *day, owners map[string]string, _ bool) map[string]string {
	held := d.held(owners)
	var set []Part
	for _, p := range d.partitions {
		set = append(set, Part{Name: p.name, Weight: int64(p.load * Unit)})
	}
	next := make(map[string]string)
	var members []Candidate
	for _, id := range d.members {
		members = append(members, Candidate{ID: id, Capacity: 1, Held: held[id]})
	}
	for id, names := range Assign(set, members, AtWill(true)).Shares {
		for _, name := range names {
			next[name] = id
		}
	}
	return next
}

// cooperativeSticky follows the algorithm of Kafka's cooperative-sticky assignor for consumers with one subscription: each
// keeps what it has up to its quota, and those that lack most get the rest. It knows no loads, and acts on
// joins and leaves only.
func cooperativeSticky(d *day, owners map[string]string, hasChanged bool) map[string]string {
	if !hasChanged {
		return owners
	}
	held, next := d.held(owners), make(map[string]string)
	least, more := len(d.partitions)/len(d.members), len(d.partitions)%len(d.members)
	counts := make(map[string]int)
	ids := slices.SortedFunc(slices.Values(d.members), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(held[b]), len(held[a])), cmp.Compare(a, b))
	})
	for i, id := range ids {
		counts[id] = least
		if i < more {
			counts[id]++
		}
		for _, name := range held[id][:min(len(held[id]), counts[id])] {
			next[name] = id
			counts[id]--
		}
	}
	for _, p := range d.partitions {
		if _, has := next[p.name]; has {
			continue
		}
		for len(ids) > 0 && counts[ids[0]] == 0 {
			ids = ids[1:]
		}
		next[p.name] = ids[0]
		counts[ids[0]]--
	}
	return next
}
