// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartitionsOfADay: by load no member is far beyond the ideal, whoever joins and leaves. By number some member
// is. Both have each partition at a member.
func TestPartitionsOfADay(t *testing.T) {
	d := newDay(2000, 40, 100)
	dividers := d.run()
	for _, a := range dividers {
		require.Len(t, a.owners, 2000)
		for name, id := range a.owners {
			require.Contains(t, d.members, id, name)
		}
	}
	require.Less(t, slices.Max(dividers[0].heaviest), 1.25)
	require.Greater(t, slices.Max(dividers[1].heaviest), 1.4)
	require.Less(t, dividers[0].moved, 0.5)
}
