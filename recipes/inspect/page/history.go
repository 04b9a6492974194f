// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
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
	of    map[string]*past
	holds int // in all
}

// past is what is remembered of one lock.
type past struct {
	holds    []pastHold
	observed time.Time // when the survey began that showed its holders last
	listed   time.Time // when the survey began that showed it last
}

func (p *past) isHeld() bool { return len(p.holds) > 0 && p.holds[len(p.holds)-1].To.IsZero() }

// observeRest ends the holds of the locks that a survey has not shown. It says nothing of those that it could not read.
func (h *history) observeRest(begun time.Time, unreadable []string) {
	isFull := len(h.of) >= maxHistories
	for path, p := range h.of {
		switch {
		case !p.listed.Before(begun) || isAtOrBelow(path, unreadable):
		case isFull: // a lock without a contender makes room
			h.drop(path)
		default:
			p.end(nil, begun)
			p.observed, p.listed = begun, begun
		}
	}
}

// isAtOrBelow reports whether a path is one of some or below it. They are sorted.
func isAtOrBelow(path string, some []string) bool {
	for len(some) > 0 {
		if _, found := slices.BinarySearch(some, path); found {
			return true
		}
		parent, _ := framework.SplitPath(path)
		if parent == path || path == "/" {
			return false
		}
		path = parent
	}
	return false
}

// observe compares a recipe with what is remembered. A list does not read all holders of it.
func (h *history) observe(r *inspect.Recipe, begun time.Time, isList bool) {
	if !r.Kind.IsLock() || len(r.Path) > maxLink { // a longer path has no page
		return
	}
	if h.of == nil {
		h.of = make(map[string]*past)
	}
	p := h.of[r.Path]
	isNew := p == nil
	if isNew {
		if len(h.of) >= maxHistories {
			if isList {
				return
			}
			h.forget(r.Path) // a lock that is looked at comes before locks that are only listed
		}
		p = new(past)
		h.of[strings.Clone(r.Path)] = p
	} else if !begun.After(p.listed) { // by a newer survey, or by another recipe at the path
		return
	}
	p.listed = begun
	var holders []*locks.Participant
	for i := range r.Participants {
		if q := &r.Participants[i]; q.Holds && q.Token != 0 {
			holders = append(holders, q)
		}
	}
	if len(holders) < r.Holders {
		return // a semaphore, of which the list reads only the ends
	}
	p.end(holders, begun)
	h.holds -= len(p.holds)
	for _, q := range holders {
		if slices.ContainsFunc(p.holds, func(hold pastHold) bool { return hold.Token == q.Token && hold.To.IsZero() }) {
			continue // it lasts
		}
		from := q.Since // when it joined the queue
		if !isNew && p.observed.After(from) {
			from = p.observed
		}
		p.holds = append(p.holds, pastHold{Name: strings.Clone(name(*q)), Token: q.Token, From: from})
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

// end ends the holds that are not of the holders.
func (p *past) end(holders []*locks.Participant, at time.Time) {
	for i := range p.holds {
		hold := &p.holds[i]
		if hold.To.IsZero() && !slices.ContainsFunc(holders, func(q *locks.Participant) bool { return q.Token == hold.Token }) {
			hold.To = at
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
