// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keptProgram is a program that has failed once, and what was wrong then.
type keptProgram struct {
	name    string
	recipe  string
	program program
}

// keptPrograms are those that random seeds have found. A failing program prints its row.
var keptPrograms = []keptProgram{
	{
		"a vandal whose session ends before its request is served", "readwrite",
		program{clients: 2, seed: 1, steps: []step{
			{pause: 10 * time.Millisecond, actor: 1, verb: acquireIt},
			{pause: 50 * time.Millisecond, actor: 0, verb: deleteIt},
			{pause: 2600 * time.Microsecond, actor: 0, verb: killIt},
			{pause: 10 * time.Millisecond, actor: 1, verb: acquireIt, owned: true},
			{pause: 10 * time.Millisecond, actor: 1, verb: releaseIt},
			{pause: 10 * time.Millisecond, actor: 3, verb: acquireIt},
		}},
	},
}

// TestKeptPrograms runs them several times each: what happens in the same nanosecond
// comes in any order.
func TestKeptPrograms(t *testing.T) {
	t.Parallel()
	for _, kept := range keptPrograms {
		t.Run(kept.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(recipesOfModels, func(r *recipe) bool { return r.name == kept.recipe })
			require.GreaterOrEqual(t, i, 0, kept.recipe)
			p, seen := kept.program, tally{}
			p.recipe = recipesOfModels[i]
			for range triesOfShrinking {
				require.NoError(t, p.check(t, &seen), "%v", p)
			}
			require.Positive(t, seen.acquired.Load(), "acquisitions")
		})
	}
}

// row is the program as a row of keptPrograms.
func (p program) row() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\t%q, %q,\n\tprogram{clients: %d, seed: %d, wraps: %t, steps: []step{\n", "what went wrong", p.recipe.name, p.clients, p.seed, p.wraps)
	for _, s := range p.steps {
		fmt.Fprintf(&b, "\t\t{pause: %d, actor: %d, verb: %q, owned: %t, n: %d},\n", s.pause, s.actor, s.verb, s.owned, s.n)
	}
	b.WriteString("\t}},\n},")
	return b.String()
}
