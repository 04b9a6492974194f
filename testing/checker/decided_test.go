// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDecidedSearchThatEndsDecides, when the other one of the two takes too long.
func TestDecidedSearchThatEndsDecides(t *testing.T) {
	first := Op{Kind: Acquire, Lock: "/l", Owner: "a", Token: 1, Call: 0, Return: 1}
	second := Op{Kind: Acquire, Lock: "/l", Owner: "b", Token: 2, Call: 2, Return: 3}
	good, bad := []Op{first}, []Op{first, second}
	for _, test := range []struct {
		name      string
		ops       []Op
		slow      int64 // the search that does not end in time
		violation bool
	}{
		{"good, and the first search is slow", good, 1, false},
		{"bad, and the first search is slow", bad, 1, true},
		{"bad, and the second search is slow", bad, 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model, searches := Mutex(), atomic.Int64{}
				admits := model.admits
				model.admits = func(s state, op Op) bool {
					if op.Owner == "a" && searches.Add(1) == test.slow {
						time.Sleep(2 * limit)
					}
					return admits(s, op)
				}
				err := Check(model, test.ops)
				time.Sleep(2 * limit) // the slow search ends
				if !test.violation {
					require.NoError(t, err)
					return
				}
				var violation *ViolationError
				require.ErrorAs(t, err, &violation)
				require.False(t, violation.Undecided)
			})
		})
	}
}
