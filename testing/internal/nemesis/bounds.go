// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// bound is a time or a growth that must not exceed a limit.
type bound struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Actual float64 `json:"actual"`
	Limit  float64 `json:"limit"`
	Least  bool    `json:"least,omitempty"` // Limit is what it must not fall below
	Cases  int     `json:"cases"`           // in which it was measured; with none, nothing is known
	None   bool    `json:"none,omitempty"`  // it is printed only
}

func (b bound) met() bool {
	switch {
	case b.None || b.Cases == 0:
		return true
	case b.Least:
		return b.Actual >= b.Limit
	default:
		return b.Actual <= b.Limit
	}
}

// measurements are all bounds of a campaign, as they are measured round by round.
type measurements struct {
	margin, recovery, takeover, cleanups, memory, goroutines, files bound

	soak bool // there are no faults, so nothing may grow
}

func newMeasurements(record *campaignRecord) *measurements {
	return &measurements{
		soak:       record.Soak,
		margin:     bound{Name: "from the last look at a lost lease that found it valid to the entry of the next, least", Unit: "ms", Least: true},
		recovery:   bound{Name: "from the end of a fault to the next acquisition, most", Unit: "s", Limit: 10, None: record.Shared},
		takeover:   bound{Name: "take-over from a holder that was killed or stopped, most", Unit: "s", None: record.Shared},
		cleanups:   bound{Name: "cleanups that a client had pending at one time, most", Unit: "nodes"},
		memory:     bound{Name: "growth of resident memory", Unit: "MiB/h", Limit: 1},
		goroutines: bound{Name: "growth of goroutines", Unit: "1/h", Limit: 1},
		files:      bound{Name: "growth of open files", Unit: "1/h", Limit: 1},
	}
}

// add measures a round.
func (m *measurements) add(r *roundReport) {
	m.margin = m.margin.with(r.margins(), float64(time.Millisecond))
	m.recovery = m.recovery.with(r.recoveries(), float64(time.Second))
	m.takeover = m.takeover.with(r.takeovers(), float64(time.Second))
	m.takeover.Limit = max(m.takeover.Limit, r.takeoverLimit().Seconds())
	m.cleanups = m.cleanups.with(r.cleanups(), 1)
	m.cleanups.Limit = max(m.cleanups.Limit, r.mostCleanups())
	memory, goroutines, files := r.growth()
	m.memory, m.goroutines, m.files = m.memory.with(memory, 1), m.goroutines.with(goroutines, 1), m.files.with(files, 1)
}

// bounds are the results.
func (m *measurements) bounds() []bound {
	all := []bound{m.margin, m.recovery, m.takeover, m.cleanups}
	if m.soak {
		all = append(all, m.memory, m.goroutines, m.files)
	}
	return all
}

// with counts cases, and keeps the worst.
func (b bound) with(cases []float64, unit float64) bound {
	for _, value := range cases {
		value /= unit
		switch {
		case b.Cases == 0:
			b.Actual = value
		case b.Least:
			b.Actual = min(b.Actual, value)
		default:
			b.Actual = max(b.Actual, value)
		}
		b.Cases++
	}
	return b
}

// successions calls a function for each two holds of a lock that is held by one at a time which
// followed each other, in different processes.
func (r *roundReport) successions(f func(before, next *hold)) {
	for _, all := range r.locks {
		var before *hold
		for _, h := range all {
			if h.spec.Permits > 0 || h.shared || !h.sure() {
				continue
			}
			if before != nil && before.client != h.client {
				f(before, h)
			}
			before = h
		}
	}
}

// margins returns, for each lost hold, how long before the next holder's entry the old holder last
// found the lock held. Losses that no lock can foresee do not count.
func (r *roundReport) margins() (margins []float64) {
	r.successions(func(before, next *hold) {
		if before.lost != 0 && before.outside == 0 {
			margins = append(margins, float64(next.acquired-before.lastValid))
		}
	})
	return margins
}

// recoveries returns the times from the end of a fault to the next acquisition of any lock. Faults
// that another fault follows before then do not count.
func (r *roundReport) recoveries() (all []float64) {
	for _, f := range r.record.Faults {
		if f.Error != "" {
			continue
		}
		i, _ := slices.BinarySearchFunc(r.holds, f.End, func(h *hold, at int64) int { return cmp.Compare(h.acquired, at) })
		next := r.record.End
		if i < len(r.holds) {
			next = r.holds[i].acquired
		}
		if !r.disturbed(f, f.End, next) {
			all = append(all, float64(next-f.End))
		}
	}
	return all
}

// disturbed reports whether there was a fault beside the given one between two moments.
func (r *roundReport) disturbed(by faultRecord, from, to int64) bool {
	for _, f := range r.record.Faults {
		same := f.Fault == by.Fault && f.Start == by.Start && f.Detail == by.Detail
		if !same && f.Start <= to && from <= f.End {
			return true
		}
	}
	return false
}

// takeoverLimit is when a lock must have a new holder after its holder has died: the session
// timeout, which servers count in ticks, and the time to take it.
func (r *roundReport) takeoverLimit() time.Duration {
	return time.Duration(r.record.SessionTimeout+2*r.record.Tick) + 500*time.Millisecond
}

// aftermath is how long servers may be busy with each other after a fault.
const aftermath = time.Second

// takeovers returns the times from the end of a holder, killed or stopped for longer than the limit,
// until the next waiter had the lock.
func (r *roundReport) takeovers() (all []float64) {
	r.successions(func(before, next *hold) {
		for _, f := range r.record.Faults {
			died := f.Killed || time.Duration(f.End-f.Start) > r.takeoverLimit()
			held := before.acquired < f.Start && (before.releasing == 0 || f.Start < before.releasing) && f.Start < before.endedBy()
			waited := next.called < f.Start && f.Start < next.acquired && !slices.Contains(f.Clients, next.client)
			if died && held && waited && f.Error == "" && slices.Contains(f.Clients, before.client) &&
				!r.disturbed(f, f.Start-int64(aftermath), next.acquired) {
				all = append(all, float64(next.acquired-f.Start))
			}
		}
	})
	return all
}

// cleanupsOfFolder is how many deletions a client may have pending in one folder: the 32 at which it lets
// creations wait, and one for each of its workers.
const cleanupsOfFolder = 40

// mostCleanups is how many deletions a client may have pending at one time, which has every other lock. A recipe
// without a folder that must be empty in the end has one for its members or locks.
func (r *roundReport) mostCleanups() float64 {
	folders := 0
	for _, spec := range r.record.Locks {
		folders += max(len(spec.folders()), 1)
	}
	return float64(cleanupsOfFolder * ((folders + 1) / 2))
}

// cleanups are how many deletions each process had pending at one time, at most.
func (r *roundReport) cleanups() (all []float64) {
	for _, events := range r.events {
		most, known := 0, false
		for _, e := range events {
			if e.Kind == measured {
				most, known = max(most, e.Figures.Cleanups), true
			}
		}
		if known {
			all = append(all, float64(most))
		}
	}
	return all
}

// growth is by how much the memory, in MiB, and the numbers of goroutines and open files of each
// process have grown, in an hour. They are bounds of a soak, where they must be flat; a campaign
// of faults is too short.
func (r *roundReport) growth() (memory, goroutines, files []float64) {
	const least = 10 // measurements
	for _, events := range r.events {
		var times, resident, running, open []float64
		for _, e := range events {
			if e.Kind == measured && e.Error == "" {
				times = append(times, time.Duration(e.At-r.record.Start).Hours())
				resident = append(resident, float64(e.Figures.Resident)/(1<<20))
				running = append(running, float64(e.Figures.Goroutines))
				open = append(open, float64(e.Figures.Files))
			}
		}
		if warm := len(times) / 4; len(times)-warm >= least { // a process has what it needs after a while
			memory = append(memory, slope(times[warm:], resident[warm:]))
			goroutines = append(goroutines, slope(times[warm:], running[warm:]))
			files = append(files, slope(times[warm:], open[warm:]))
		}
	}
	return memory, goroutines, files
}

// slope returns the slope of the line that fits best: linear regression by least squares.
func slope(x, y []float64) float64 {
	var meanX, meanY float64
	for i := range x {
		meanX += x[i] / float64(len(x))
		meanY += y[i] / float64(len(y))
	}
	var above, below float64
	for i := range x {
		above += (x[i] - meanX) * (y[i] - meanY)
		below += (x[i] - meanX) * (x[i] - meanX)
	}
	if below == 0 {
		return 0
	}
	return above / below
}

// String is the line of a report.
func (b bound) String() string {
	if b.Cases == 0 {
		return b.Name + ": no case"
	}
	limit := fmt.Sprintf("at most %g %s", b.Limit, b.Unit)
	switch {
	case b.None:
		limit = "no limit"
	case b.Least:
		limit = fmt.Sprintf("at least %g %s", b.Limit, b.Unit)
	}
	actual := math.Round(1000*b.Actual) / 1000 // a slope of nothing is never quite nothing
	return fmt.Sprintf("%s: %.3g %s in %d cases (%s)", b.Name, actual, b.Unit, b.Cases, limit)
}
