// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"time"

	"github.com/gocurator/curator/recipes/inspect"
)

const (
	maxHistories = 20_000 // locks whose holds are remembered
	maxHolds     = 20     // that are remembered of each
	maxAllHolds  = 60_000 // that are remembered in all
)

// pastHold is one hold, as far as surveys have shown it.
type pastHold struct {
	Name  string
	Token int64
	From  time.Time // not before this
	To    time.Time // not after this; zero while it lasts
}

// history remembers who held which lock. The handler's mutex guards it.
type history struct {
	newest time.Time // when the newest survey began that was observed
	of     map[string]*past
	holds  int // in all
}

// past is what is remembered of one lock.
type past struct {
	holds    []pastHold
	observed time.Time // when the survey began that showed its holders last
	listed   time.Time // when the survey began that showed it last
}

func (p *past) isHeld() bool { return len(p.holds) > 0 && p.holds[len(p.holds)-1].To.IsZero() }

// observe compares a survey with what is remembered. A complete one shows that other locks have no holder.
func (h *history) observe(recipes []inspect.Recipe, begun time.Time, complete bool) {
	if h.of == nil {
		h.of = make(map[string]*past)
	}
	if complete {
		if begun.Before(h.newest) {
			return
		}
		h.newest = begun
	}
	for i := range recipes {
		if r := &recipes[i]; r.Kind.IsLock() {
			h.observeLock(r, begun, complete)
		}
	}
	if !complete {
		return
	}
	isFull := len(h.of) >= maxHistories
	for path, p := range h.of {
		switch {
		case !p.listed.Before(begun):
		case isFull: // a lock without a contender makes room
			h.drop(path)
		default:
			end(p.holds, nil, begun)
			p.observed, p.listed = begun, begun
		}
	}
}

func (h *history) observeLock(r *inspect.Recipe, begun time.Time, complete bool) {
	p := h.of[r.Path]
	isNew := p == nil
	if isNew {
		if len(h.of) >= maxHistories {
			if complete {
				return
			}
			h.forget(r.Path) // a lock that is looked at comes before locks that are only listed
		}
		p = new(past)
		h.of[r.Path] = p
	} else if !begun.After(p.listed) { // by a newer survey, or by another recipe at the path
		return
	}
	p.listed = begun
	holders := make(map[int64]pastHold, 1)
	for _, q := range r.Participants {
		if q.Holds && q.Token != 0 {
			from := q.Since // when it joined the queue
			if !isNew && p.observed.After(from) {
				from = p.observed
			}
			holders[q.Token] = pastHold{Name: name(q), Token: q.Token, From: from}
		}
	}
	if len(holders) < r.Holders {
		return // a semaphore, of which the list reads only the ends
	}
	end(p.holds, holders, begun)
	h.holds -= len(p.holds)
	for _, hold := range holders {
		p.holds = append(p.holds, hold)
	}
	if more := len(p.holds) - maxHolds; more > 0 {
		p.holds = slices.Clone(p.holds[more:])
	}
	h.holds += len(p.holds)
	p.observed = begun
	for h.holds > maxAllHolds && len(h.of) > 1 {
		h.forget(r.Path)
	}
}

// end ends the holds that are not among the holders, and takes from the holders those that last.
func end(holds []pastHold, holders map[int64]pastHold, at time.Time) {
	for i := range holds {
		if !holds[i].To.IsZero() {
			continue
		}
		if _, lasts := holders[holds[i].Token]; lasts {
			delete(holders, holds[i].Token)
		} else {
			holds[i].To = at
		}
	}
}

// forget makes room by forgetting a lock, but not the lock at a path. If it finds a lock without a holder
// soon, it forgets that one.
func (h *history) forget(but string) {
	const tries = 16
	looked := 0
	for path, p := range h.of {
		if looked++; path != but && (!p.isHeld() || looked > tries) {
			h.drop(path)
			return
		}
	}
}

func (h *history) drop(path string) {
	h.holds -= len(h.of[path].holds)
	delete(h.of, path)
}

// timeline is holds as they are drawn, the newest first.
type timeline struct {
	From, To time.Time
	Bars     []bar
}

// bar is a hold with its place in the picture: percents of the width, and the y of its row.
type bar struct {
	pastHold
	X, Width float64
	Y        int
	Took     time.Duration
}

const (
	barsDrawn = 10 // the table has all
	barHeight = 36
)

// Drawn are the bars in the picture.
func (t timeline) Drawn() []bar { return t.Bars[:min(len(t.Bars), barsDrawn)] }

// Height is the height of the picture.
func (t timeline) Height() int { return barHeight * len(t.Drawn()) }

func timelineOf(holds []pastHold, now time.Time) timeline {
	t := timeline{From: now, To: now}
	newest := slices.Clone(holds)
	slices.Reverse(newest)
	for _, hold := range newest[:min(len(newest), barsDrawn)] {
		if hold.From.Before(t.From) {
			t.From = hold.From
		}
	}
	span := max(t.To.Sub(t.From), time.Second)
	at := func(when time.Time) float64 {
		return min(100, 100*float64(max(when.Sub(t.From), 0))/float64(span))
	}
	for i, hold := range newest {
		to := hold.To
		if to.IsZero() {
			to = now
		}
		const narrowest = 0.5 // that is seen
		b := bar{pastHold: hold, X: min(at(hold.From), 100-narrowest), Y: barHeight * i, Took: max(to.Sub(hold.From), 0).Round(time.Second)}
		b.Width = max(narrowest, at(to)-b.X)
		t.Bars = append(t.Bars, b)
	}
	return t
}
