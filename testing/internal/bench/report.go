// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// values are what one metric was in each round.
func (m *measured) values(of metric) []float64 {
	var values []float64
	for i := range m.Rounds {
		values = append(values, of.of(&m.Rounds[i]))
	}
	return values
}

// told reports whether a peer measures the metric. Only those in this process know their
// memory.
func (of metric) told(m *measured) bool {
	always := of.name != allocs.name && of.name != heapPerWaiter.name
	return always || median(m.values(of)) > 0
}

// interval returns the 95 % confidence interval of the median, by the sign test, which assumes no
// distribution. It reports false for fewer than six values.
func interval(values []float64) (low, high float64, ok bool) {
	n := len(values)
	sorted := slices.Sorted(slices.Values(values))
	below := math.Pow(0.5, float64(n)) // the probability that at most k of n values are below the median
	k := 0
	for probable := below; below <= 0.025; k++ {
		probable *= float64(n-k) / float64(k+1)
		below += probable
	}
	if k == 0 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
}

// ratios divides our value by theirs in each round.
func ratios(of metric, ours, theirs *measured) []float64 {
	values := ours.values(of)
	for i, v := range theirs.values(of) {
		values[i] /= v
	}
	return values
}

// line formats a metric of a scenario: the median of each peer, and the median of our ratios to
// each other peer, with its interval if there are enough rounds.
func line(of metric, peers []*measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v metric=%s", peers[0].scenario, of.name)
	for _, m := range peers {
		if of.told(m) {
			fmt.Fprintf(&b, " %s=%s", m.Peer, number(median(m.values(of))))
		}
	}
	ours := peers[0]
	for _, m := range peers[1:] {
		if !strings.HasPrefix(ours.Peer, "self") || slices.Min(m.values(of)) <= 0 {
			continue
		}
		each := ratios(of, ours, m)
		fmt.Fprintf(&b, " ratio_to_%s=%.2f", m.Peer, median(each))
		if low, high, ok := interval(each); ok {
			fmt.Fprintf(&b, " (%.2f..%.2f)", low, high)
		}
	}
	return b.String()
}

// number has three digits that count.
func number(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// byScenario calls fn with all that were measured under each scenario.
func byScenario(all []*measured, fn func([]*measured)) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].scenario.String() == all[0].scenario.String() {
			n++
		}
		fn(all[:n])
		all = all[n:]
	}
}

// lines are the line of each metric.
func lines(all []*measured) string {
	var b strings.Builder
	byScenario(all, func(peers []*measured) {
		for _, of := range peers[0].scenario.metrics {
			b.WriteString(line(of, peers) + "\n")
		}
	})
	return b.String()
}

func writeJSON(w io.Writer, all []*measured) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(all)
}
