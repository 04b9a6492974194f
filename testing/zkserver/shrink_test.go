// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shrink makes a program smaller as long as the smaller one fails too. It takes away runs of actions, the longest first, then operations of multis, and has requests wait for each other.
func shrink(p program, fails func(program) bool) program {
	try := func(smaller program) bool {
		if !fails(smaller) {
			return false
		}
		p = smaller
		return true
	}
	for changed := true; changed; {
		changed = false
		for n := len(p.actions) / 2; n > 0; n /= 2 {
			for i := len(p.actions) - n; i >= 0; i-- {
				if i+n <= len(p.actions) && try(p.without(i, n)) {
					changed = true
				}
			}
		}
		for i := range p.actions {
			for _, a := range simpler(p.actions[i]) {
				if try(p.with(i, a)) {
					changed = true
					break
				}
			}
		}
	}
	return p
}

// simpler lists what may be tried in place of an action.
func simpler(a action) []action {
	var list []action
	if a.joined {
		alone := a
		alone.joined = false
		list = append(list, alone)
	}
	for i := range a.parts {
		fewer := a
		fewer.parts = slices.Delete(slices.Clone(a.parts), i, i+1)
		list = append(list, fewer)
	}
	return list
}

// TestShrink looks for a needle: two actions and one operation of a multi that only fail together.
func TestShrink(t *testing.T) {
	var p program
	for i := range 40 {
		p.actions = append(p.actions, action{client: "a", does: asks, joined: i%2 == 0, request: request{
			op: 14, what: fmt.Sprint("action ", i),
			parts: []request{{op: 2, what: "one"}, {op: 2, what: fmt.Sprint("part ", i)}, {op: 2, what: "three"}},
		}})
	}
	fails := func(p program) bool {
		text := p.String()
		return strings.Contains(text, "action 7") && strings.Contains(text, "part 30;") || strings.Contains(text, "part 30]")
	}
	small := shrink(p, fails)
	require.True(t, fails(small))
	require.LessOrEqual(t, len(small.actions), 2)
	require.NotContains(t, small.String(), "one")
	require.NotContains(t, small.String(), "and:")

	require.Equal(t, p, shrink(p, func(program) bool { return false }), "nothing smaller fails")
}
