// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGenerate looks at the programs that the comparison with Apache ZooKeeper begins with: a seed always gives the same
// one, and together they do everything there is to do.
func TestGenerate(t *testing.T) {
	ops, parts, deeds, joined := map[int32]int{}, map[int32]int{}, map[deed]int{}, 0
	for seed := range uint64(500) {
		p := generate(seed)
		require.Equal(t, p, generate(seed), "seed %d", seed)
		require.Len(t, p.actions, programLength)
		for _, batch := range p.batches() {
			joined += len(batch) - 1
		}
		for _, a := range p.actions {
			if deeds[a.does]++; a.does == asks {
				ops[a.op]++
			}
			for _, part := range a.parts {
				parts[part.op]++
			}
		}
	}
	known := slices.Collect(maps.Keys(replyFields))
	known = append(known, opClose, opPing, 2, 17, 18, 20, 100, 101, 105) // whose replies have no fields
	for _, op := range known {
		require.Greater(t, ops[op], 20, "requests of opcode %d", op)
	}
	for _, op := range []int32{1, 2, 4, 5, 8, 13, 19, 21, 99} {
		require.Greater(t, parts[op], 10, "operations of opcode %d", op)
	}
	for _, does := range []deed{
		asks, reconnects, hangsUp, counts, shortTimeout, longTimeout, oldClient, wrongPassword, emptyPassword, wrongSession,
		futureZxid,
	} {
		require.Greater(t, deeds[does], 10, "deed %q", does)
	}
	require.Greater(t, joined, 500, "requests sent before the reply to the one before")
}
