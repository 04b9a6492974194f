// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// read has replies read until nothing is left, and reports whether a wait comes next.
func (c *coalescing) read(replies int, took time.Duration) bool {
	for range replies {
		c.noteReply(took, coalesceFrom)
	}
	if !c.isDue() {
		return false
	}
	c.begin()
	return true
}

func TestCoalesceRepliesAreWaitedForWhereTheyGather(t *testing.T) {
	c := coalescing{often: coalesceOften}
	require.False(t, c.read(coalesceOften, coalesceAbove-1), "they are quick")
	require.True(t, c.read(1, coalesceAbove))
	for range 100 {
		require.True(t, c.read(coalesceOften, coalesceAbove))
	}
	require.False(t, c.read(coalesceOften-1, coalesceAbove))
	require.True(t, c.read(1, coalesceAbove))

	const all = 100_000
	waits := 0
	for range all {
		if c.read(1, time.Second) {
			waits++
		}
	}
	require.Less(t, waits, all/coalesceRarely+20, "each wait has brought one reply")
	require.Greater(t, waits, all/coalesceRarely/2, "but that may change")
	require.True(t, c.read(coalesceRarely, time.Second))
	require.True(t, c.read(coalesceOften, time.Second))
}
