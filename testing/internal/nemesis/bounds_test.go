// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// slow is a plan whose round lasts for a minute.
func slow(faults []faultRecord, histories ...[]event) *plan {
	p := only(mutexSpec, faults, histories...)
	p.record.End, p.round().End = at(60_000), at(60_000)
	return p
}

// boundsOf measures a plan: margin, signal, recovery, take-over, hand-over, cleanups, memory, goroutines, files.
func boundsOf(t *testing.T, p *plan) []bound {
	t.Helper()
	m := newMeasurements(&p.record)
	m.add(p.load(t))
	return m.bounds()
}

// figure requires a bound to have been measured once.
func figure(t *testing.T, b bound, want float64, met bool) {
	t.Helper()
	require.Equal(t, 1, b.Cases, b.Name)
	require.InDelta(t, want, b.Actual, 1e-9, b.Name)
	require.Equal(t, met, b.met(), b.Name)
}

func TestBoundsMargin(t *testing.T) {
	t.Parallel()
	lostIt := take("a", "mutex-s", 1, 5, 400)[:3]
	lostIt[2].Kind, lostIt[2].LastValid = lost, at(300)
	all := boundsOf(t, slow(nil, lostIt, take("b", "mutex-s", 2, 750, 800)))
	figure(t, all[0], 450, true)
	all = boundsOf(t, slow(nil, lostIt, take("b", "mutex-s", 2, 390, 800)))
	figure(t, all[0], 90, true)
	figure(t, boundsOf(t, slow(nil, lostIt, take("b", "mutex-s", 2, 290, 800)))[0], -10, false)
	byHand := faultRecord{Fault: "N14", Nodes: []string{lostIt[1].Node}, Start: at(300), End: at(310)}
	require.Zero(t, boundsOf(t, slow([]faultRecord{byHand}, lostIt, take("b", "mutex-s", 2, 390, 800)))[0].Cases)
}

func TestBoundsRecovery(t *testing.T) {
	t.Parallel()
	fault, undone := faultRecord{Fault: "N1", Start: at(100), End: at(2000)}, faultRecord{Fault: "N3", Start: at(90), End: at(1900), Error: "cannot"}
	figure(t, boundsOf(t, slow([]faultRecord{fault, undone}, take("a", "mutex-s", 1, 5000, 5010)))[1], 3, true)
	undone.End = at(3000) // a part of it may have been done, and lasts
	require.Zero(t, boundsOf(t, slow([]faultRecord{fault, undone}, take("a", "mutex-s", 1, 5000, 5010)))[1].Cases)
	figure(t, boundsOf(t, slow([]faultRecord{fault}, take("a", "mutex-s", 1, 13_000, 13_010)))[1], 11, false)
	figure(t, boundsOf(t, slow([]faultRecord{fault}, take("a", "mutex-s", 1, 50, 60)))[1], 58, false) // never
	shared := slow([]faultRecord{fault}, take("a", "mutex-s", 1, 13_000, 13_010))
	shared.record.Shared = true
	for _, b := range boundsOf(t, shared)[1:3] {
		require.True(t, b.None && b.met(), b.Name)
	}
	other := faultRecord{Fault: "N2", Start: at(4000), End: at(20_000)}
	figure(t, boundsOf(t, slow([]faultRecord{fault, other}, take("a", "mutex-s", 1, 21_000, 21_010)))[1], 1, true)
}

func TestBoundsTakeover(t *testing.T) {
	t.Parallel()
	killed := take("a", "mutex-s", 1, 5, 10)[:2]
	fault := faultRecord{Fault: "N9", Clients: []string{"client0"}, Killed: true, Start: at(3000), End: at(3001)}
	next := func(acquired int64) []event {
		return change(take("b", "mutex-s", 2, acquired, acquired+10), func(e *event) { e.Called = at(1000) })
	}
	for acquired, met := range map[int64]bool{5500: true, 6400: true, 6600: false} {
		p := slow([]faultRecord{fault}, killed, next(acquired))
		delete(p.events, "client0")
		p.add("client0", killed...) // nothing that was closed
		for _, name := range []string{"client0", "client1"} {
			for i := range p.events[name] {
				p.events[name][i].Client = name
			}
		}
		figure(t, boundsOf(t, p)[2], float64(acquired-3000)/1000, met)
	}
	stopped := fault
	stopped.Killed = false
	lostIt := []event{killed[0], killed[1], {At: at(3000), Kind: lost, Hold: killed[1].Hold, LastValid: at(2999)}}
	require.Zero(t, boundsOf(t, slow([]faultRecord{stopped}, lostIt, next(6000)))[2].Cases, "it was stopped for a moment only")
}

// The cleanups of one process count, not those of all together.
func TestBoundsCleanupsAreBounded(t *testing.T) {
	t.Parallel()
	p := slow(nil, take("a", "mutex-s", 1, 5, 10))
	most := int(p.load(t).mostCleanups())
	require.Equal(t, cleanupsOfFolder, most, "of one lock with one folder")
	for _, n := range []int{3, most, 5} {
		p.add("client1", event{At: at(50), Kind: measured, Figures: figures{Cleanups: n}})
	}
	figure(t, boundsOf(t, p)[3], float64(most), true)
	total := newTotals()
	total.add(p.load(t))
	require.Equal(t, most, total.cleanups)
	p.add("client1", event{At: at(60), Kind: measured, Figures: figures{Cleanups: most + 1}})
	figure(t, boundsOf(t, p)[3], float64(most+1), false)
}

func TestBoundsGrowth(t *testing.T) {
	t.Parallel()
	p := slow(nil, take("a", "mutex-s", 1, 5, 10))
	p.record.Soak = true
	grow := func(perMinute int64) *plan {
		p.events["client1"] = nil
		for n := range int64(40) {
			settled := max(n, 10) // what is needed at the beginning is no growth
			p.add("client1", event{At: at(n * 60_000), Kind: measured, Figures: figures{
				Resident: (64 << 20) + settled*perMinute, Goroutines: 30,
			}})
		}
		return p
	}
	memory := boundsOf(t, grow(1<<20))[4]
	figure(t, memory, 60, false)
	require.Contains(t, memory.String(), "growth of resident memory: 60 MiB/h in 1 cases (at most 1 MiB/h)")
	all := boundsOf(t, grow(1<<10))
	figure(t, all[4], 60.0/1024, true)
	figure(t, all[5], 0, true)
	figure(t, all[6], 0, true)
	all[6].Actual = 1.36e-27
	require.Contains(t, all[6].String(), "open files: 0 1/h in 1 cases")
	for i := range p.events["client1"] {
		p.events["client1"][i].Figures.Files = 10 + i
	}
	figure(t, boundsOf(t, p)[6], 60, false)
	p.record.Soak = false
	require.Len(t, boundsOf(t, p), 4)
}
