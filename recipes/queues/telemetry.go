// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
)

// telemetryScope is the name under which the instrument is made.
const telemetryScope = "github.com/gocurator/curator/recipes/queues"

// telemetry counts what the consumers of a queue leave out. It is nil, and does nothing, if the client has no meter
// provider.
type telemetry struct {
	unusable   metric.Int64Counter
	attributes metric.MeasurementOption // the path, if that is told
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	unusable, err := reports.MeterProvider.Meter(telemetryScope).Int64Counter("curator.queues.left_out",
		metric.WithUnit("{znode}"), metric.WithDescription("Znodes of queues that were left out: their items cannot be read."))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t := &telemetry{unusable: unusable, attributes: metric.WithAttributes()}
	if reports.PathAttribute {
		t.attributes = metric.WithAttributes(attribute.String(logPath, path))
	}
	t.leftOut(0) // a counter that exists from the start shows that nothing has happened yet
	return t, nil
}

// leftOut counts znodes that are left out.
func (t *telemetry) leftOut(n int64) {
	if t != nil {
		t.unusable.Add(context.Background(), n, t.attributes)
	}
}
