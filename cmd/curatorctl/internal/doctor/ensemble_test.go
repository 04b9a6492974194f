// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnsembleIsJudged: a server answers as a follower or an observer only while it has a leader.
func TestEnsembleIsJudged(t *testing.T) {
	e := Ensemble{Servers: []Server{
		{Mode: "follower", zxid: 1<<32 + 5, TickTime: 2000, SyncLimit: 5}, {Mode: "follower", zxid: 1<<32 + 9}, {Error: "down"},
	}}
	e.judge()
	require.EqualValues(t, 4, *e.Servers[0].Lag)
	require.Zero(t, *e.Servers[1].Lag)
	require.Nil(t, e.Servers[2].Lag, "it is not known")
	require.Equal(t, 18_000, e.SafeSessionTimeout)
	for mode, quorum := range map[string]bool{"leader": true, "follower": true, "observer": true, "standalone": true, "read-only": false, "": false} {
		e := Ensemble{Servers: []Server{{Mode: mode}}}
		e.judge()
		require.Equal(t, quorum, e.Quorum, mode)
	}
}
