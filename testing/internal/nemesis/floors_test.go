// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someKinds = []kindRecord{{Fault: "N1", Name: "kill"}, {Fault: "N12", Name: "disk full", Cannot: "no disk"}, {Fault: "N15", Name: "two"}}

// missed are the floors of a campaign of this length in which everything has happened so often.
func missed(length time.Duration, often int) (names []string) {
	t := totals{
		acquisitions: often, faults: often, expirations: often, lostWhileHeld: often, lostCreateReplies: often,
		setUpdates: often, perLock: map[string]int{"a": 100_000, "b": often}, exclusive: true,
		byKind: map[string]int{"N1": often, "N15": often},
	}
	for _, f := range t.floors(length, someKinds) {
		if !f.met() {
			names = append(names, f.Name)
		}
	}
	return names
}

func TestFloors(t *testing.T) {
	t.Parallel()
	require.Empty(t, missed(90*time.Second, 3000))
	require.Equal(t, []string{"acquisitions"}, missed(90*time.Second, 2999))
	require.Equal(t, []string{
		"acquisitions", "faults", "expirations", "lost_while_held",
		"acquisitions of the lock that had fewest", "accepted set updates",
	}, missed(90*time.Second, 2))
	require.Equal(t, []string{
		"acquisitions", "faults", "kinds", "expirations", "lost_while_held",
		"acquisitions of the lock that had fewest", "accepted set updates",
	}, missed(90*time.Second, 0))
	require.Empty(t, missed(9*time.Second, 300))
	require.Empty(t, missed(0, 0))

	require.Empty(t, missed(30*time.Minute, 100_000))
	require.Equal(t, []string{
		"acquisitions", "faults", "expirations", "lost_while_held", "lost create replies", "N1 kill", "N15 two",
		"acquisitions of the lock that had fewest", "accepted set updates",
	},
		missed(30*time.Minute, 9))
}

// A soak has to be one of clients that work, and that are looked at.
func TestFloorsOfASoak(t *testing.T) {
	t.Parallel()
	require.Equal(t, []floor{
		{"acquisitions", 600, 0}, {"acquisitions of the lock that had fewest", 20, 0}, {"processes whose growth was measured", 1, 12},
	}, (&totals{perLock: map[string]int{"a": 7, "b": 0}}).soakFloors(3*time.Minute, 12))
}

func TestTotals(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.round().Faults = []faultRecord{{Fault: "N15 N1"}, {Fault: "N15 N7"}, {Fault: "N2", Error: "could not be done"}}
	two := change(take("a", "semaphore-s", 4, 40, 45), func(e *event) { e.Hold = "a/semaphore-s/4#1" }) // of the same call
	p.add("a", append(take("a", "semaphore-s", 4, 40, 45), two[1], event{At: at(44), Kind: lost, Hold: two[1].Hold})...)
	p.add("b",
		event{Kind: expired}, event{Kind: connected, Session: 'c'}, event{Kind: appended, Outcome: refused},
		event{Kind: intercepted, Value: "create", Error: string(replyCut)},
		event{Kind: intercepted, Value: "create", Error: string(replyDropped)},
		event{Kind: intercepted, Value: "create", Error: string(requestDropped)},
		event{Kind: intercepted, Value: "delete", Error: string(replyCut)})
	total := newTotals()
	total.byKind["N12"] = 0
	total.add(p.load(t))
	require.Equal(t, &totals{
		acquisitions: 4, faults: 2, expirations: 1, lostWhileHeld: 1, lostCreateReplies: 2,
		setUpdates: 1, exclusive: true,
		perLock:     map[string]int{"mutex-s": 3, "reentrant-s": 0, "handoff-s": 0, "readwrite-s": 0, "semaphore-s": 1},
		perWorkload: map[string]int{"mutex": 3, "reentrant": 0, "handoff": 0, "readwrite": 0, "semaphore": 1},
		byKind:      map[string]int{"N1": 1, "N7": 1, "N12": 0, "N15": 1},
	}, total)
	require.Equal(t, 3, total.kinds())
	require.Zero(t, total.fewest())
}
