// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// logPath is the key of the path in log records.
const logPath = string(instruments.Path)

// telemetry is what an observer measures; "Metrics and traces" in doc.go has the table.
type telemetry struct {
	changes  *instruments.Count
	absences *instruments.Histogram
	absent   time.Time // since when there has been no leader; zero while there is one
}

func newTelemetry(client *framework.Framework, path string) (telemetry, error) {
	s := instruments.New(client, "leader", path)
	t := telemetry{
		changes:  s.Counter("curator.leader.changes", "{change}", "Leaders that observers have seen."),
		absences: s.Histogram("curator.leader.absence.duration", "Time in which an observer saw no leader."),
	}
	return t, s.Err()
}

// The values of curator.outcome of a [Once].
const (
	keyOutcome = attribute.Key("curator.outcome")
	runMarked  = "marked"
	runSkipped = "skipped"
	runFailed  = "failed"
)

// newRuns returns the count of the calls of [Once.Do].
func newRuns(client *framework.Framework, path string) (*instruments.Count, error) {
	s := instruments.New(client, "leader", path)
	runs := s.Counter("curator.once.runs", "{call}", "Calls of Once.Do.",
		keyOutcome.String(runMarked), keyOutcome.String(runSkipped), keyOutcome.String(runFailed))
	return runs, s.Err()
}

// saw measures what an observer reports: a leader, or that there is none.
func (t *telemetry) saw(leader bool) {
	if !leader {
		t.absent = time.Now()
		return
	}
	t.changes.Add(1)
	if !t.absent.IsZero() {
		t.absences.Record(context.Background(), time.Since(t.absent))
		t.absent = time.Time{}
	}
}
