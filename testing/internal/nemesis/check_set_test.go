package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSets(t *testing.T) {
	t.Parallel()
	kept(t, sets, goodPlan())
	for what, test := range map[string]struct {
		outcome outcome
		there   []string
		ok      bool
	}{
		"":                              {accepted, []string{"x", "y"}, true},
		"was accepted and is not there": {accepted, []string{"x"}, false},
		"is there more than once":       {accepted, []string{"x", "y", "y"}, false},
		"was refused and is there":      {refused, []string{"x", "y"}, false},
		"refused":                       {refused, []string{"x"}, true},
		"stale":                         {stale, []string{"x"}, true},
		"unknown, and there":            {unknown, []string{"x", "y"}, true},
		"unknown, and not there":        {unknown, []string{"x"}, true},
	} {
		p := goodPlan()
		p.add("a", event{At: at(50), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: test.outcome})
		p.round().Sets["mutex-s"] = test.there
		if test.ok {
			kept(t, sets, p)
			continue
		}
		require.Contains(t, broken(t, sets, noLostUpdate, p), `set of mutex-s: value "y" `+what)
	}
	p := goodPlan()
	p.round().Sets = nil
	require.Contains(t, broken(t, sets, noLostUpdate, p), `value "x" was accepted and is not there`)
}

// A restore may undo what was acknowledged since the backup, and nothing else.
func TestSetsAfterARestore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at      int64
		outcome outcome
		there   []string
		broken  string
	}{
		"acknowledged since the backup, and gone":   {at(55), accepted, []string{"x"}, ""},
		"acknowledged since the backup, and there":  {at(55), accepted, []string{"x", "y"}, ""},
		"acknowledged since the backup, and twice":  {at(55), accepted, []string{"x", "y", "y"}, "is there more than once"},
		"refused since the backup, and there":       {at(55), refused, []string{"x", "y"}, "was refused and is there"},
		"acknowledged before the backup, and gone":  {at(45), accepted, []string{"x"}, "was accepted and is not there"},
		"acknowledged after the restore, and gone":  {at(65), accepted, []string{"x"}, "was accepted and is not there"},
		"one of before the backup is gone, besides": {at(55), accepted, []string{"y"}, `"x" was accepted and is not there`},
	} {
		p := goodPlan()
		p.add("a", event{At: test.at, Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: test.outcome})
		p.round().Sets["mutex-s"] = test.there
		p.round().Faults = append(p.round().Faults, faultRecord{Fault: "N18", Start: at(50), End: at(62), Backup: at(50), Down: at(60)})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.broken == "" {
				kept(t, sets, p)
				return
			}
			require.Contains(t, broken(t, sets, noLostUpdate, p), test.broken)
		})
	}
}

// Holds must exclude each other before a restore, after it, and over it: no client gets in
// before the sessions of all have ended.
func TestARestoreExcusesNoOverlap(t *testing.T) {
	t.Parallel()
	restore := []faultRecord{{Fault: "N18", Start: at(3), End: at(30), Backup: at(3), Down: at(12)}}
	kept(t, overlaps, only(mutexSpec, restore, take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 10, 15)))
	broken(t, overlaps, noOverlap, only(mutexSpec, restore, take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 9, 15)))
	broken(t, tokens, risingTokens, only(mutexSpec, restore, take("a", "mutex-s", 2, 5, 10), take("b", "mutex-s", 1, 40, 45)))
}

// A fault that must be asked for does not come by itself, or beside another one.
func TestAFaultThatMustBeAskedFor(t *testing.T) {
	t.Parallel()
	isRestore := func(f fault) bool { return f.id == "N18" }
	for list, want := range map[string]bool{"all": false, "N15": false, "N18": true, "N1,N18": true} {
		chosen, _, err := choose(list)
		require.NoError(t, err)
		require.Equal(t, want, slices.ContainsFunc(chosen, isRestore), list)
	}
	s := schedule{random: rand.New(rand.NewPCG(1, 2)), chosen: faults, pair: true}
	for range 1000 {
		if next := s.next(&cluster{setup: setup{frames: 1}}); len(next) > 1 {
			require.False(t, slices.ContainsFunc(next, isRestore))
		}
	}
}
