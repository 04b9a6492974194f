// SPDX-License-Identifier: Apache-2.0

package ensemble_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

func TestVersionIn(t *testing.T) {
	for answer, want := range map[string]ensemble.Version{
		"Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC\nMode: standalone\n": {3, 8, 0},
		"Zookeeper version: 3.5.10-8b2e5d4, built on 05/31/2022 14:27 GMT\n":                                                   {3, 5, 10},
		"Zookeeper version: 3.10.0-SNAPSHOT-12ab, built on 2026-07-18 00:00 UTC\n":                                             {3, 10, 0},
		"Zookeeper version: 3.9.5--1, built on 2025-01-01 00:00 UTC\n":                                                         {3, 9, 5},
	} {
		require.Equal(t, want, must.Get(ensemble.VersionIn(answer))(t))
	}
	for _, answer := range []string{"", "Mode: standalone", "Zookeeper version: 3.8", "Zookeeper version: 3.x.0-1, built on"} {
		_, err := ensemble.VersionIn(answer)
		require.ErrorContains(t, err, "ensemble: ", answer)
	}
}

func TestVersionOrder(t *testing.T) {
	older, newer := ensemble.Version{3, 5, 10}, ensemble.Version{3, 10, 0}
	require.True(t, newer.AtLeast(older))
	require.True(t, newer.AtLeast(newer))
	require.False(t, older.AtLeast(newer))
	require.True(t, newer.Has(ensemble.PersistentWatches))
	require.False(t, older.Has(ensemble.PersistentWatches))
	require.Equal(t, "3.5.10", older.String())
	require.Equal(t, "persistent watches (ZooKeeper 3.6.0)", ensemble.PersistentWatches.String())
}

// TestVersionClassPathVariable points the servers at a class path without a ZooKeeper: the variable counts, and an option wins
// over it.
func TestVersionClassPathVariable(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Java")
	}
	debian := "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
	t.Setenv("CURATOR_ZOOKEEPER_CLASSPATH", t.TempDir())
	_, err := ensemble.Start(t.Context())
	require.ErrorContains(t, err, "ZooKeeperServerMain", "Java finds no such class")
	e := must.Get(ensemble.Start(t.Context(), ensemble.WithClassPath(debian)))(t)
	defer func() { require.NoError(t, e.Close()) }()
	version := must.Get(e.Server(0).Version(t.Context()))(t)
	require.True(t, version.AtLeast(ensemble.Version{3, 5, 0}), version.String())
}
