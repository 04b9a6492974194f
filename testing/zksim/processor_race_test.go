// SPDX-License-Identifier: Apache-2.0

//go:build race

package zksim_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zksim"
)

// TestOneProcessorUnderTheRaceDetector, and as many as before when the history is over.
func TestOneProcessorUnderTheRaceDetector(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	found := 0
	zksim.Run(t, 1, zksim.Program{Clients: 1, Actions: 1, Join: func(*zksim.World, *zksim.Client) (func(context.Context, *rand.Rand), error) {
		found = runtime.GOMAXPROCS(0)
		return func(context.Context, *rand.Rand) {}, nil
	}})
	require.Equal(t, 1, found)
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
}
