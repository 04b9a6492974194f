// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckSetSets(t *testing.T) {
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

// Holds must exclude each other before a restore, after it, and over it: no client gets in
// before the sessions of all have ended.
func TestCheckSetRestoreExcusesNoOverlap(t *testing.T) {
	t.Parallel()
	restore := []faultRecord{{Fault: "N18", Start: at(3), End: at(30), Backup: at(3), Down: at(12)}}
	kept(t, overlaps, only(mutexSpec, restore, take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 10, 15)))
	broken(t, overlaps, noOverlap, only(mutexSpec, restore, take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 9, 15)))
	broken(t, tokens, risingTokens, only(mutexSpec, restore, take("a", "mutex-s", 2, 5, 10), take("b", "mutex-s", 1, 40, 45)))
}
