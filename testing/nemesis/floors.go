package main

import (
	"fmt"
	"strings"
	"time"
)

// floor is how much must have happened at least, so that it means something that nothing
// went wrong.
type floor struct {
	Name   string `json:"name"`
	Want   int    `json:"want"`
	Actual int    `json:"actual"`
}

func (f floor) met() bool { return f.Actual >= f.Want }

// totals are what has happened in a campaign.
type totals struct {
	acquisitions, faults, expirations, lostWhileHeld, staleRefused, lostCreateReplies int

	// byKind is how many faults there were, by their ids. Two that came together count
	// as what they are, and as one combination.
	byKind map[string]int
}

// add counts what has happened in a round.
func (t *totals) add(r *roundReport) {
	calls := make(map[string]bool)
	for _, h := range r.holds {
		calls[acquisition(h.id)] = true
		if h.lost != 0 {
			t.lostWhileHeld++
		}
	}
	t.acquisitions += len(calls)
	parts := 0 // of combinations, which have two: "N15 N4" and "N15 N7"
	for _, f := range r.record.Faults {
		if f.Error != "" {
			continue
		}
		t.faults++
		id, isPart := strings.CutPrefix(f.Fault, combined+" ")
		t.byKind[id]++
		if isPart {
			parts++
		}
	}
	if parts > 0 {
		t.byKind[combined] += parts / 2
	}
	for _, events := range r.events {
		for _, e := range events {
			switch {
			case e.Kind == expired:
				t.expirations++
			case e.Outcome == stale, e.Outcome == usurped:
				t.staleRefused++
			case e.Kind == intercepted && e.Value == "create" && (e.Error == string(replyCut) || e.Error == string(replyDropped)):
				t.lostCreateReplies++
			}
		}
	}
}

// kinds is how many kinds of faults there were.
func (t *totals) kinds() (n int) {
	for _, times := range t.byKind {
		if times > 0 {
			n++
		}
	}
	return n
}

// Durations for which there are floors. Those for others are in proportion.
const (
	shortCampaign = 90 * time.Second
	longCampaign  = 30 * time.Minute
	nightCampaign = 8 * time.Hour
)

// floors are those of a campaign in which there were faults for so long, beside what has happened.
//
// They are about half of what two cores do, so that a slow machine passes, and a
// campaign does not in which the clients were idle, or the faults without effect.
func (t *totals) floors(duration time.Duration, kinds []kindRecord) []floor {
	possible := 0
	for _, kind := range kinds {
		if kind.Cannot == "" {
			possible++
		}
	}
	if duration < longCampaign {
		share := inProportion(duration, shortCampaign)
		return []floor{
			{"acquisitions", share(3000), t.acquisitions},
			{"faults", share(15), t.faults},
			{"kinds", min(share(5), 5, possible), t.kinds()},
			{"expirations", share(5), t.expirations},
			{"lost_while_held", share(3), t.lostWhileHeld},
		}
	}
	share := inProportion(duration, longCampaign)
	all := []floor{
		{"acquisitions", share(100_000), t.acquisitions},
		{"faults", share(250), t.faults},
		{"kinds", possible, t.kinds()},
		{"expirations", share(80), t.expirations},
		{"lost_while_held", share(40), t.lostWhileHeld},
		{"lost create replies", share(20), t.lostCreateReplies},
		{"stale_refused", 1, t.staleRefused},
	}
	if duration >= nightCampaign {
		share := inProportion(duration, nightCampaign)
		all[0].Want, all[1].Want = share(1_500_000), share(4000)
	}
	for _, kind := range kinds {
		if kind.Cannot == "" {
			all = append(all, floor{fmt.Sprintf("%s %s", kind.Fault, kind.Name), share(10), t.byKind[kind.Fault]})
		}
	}
	return all
}

// inProportion scales what is asked of a campaign of one length to that of another.
func inProportion(duration, to time.Duration) func(n int) int {
	return func(n int) int { return int(float64(n) * float64(duration) / float64(to)) }
}
