// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFIFORequestsUseTheirMemoryAgain in their order, also when there is always one under way, and nothing stays of those that have left.
func TestFIFORequestsUseTheirMemoryAgain(t *testing.T) {
	const atOnce = 10
	var r fifo[int]
	for n := 1; n <= 10_000; n++ {
		r.push(n)
		if n > atOnce {
			first, found := r.first()
			require.True(t, found)
			require.Equal(t, n-atOnce, first)
			r.pop()
		}
		for _, gone := range slices.Concat(r.slots[:r.gone], r.slots[len(r.slots):cap(r.slots)]) {
			require.Zero(t, gone)
		}
	}
	require.Len(t, r.all(), atOnce)
	require.LessOrEqual(t, cap(r.slots), 4*atOnce)
}
