// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

func TestFourLetterWord(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	for word, want := range map[string]string{
		"ruok": "imok", "mntr": "zk_global_sessions\t0\n", "conf": "tickTime=500\n", "dump": "Session Sets (0)",
	} {
		require.Contains(t, must.Get(srv.FourLetterWord(t.Context(), word))(t), want)
	}
	_, err := srv.FourLetterWord(t.Context(), "kill")
	require.ErrorContains(t, err, `zkserver: four-letter word "kill"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = srv.FourLetterWord(ctx, "ruok")
	require.ErrorIs(t, err, context.Canceled)
}
