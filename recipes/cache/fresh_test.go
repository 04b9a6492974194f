package cache_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// freshEnv names the environment variable with the number of writes of TestFreshOverTwoServers.
const freshEnv = "CURATOR_FRESH_WRITES"

// One client writes at one server of an ensemble. After each write, Fresh of a cache at another
// server shows it.
func TestFreshOverTwoServers(t *testing.T) {
	if testing.Short() {
		t.Skip("three real servers take seconds; without -short")
	}
	writes := 300
	if text := os.Getenv(freshEnv); text != "" {
		var err error
		writes, err = strconv.Atoi(text)
		require.NoError(t, err, freshEnv)
	}
	servers := zktest.NewEnsemble(t, 3)
	followers, err := servers.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 2)
	writer, reader := zktest.Client(t, followers[0].Addr()), zktest.Client(t, followers[1].Addr())
	const nodes = 10
	create(t, writer, "/tree", "")
	for i := range nodes {
		create(t, writer, fmt.Sprintf("/tree/%d", i), "")
	}
	c := started(t, reader, "/tree")
	ctx, stale := t.Context(), 0
	for i := range writes {
		var stat framework.Stat
		path := fmt.Sprintf("/tree/%d", i%nodes)
		require.NoError(t, writer.Set(ctx, path, strconv.AppendInt(nil, int64(i), 10), framework.StoringStatIn(&stat)))
		require.NoError(t, c.Fresh(ctx))
		data, found := c.Get(path)
		if !found || data.Stat.Mzxid < stat.Mzxid {
			stale++
		}
	}
	t.Logf("%d writes, each followed by Fresh and a read at another server: %d stale", writes, stale)
	require.Zero(t, stale)
}
