// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// TestLossesKeepNoClient: a simulation ends its fake time within the pause of a burst, so that nothing comes after it.
func TestLossesKeepNoClient(t *testing.T) {
	var lost weak.Pointer[framework.Framework]
	synctest.Test(t, func(t *testing.T) {
		client := must.Get(framework.New("zk1:2181", framework.WithLogger(slog.New(slog.DiscardHandler))))(t)
		telemetry.ReportLoss(client, new(framework.Session), "/lock", 1, framework.ErrSessionEnded)
		telemetry.ReportDrop(client, "/lock")
		lost = weak.Make(client)
		require.NoError(t, client.Close())
	})
	runtime.GC()
	runtime.GC()
	require.Nil(t, lost.Value())
}
