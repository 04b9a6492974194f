// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
)

// telemetryScope is the name under which instruments are made.
const telemetryScope = "github.com/gocurator/curator/recipes/nodes"

// keyPath is the attribute of this package; "Metrics" in doc.go has the table. Log
// records have the same key.
const (
	keyPath = attribute.Key("curator.path")
	logPath = string(keyPath)
)

// telemetry is what one node measures. It is nil, and does nothing, for a node
// whose client has no provider.
type telemetry struct {
	attributes  metric.MeasurementOption // the path, if that is told
	kept        metric.Int64UpDownCounter
	standing    metric.Int64UpDownCounter
	recreations metric.Int64Counter
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	t := &telemetry{attributes: metric.WithAttributes()}
	if reports.PathAttribute {
		t.attributes = metric.WithAttributes(keyPath.String(path))
	}
	meter := reports.MeterProvider.Meter(telemetryScope)
	var errs [3]error
	t.kept, errs[0] = meter.Int64UpDownCounter("curator.nodes.kept",
		metric.WithUnit("{node}"), metric.WithDescription("Nodes that this process keeps."))
	t.standing, errs[1] = meter.Int64UpDownCounter("curator.nodes.standing",
		metric.WithUnit("{node}"), metric.WithDescription("Nodes whose znode stood when the server was last asked."))
	t.recreations, errs[2] = meter.Int64Counter("curator.nodes.recreations",
		metric.WithUnit("{creation}"), metric.WithDescription("Znodes that were created again after they had gone."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.begins(0)
	t.stands(0)
	t.recreated(0)
	return t, nil
}

// begins measures that nodes are kept from now on, or no longer.
func (t *telemetry) begins(n int64) {
	if t != nil {
		t.kept.Add(context.Background(), n, t.attributes)
	}
}

// stands measures that znodes stand from now on, or no longer.
func (t *telemetry) stands(n int64) {
	if t != nil {
		t.standing.Add(context.Background(), n, t.attributes)
	}
}

// recreated measures that znodes were created again.
func (t *telemetry) recreated(n int64) {
	if t != nil {
		t.recreations.Add(context.Background(), n, t.attributes)
	}
}
