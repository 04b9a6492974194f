// SPDX-License-Identifier: Apache-2.0

package module

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVersion(t *testing.T) {
	require.NotEmpty(t, Version())
	ours := func(version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	replaced := ours("v0.1.0")
	replaced.Replace = &debug.Module{Path: "example.com/fork", Version: "v0.1.1"}
	locally := ours("v0.1.0")
	locally.Replace = &debug.Module{Path: "../curator"}
	other := &debug.Module{Path: path + "/v2", Version: "v2.0.0"}
	for want, info := range map[string]*debug.BuildInfo{
		"v0.1.0": {Deps: []*debug.Module{other, ours("v0.1.0")}},
		"v0.1.1": {Deps: []*debug.Module{replaced}},
		"v0.2.0": {Main: *ours("v0.2.0")},
	} {
		require.Equal(t, want, versionIn(info))
	}
	for _, info := range []*debug.BuildInfo{
		{Main: *ours("(devel)")}, {Main: *ours("")}, {Deps: []*debug.Module{locally}}, {Deps: []*debug.Module{other}},
	} {
		require.Equal(t, unknown, versionIn(info))
	}
}
