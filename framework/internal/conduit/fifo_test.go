// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFIFORequestsAreAQueue, in the order in which they were pushed, that keeps nothing of
// those which have left it.
func TestFIFORequestsAreAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r fifo[pendingRequest]
		var want []pendingRequest
		check := func() {
			first, found := r.first()
			require.Equal(t, len(want) > 0, found)
			if found {
				require.Equal(t, want[0], first)
			}
			require.Len(t, r.all(), len(want))
			for i, p := range r.all() {
				require.Equal(t, want[i], p)
			}
			slots := r.slots[:cap(r.slots)]
			for i, p := range slots {
				if i < r.gone || i >= len(r.slots) {
					require.Zero(t, p, "slot %d of %d", i, len(slots))
				}
			}
		}
		for xid := range rapid.Int32Range(1, 60).Draw(t, "turns") {
			if len(want) > 0 && rapid.Bool().Draw(t, "pop") {
				r.pop()
				want = want[1:]
			} else {
				p := pendingRequest{xid: xid, call: new(Call)}
				r.push(p)
				want = append(want, p)
			}
			check()
		}
	})
}

// TestFIFORequestsUseTheirMemoryAgain, also when there is always one under way.
func TestFIFORequestsUseTheirMemoryAgain(t *testing.T) {
	const atOnce = 10
	var r fifo[pendingRequest]
	for range atOnce {
		r.push(pendingRequest{})
	}
	for range 10_000 {
		r.push(pendingRequest{})
		r.pop()
	}
	require.Len(t, r.all(), atOnce)
	require.LessOrEqual(t, cap(r.slots), 4*atOnce)
}
