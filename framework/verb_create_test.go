// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// onEachBackend runs a test with a client of each kind of server, whose chroot
// exists.
func onEachBackend(t *testing.T, test func(t *testing.T, server zktest.Backend, f *framework.Framework)) {
	t.Helper()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server.ConnectString())
		mustCreate(t, f, "/start", framework.CreatingParentsIfNeeded())
		test(t, server, f)
	})
}

func mustCreate(t *testing.T, f *framework.Framework, path string, opts ...framework.CreateOption) string {
	t.Helper()
	created := must.Get(f.Create(t.Context(), path, nil, opts...))(t)
	return created
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// Names of options are made for errors only.
func TestCreateOptionsThatAreRightCostNoText(t *testing.T) {
	allocations := func(mode framework.CreateMode) float64 {
		option := framework.WithMode(mode)
		return testing.AllocsPerRun(100, func() { framework.CreateOp("/a", nil, option) })
	}
	require.LessOrEqual(t, allocations(framework.EphemeralSequential), allocations(framework.Ephemeral))
}
