// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// logPath is the key of the path in log records.
const logPath = string(instruments.Path)

// telemetry is what a member measures; "Metrics" in doc.go has the table.
type telemetry struct {
	wanted, held, overdue, moves, failures *instruments.Count
	takeovers                              *instruments.Histogram
}

func newTelemetry(client *framework.Framework, path string) (telemetry, error) {
	s := instruments.New(client, "partition", path)
	t := telemetry{
		wanted:    s.UpDown("curator.partition.wanted", "{partition}", "Partitions that the plan gives to this process."),
		held:      s.UpDown("curator.partition.held", "{partition}", "Partitions that this process has."),
		overdue:   s.UpDown("curator.partition.overdue", "{partition}", "Partitions whose function has not returned within the grace."),
		moves:     s.Counter("curator.partition.moves", "{partition}", "Partitions that plans of this process have moved from a member that stays."),
		failures:  s.Counter("curator.partition.failures", "{failure}", "Errors and panics of the functions of partitions."),
		takeovers: s.Histogram("curator.partition.takeover.duration", "Time from the plan until this process has a partition."),
	}
	return t, s.Err()
}
