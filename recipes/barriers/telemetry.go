// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

const (
	keyRecipe  = attribute.Key("curator.recipe")
	keyOutcome = attribute.Key("curator.outcome")
)

// telemetry is what one barrier measures; "Metrics" in doc.go has the table.
type telemetry struct {
	waiting *instruments.Count
	waits   *instruments.Histogram
}

func newTelemetry(client *framework.Framework, recipe, path string) (telemetry, error) {
	s := instruments.New(client, "barriers", path, keyRecipe.String(recipe))
	t := telemetry{
		waiting: s.UpDown("curator.barrier.waiting", "{waiter}", "Calls of this process that wait at a barrier."),
		waits:   s.Histogram("curator.barrier.wait.duration", "Time from the call that waits to its result."),
	}
	return t, s.Err()
}

// measure calls wait, which blocks at the barrier.
func (t *telemetry) measure(ctx context.Context, wait func() error) error {
	began, outcome := time.Now(), "failed" // also if user code panics
	t.waiting.Add(1)
	defer func() {
		t.waiting.Add(-1)
		t.waits.Record(ctx, time.Since(began), keyOutcome.String(outcome))
	}()
	err := wait()
	if err == nil {
		outcome = "passed"
	}
	return err
}
