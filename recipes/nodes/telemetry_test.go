// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zktest"
)

// measured returns the values of this package's instruments, and requires that each tells
// the path, or none.
func measured(t *testing.T, reader metric.Reader, path string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/gocurator/curator/recipes/nodes" {
			continue
		}
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Sum[int64])
			require.True(t, ok, m.Name)
			require.Equal(t, m.Name == "curator.nodes.recreations", data.IsMonotonic, m.Name)
			require.Len(t, data.DataPoints, 1, m.Name)
			told, _ := data.DataPoints[0].Attributes.Value("curator.path")
			require.Equal(t, path, told.AsString(), m.Name)
			values[m.Name] = data.DataPoints[0].Value
		}
	}
	return values
}

// measures are the values of all instruments.
func measures(kept, standing, recreations int64) map[string]int64 {
	return map[string]int64{
		"curator.nodes.kept": kept, "curator.nodes.standing": standing, "curator.nodes.recreations": recreations,
	}
}

func TestTelemetryMetrics(t *testing.T) {
	for name, path := range map[string]string{"without paths": "", "with paths": path} {
		t.Run(name, func(t *testing.T) {
			reader, server := metric.NewManualReader(), zktest.NewServer(t)
			opts := []framework.Option{framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))}
			if path != "" {
				opts = append(opts, framework.WithPathAttribute())
			}
			client := zktest.Client(t, server, opts...)
			node := newNode(t, client, framework.Ephemeral)
			require.Equal(t, measures(0, 0, 0), measured(t, reader, path), "they exist from the start")
			changes := changesOf(t, node)
			require.NoError(t, node.Start())
			require.True(t, zktest.Await(t, changes, "the creation").Present)
			require.Equal(t, measures(1, 1, 0), measured(t, reader, path))

			require.NoError(t, client.Delete(zktest.Context(t), node.Path()))
			require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
			require.True(t, zktest.Await(t, changes, "the return").Present)
			require.Equal(t, measures(1, 1, 1), measured(t, reader, path))

			zktest.KillSession(t, client)
			for present := false; !present; {
				present = zktest.Await(t, changes, "the return after the session").Present
			}
			require.Equal(t, measures(1, 1, 2), measured(t, reader, path))

			require.NoError(t, node.Close())
			require.Equal(t, measures(0, 0, 2), measured(t, reader, path))
		})
	}
}

// A node that is refused is kept, and does not stand.
func TestTelemetryMetricsOfANodeThatIsMissing(t *testing.T) {
	reader, server := metric.NewManualReader(), zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	node := newNode(t, client, framework.Ephemeral, nodes.WithoutParents())
	changes := changesOf(t, node)
	require.NoError(t, node.Start())
	require.ErrorIs(t, zktest.Await(t, changes, "the report").Err, framework.ErrNoNode)
	require.Equal(t, measures(1, 0, 0), measured(t, reader, ""))
	require.NoError(t, node.Close())
	require.Equal(t, measures(0, 0, 0), measured(t, reader, ""))
}
