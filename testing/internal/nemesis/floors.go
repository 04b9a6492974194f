// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
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
	acquisitions, faults, expirations, lostWhileHeld, lostCreateReplies int

	setUpdates       int            // that were accepted
	perLock          map[string]int // acquisitions, by the names of all locks
	perWorkload      map[string]int // the same, by the names of workloads
	exclusive        bool           // there are locks whose holders write
	guarded, refused int            // vandals without rights, and how many of them were refused
	cleanups         int            // that one client had pending at one time, at most

	// byKind is how many faults there were, by their ids. Two that came together count
	// as what they are, and as one combination.
	byKind map[string]int
}

func newTotals() *totals {
	return &totals{byKind: make(map[string]int), perLock: make(map[string]int), perWorkload: make(map[string]int)}
}

// add counts what has happened in a round.
func (t *totals) add(r *roundReport) {
	for _, spec := range r.record.Locks {
		t.count(spec, 0)
		t.exclusive = t.exclusive || workloadOf(spec).exclusive
	}
	calls := make(map[string]bool)
	for _, h := range r.holds {
		if id := acquisition(h.id); !calls[id] {
			calls[id] = true
			t.count(h.spec, 1)
		}
		if h.lost != 0 {
			t.lostWhileHeld++
		}
	}
	t.acquisitions += len(calls)
	t.addFaults(r.record.Faults)
	killed := r.killed()
	for client, events := range r.events {
		t.expirations += endedSessions(events, killed[client])
		for _, e := range events {
			t.addEvent(e)
		}
	}
}

// count counts what was done with a lock.
func (t *totals) count(spec lockSpec, n int) {
	t.perLock[spec.Name] += n
	t.perWorkload[spec.Workload] += n
}

// addFaults counts those that could be done.
func (t *totals) addFaults(all []faultRecord) {
	parts := 0 // of combinations, which have two: "N15 N4" and "N15 N7"
	for _, f := range all {
		if f.Error != "" {
			continue
		}
		t.faults++
		if f.Guarded {
			t.guarded++
		}
		if f.Refused {
			t.refused++
		}
		id, isPart := strings.CutPrefix(f.Fault, combined+" ")
		t.byKind[id]++
		if isPart {
			parts++
		}
	}
	if parts > 0 {
		t.byKind[combined] += parts / 2
	}
}

// addEvent counts an event that counts by itself.
func (t *totals) addEvent(e event) {
	switch {
	case e.Kind == measured:
		t.cleanups = max(t.cleanups, e.Figures.Cleanups)
	case e.Kind == appended && e.Outcome == accepted:
		t.setUpdates++
	case e.Kind == intercepted && e.Value == "create" && (e.Error == string(replyCut) || e.Error == string(replyDropped)):
		t.lostCreateReplies++
	}
}

// endedSessions is how many sessions of a client process the servers have ended: all but the last, and
// that too if the process was killed.
func endedSessions(events []event, killed bool) int {
	sessions := make(map[int64]bool)
	for _, e := range events {
		if e.Kind == connected {
			sessions[e.Session] = true
		}
	}
	if len(sessions) > 0 && !killed {
		return len(sessions) - 1
	}
	return len(sessions)
}

// fewest is how often the lock was acquired that was acquired least often.
func (t *totals) fewest() int {
	if len(t.perLock) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(t.perLock)))
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
)

// floors returns the floors for a campaign with faults of the given duration, beside what has happened.
//
// A floor is about half of what two cores do. So a slow machine passes, and a campaign fails if
// its clients were idle or its faults had no effect.
func (t *totals) floors(duration time.Duration, kinds []kindRecord) []floor {
	possible := 0
	for _, kind := range kinds {
		if kind.Cannot == "" {
			possible++
		}
	}
	if duration < longCampaign {
		share := inProportion(duration, shortCampaign)
		return append([]floor{
			{"acquisitions", share(3000), t.acquisitions},
			{"faults", share(10), t.faults},
			{"kinds", min(share(5), 5, possible), t.kinds()},
			{"expirations", share(5), t.expirations},
			{"lost_while_held", share(3), t.lostWhileHeld},
		}, t.work(duration)...)
	}
	share := inProportion(duration, longCampaign)
	all := []floor{
		{"acquisitions", share(100_000), t.acquisitions},
		{"faults", share(220), t.faults},
		{"kinds", possible, t.kinds()},
		{"expirations", share(80), t.expirations},
		{"lost_while_held", share(40), t.lostWhileHeld},
		{"lost create replies", share(20), t.lostCreateReplies},
	}
	for _, kind := range kinds {
		if kind.Cannot == "" {
			all = append(all, floor{fmt.Sprintf("%s %s", kind.Fault, kind.Name), share(10), t.byKind[kind.Fault]})
		}
	}
	return append(all, t.work(duration)...)
}

// work are the floors of what clients do with each lock, and with what the locks protect.
func (t *totals) work(duration time.Duration) []floor {
	share := inProportion(duration, shortCampaign)
	all := []floor{{"acquisitions of the lock that had fewest", share(10), t.fewest()}}
	if t.exclusive {
		all = append(all, floor{"accepted set updates", share(20), t.setUpdates})
	}
	for _, w := range workloads {
		if done, played := t.perWorkload[w.name]; played && w.least > 0 {
			all = append(all, floor{"uses of " + w.name, share(w.least), done})
		}
	}
	return all
}

// rights are the floors that another round would not help to reach.
func (t *totals) rights() []floor {
	if t.guarded == 0 {
		return nil
	}
	return []floor{{"vandals without rights that were refused", t.guarded, t.refused}}
}

// missing names the floors of a campaign with faults that are not reached yet, with both figures.
func (t *totals) missing(record campaignRecord) (names []string) {
	if record.Soak {
		return nil
	}
	for _, f := range t.floors(time.Duration(record.Duration), record.Kinds) {
		if !f.met() {
			names = append(names, fmt.Sprintf("%s %d of %d", f.Name, f.Actual, f.Want))
		}
	}
	return names
}

// soakFloors returns the floors for a campaign without faults. In measured processes the growth was measured.
func (t *totals) soakFloors(duration time.Duration, measured int) []floor {
	share := inProportion(duration, shortCampaign)
	all := append([]floor{{"acquisitions", share(300), t.acquisitions}}, t.work(duration)...)
	return append(all, floor{"processes whose growth was measured", min(share(1), 1), measured})
}

// inProportion scales a floor from a campaign of one length to a campaign of another.
func inProportion(duration, to time.Duration) func(n int) int {
	return func(n int) int { return int(float64(n) * float64(duration) / float64(to)) }
}
