package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someKinds = []kindRecord{{Fault: "N1", Name: "kill"}, {Fault: "N12", Name: "disk full", Cannot: "no disk"}, {Fault: "N15", Name: "two"}}

// missed are the floors of a campaign of this length in which everything has happened so often.
func missed(length time.Duration, often int) (names []string) {
	t := totals{often, often, often, often, often, often, map[string]int{"N1": often, "N15": often}}
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
	require.Equal(t, []string{"acquisitions", "faults", "expirations", "lost_while_held"}, missed(90*time.Second, 2))
	require.Equal(t, []string{"acquisitions", "faults", "kinds", "expirations", "lost_while_held"}, missed(90*time.Second, 0))
	require.Empty(t, missed(9*time.Second, 300))
	require.Empty(t, missed(0, 0))

	require.Empty(t, missed(30*time.Minute, 100_000))
	require.Equal(t, []string{"acquisitions", "faults", "expirations", "lost_while_held", "lost create replies", "N1 kill", "N15 two"},
		missed(30*time.Minute, 9))
	require.Contains(t, missed(30*time.Minute, 0), "stale_refused")
}

func TestFloorsOfANight(t *testing.T) {
	t.Parallel()
	all := new(totals).floors(8*time.Hour, someKinds)
	require.Equal(t, floor{"acquisitions", 1_500_000, 0}, all[0])
	require.Equal(t, floor{"faults", 4000, 0}, all[1])
	require.Equal(t, floor{"expirations", 1280, 0}, all[3])
}

func TestTotals(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.round().Faults = []faultRecord{{Fault: "N15 N1"}, {Fault: "N15 N7"}, {Fault: "N2", Error: "could not be done"}}
	two := change(take("a", "semaphore-s", 4, 40, 45), func(e *event) { e.Hold = "a/semaphore-s/4#1" }) // of the same call
	p.add("a", append(take("a", "semaphore-s", 4, 40, 45), two[1], event{At: at(44), Kind: lost, Hold: two[1].Hold})...)
	p.add("b",
		event{Kind: expired}, event{Kind: written, Outcome: stale}, event{Kind: appended, Outcome: refused},
		event{Kind: intercepted, Value: "create", Error: string(replyCut)},
		event{Kind: intercepted, Value: "create", Error: string(replyDropped)},
		event{Kind: intercepted, Value: "create", Error: string(requestDropped)},
		event{Kind: intercepted, Value: "delete", Error: string(replyCut)})
	total := totals{byKind: map[string]int{"N12": 0}}
	total.add(p.load(t))
	require.Equal(t, totals{
		acquisitions: 4, faults: 2, expirations: 1, lostWhileHeld: 1, staleRefused: 1, lostCreateReplies: 2,
		byKind: map[string]int{"N1": 1, "N7": 1, "N12": 0, "N15": 1},
	}, total)
	require.Equal(t, 3, total.kinds())
}
