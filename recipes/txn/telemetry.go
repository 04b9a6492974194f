// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
)

// telemetryScope is the name under which instruments are made.
const telemetryScope = "github.com/gocurator/curator/recipes/txn"

// telemetry counts the outcomes of tries. It is nil, and does nothing, without a provider.
type telemetry struct{ commits, conflicts metric.Int64Counter }

func newTelemetry(client *framework.Framework) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	meter := reports.MeterProvider.Meter(telemetryScope)
	commits, err1 := meter.Int64Counter("curator.txn.commits",
		metric.WithUnit("{transaction}"), metric.WithDescription("Transactions that have succeeded."))
	conflicts, err2 := meter.Int64Counter("curator.txn.conflicts",
		metric.WithUnit("{try}"), metric.WithDescription("Tries of transactions that have met a conflict."))
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t := &telemetry{commits, conflicts}
	t.add(t.commits, 0)
	t.add(t.conflicts, 0)
	return t, nil
}

func (t *telemetry) add(counter metric.Int64Counter, n int64) { counter.Add(context.Background(), n) }

func (t *telemetry) committed() {
	if t != nil {
		t.add(t.commits, 1)
	}
}

func (t *telemetry) conflicted() {
	if t != nil {
		t.add(t.conflicts, 1)
	}
}
