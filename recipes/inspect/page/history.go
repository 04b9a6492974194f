// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"github.com/gocurator/curator/recipes/inspect"
)

const (
	maxHistories = 20_000 // locks whose holds are remembered
	maxHolds     = 20     // that are remembered of each
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
	of     map[string][]pastHold
	at     map[string]time.Time // when each lock was observed last
}

// observe compares a survey with what is remembered. A complete one shows that other locks have no holder.
func (h *history) observe(recipes []inspect.Recipe, begun time.Time, complete bool) {
	if h.of == nil {
		h.of, h.at = make(map[string][]pastHold), make(map[string]time.Time)
	}
	if complete {
		if begun.Before(h.newest) {
			return
		}
		h.newest = begun
	}
	shown := make(map[string]bool, len(recipes))
	for _, r := range recipes {
		if !r.Kind.IsLock() || shown[r.Path] {
			continue
		}
		shown[r.Path] = true
		h.observeLock(r, begun)
	}
	if !complete {
		return
	}
	for path, holds := range h.of {
		if !shown[path] {
			end(holds, nil, begun)
			h.at[path] = begun
		}
	}
}

func (h *history) observeLock(r inspect.Recipe, begun time.Time) {
	before, known := h.at[r.Path]
	if !known && len(h.of) >= maxHistories && !h.forgetOne() || begun.Before(before) {
		return
	}
	holders := make(map[int64]pastHold)
	for _, p := range r.Participants {
		if p.Holds && p.Token != 0 {
			from := p.Since // when it joined the queue
			if known && before.After(from) {
				from = before
			}
			holders[p.Token] = pastHold{Name: name(p), Token: p.Token, From: from}
		}
	}
	if len(holders) < r.Holders {
		return // a semaphore, of which the list reads only the ends
	}
	holds := h.of[r.Path]
	end(holds, holders, begun)
	for _, hold := range holders {
		holds = append(holds, hold)
	}
	h.of[r.Path] = append([]pastHold(nil), holds[max(0, len(holds)-maxHolds):]...)
	h.at[r.Path] = begun
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

// forgetOne makes room by forgetting a lock that has no holder. It reports whether there was one.
func (h *history) forgetOne() bool {
	tries := 0
	for path, holds := range h.of {
		if len(holds) == 0 || !holds[len(holds)-1].To.IsZero() {
			delete(h.of, path)
			delete(h.at, path)
			return true
		}
		if tries++; tries == 16 {
			break
		}
	}
	return false
}

// timeline is holds as they are drawn, on a line of 1000 units.
type timeline struct {
	From, To time.Time
	Bars     []bar
}

type bar struct {
	pastHold
	X, Width, Y int
	Took        time.Duration
}

// Height is that of the picture.
func (t timeline) Height() int { return 24 * len(t.Bars) }

func timelineOf(holds []pastHold, now time.Time) timeline {
	t := timeline{From: now, To: now}
	for _, hold := range holds {
		if hold.From.Before(t.From) {
			t.From = hold.From
		}
	}
	span := max(t.To.Sub(t.From), time.Second)
	at := func(when time.Time) int {
		return int(1000 * float64(max(when.Sub(t.From), 0)) / float64(span))
	}
	for i := range holds {
		hold := holds[len(holds)-1-i] // the newest first
		to := hold.To
		if to.IsZero() {
			to = now
		}
		b := bar{pastHold: hold, X: min(at(hold.From), 996), Y: 24 * i, Took: max(to.Sub(hold.From), 0).Round(time.Second)}
		b.Width = max(4, min(at(to), 1000)-b.X)
		t.Bars = append(t.Bars, b)
	}
	return t
}
