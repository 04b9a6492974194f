// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// measured returns the values of this package's instruments, without their common prefix.
func measured(t *testing.T, reader *meters.Reader) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for name, value := range reader.Values(t) {
		if name, ok := strings.CutPrefix(name, "curator.cache."); ok && !strings.Contains(name, ".sum") {
			values[name] = value
		}
	}
	return values
}

func TestTelemetryMetrics(t *testing.T) {
	reader := meters.New()
	client := zktest.Client(t, zktest.NewServer(t), reader.Option)
	c := newCache(t, client, "/tree")
	require.Equal(t, map[string]float64{
		"events{curator.event=node_created}": 0, "events{curator.event=node_changed}": 0, "events{curator.event=node_deleted}": 0,
		"events{curator.event=initialized}": 0, "nodes{}": 0, "unreadable{}": 0,
	}, measured(t, reader))
	create(t, client, "/tree/a", "")
	create(t, client, "/tree/b", "")
	start(t, c)
	set(t, client, "/tree/a", "x")
	remove(t, client, "/tree/b")
	must.Get(client.Create(t.Context(), "/tree/secret", nil, framework.WithACL(zk.WorldACL(zk.PermDelete)...)))(t)
	fresh(t, c)
	want := map[string]float64{
		"events{curator.event=node_created}": 3, "events{curator.event=node_changed}": 1, "events{curator.event=node_deleted}": 1,
		"events{curator.event=initialized}": 1, "nodes{}": 2, "resync.duration{}": 1,
	}
	got := measured(t, reader)
	require.Contains(t, []float64{0, 1}, got["unreadable{}"], "servers since 3.8.4 tell nothing of such a znode")
	delete(got, "unreadable{}")
	require.Equal(t, want, got)
	require.NoError(t, c.Close())
	require.Zero(t, measured(t, reader)["nodes{}"])
}
