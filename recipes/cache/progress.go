// SPDX-License-Identifier: Apache-2.0

package cache

import "time"

// progress counts the tasks that are left: by era, for the callers of Fresh, and of the newest
// sweep. A call of Fresh ends the era: after a sync and a flush of the watch it waits for the work
// that began before, and for no later work.
type progress struct {
	era     uint64
	tasks   map[uint64]int // by era; a sweep counts as one of its era
	asking  []barrier      // their era lasts until the batches before them are applied
	waiting []barrier      // their era is over

	sweep    uint32 // number of the newest
	sweeping bool
	left     int    // tasks of the newest sweep
	sweepEra uint64 // that the sweep holds
	began    time.Time
}

// barrier is a caller of Fresh.
type barrier struct {
	sent    int    // batches at the time of the call
	era     uint64 // valid in progress.waiting
	reached chan struct{}
}

func newProgress() progress { return progress{tasks: make(map[uint64]int)} }

// block keeps the present era open until a sweep is done.
func (p *progress) block() {
	if p.sweeping {
		return
	}
	p.sweeping, p.began = true, time.Now()
	p.sweepEra = p.era
	p.tasks[p.era]++
	p.left = 1 // the sweep counts as this until it begins
}

// beginSweep numbers a new sweep and returns its first task. A sweep that is under way ends
// without a word: the tasks it has left count no longer.
func (p *progress) beginSweep() task {
	p.block()
	p.sweep++
	p.left = 0
	return task{era: p.era, sweep: p.sweep}
}

func (p *progress) endSweep() {
	p.sweeping = false
	p.releaseEra(p.sweepEra)
}

func (p *progress) count(t task) {
	p.tasks[t.era]++
	if p.isOfSweep(t) {
		p.left++
	}
}

func (p *progress) uncount(t task) {
	p.releaseEra(t.era)
	if p.isOfSweep(t) {
		p.left--
	}
}

// isOfSweep reports whether a task belongs to the newest sweep.
func (p *progress) isOfSweep(t task) bool { return t.sweep != 0 && t.sweep == p.sweep }

func (p *progress) releaseEra(era uint64) {
	if p.tasks[era]--; p.tasks[era] == 0 {
		delete(p.tasks, era)
	}
}

// ask adds a caller of Fresh, when so many batches have been sent.
func (p *progress) ask(reached chan struct{}, sent int) {
	p.asking = append(p.asking, barrier{sent: sent, reached: reached})
}

// endEras begins a new era for each caller of Fresh, so that the caller does not wait for later
// events. A one-shot watch may end before its own batch is applied, and shows it only then. So
// the era lasts until all batches that were sent before the call are applied.
func (p *progress) endEras(applied int) {
	for len(p.asking) > 0 && p.asking[0].sent <= applied {
		b := p.asking[0]
		b.era = p.era
		p.era++
		p.asking, p.waiting = p.asking[1:], append(p.waiting, b)
	}
}

// wakeCallers ends the wait of callers of Fresh whose era has no task left.
func (p *progress) wakeCallers() {
	if len(p.waiting) == 0 {
		return
	}
	oldest := p.era
	for era := range p.tasks {
		oldest = min(oldest, era)
	}
	for len(p.waiting) > 0 && p.waiting[0].era < oldest {
		close(p.waiting[0].reached)
		p.waiting = p.waiting[1:]
	}
}
