// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"

	"github.com/gocurator/curator/internal/shares"
)

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

// simulatePartitions simulates a day and draws the heaviest members.
func simulatePartitions(folder string, out io.Writer) error {
	d := newDay(10_000, 200, stepsOfADay)
	dividers := d.run()
	if _, err := fmt.Fprintf(out, "%d joins and leaves\n", d.changes); err != nil {
		return err
	}
	for _, a := range dividers {
		sorted := slices.Sorted(slices.Values(a.heaviest))
		_, err := fmt.Fprintf(out, "%s: heaviest member over the ideal: median %.2f, worst %.2f; load moved between members that stay: %.2f of all\n",
			a.name, sorted[len(sorted)/2], sorted[len(sorted)-1], a.moved)
		if err != nil {
			return err
		}
	}
	p := plot.New()
	p.Title.Text = "10,000 partitions of a Zipf load on 200 members, which come and go"
	p.X.Label.Text, p.Y.Label.Text = "hour of the day", "load of the heaviest member over the ideal"
	p.Y.Min = 1
	var lines []any
	for _, a := range dividers {
		var line plotter.XYs
		for i, y := range a.heaviest {
			line = append(line, plotter.XY{X: 24 * float64(i) / float64(len(a.heaviest)), Y: y})
		}
		lines = append(lines, a.name, line)
	}
	if err := plotutil.AddLines(p, lines...); err != nil {
		return err
	}
	p.Legend.Top = true
	return p.Save(chartWidth, chartHeight, filepath.Join(folder, "partitions.svg"))
}

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
	var set []shares.Part
	for _, p := range d.partitions {
		set = append(set, shares.Part{Name: p.name, Weight: int64(p.load * shares.Unit)})
	}
	next := make(map[string]string)
	var members []shares.Candidate
	for _, id := range d.members {
		members = append(members, shares.Candidate{ID: id, Capacity: 1, Held: held[id]})
	}
	for id, names := range shares.Assign(set, members, shares.AtWill(true)).Shares {
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
