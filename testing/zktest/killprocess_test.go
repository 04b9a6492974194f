// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestKillProcess leaves the session to the server, without and with a guard.
func TestKillProcess(t *testing.T) {
	const timeout = 10 * time.Second
	for name, test := range map[string]struct {
		then func(t *testing.T, killed *framework.Framework)
		left time.Duration // for which the ephemeral znode stays
	}{
		"alone": {func(*testing.T, *framework.Framework) {}, timeout},
		"with a guard": {func(t *testing.T, killed *framework.Framework) {
			session := killed.Session()
			require.NoError(t, framework.EndSession(zktest.Context(t), killed.String(), session.ID(), session.Password(),
				framework.WithDialer(killed.Dialer())))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server, framework.WithSessionTimeout(timeout))
				must.Get(client.Create(zktest.Context(t), "/ephemeral", nil, framework.WithMode(framework.Ephemeral)))(t)
				zktest.KillProcess(t, server, client)
				killed := time.Now()
				test.then(t, client)
				for server.Stats().Ephemerals > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				require.InDelta(t, test.left, time.Since(killed), float64(time.Second))
			})
		})
	}
}
