// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// logPath is a key of log records, see framework.WithLogger.
const logPath = string(instruments.Path)

// telemetry is what one queue measures; "Metrics" in doc.go has the table.
type telemetry struct {
	put, consumed, failed, dead, leftOut *instruments.Count
	waiting                              *instruments.Gauge
}

func newTelemetry(client *framework.Framework, path string) (telemetry, error) {
	s := instruments.New(client, "queues", path)
	t := telemetry{
		put:      s.Counter("curator.queues.put", "{item}", "Items that this process has put."),
		consumed: s.Counter("curator.queues.consumed", "{item}", "Items that this process has consumed."),
		failed:   s.Counter("curator.queues.failed", "{item}", "Times that this process has not consumed an item that it had."),
		dead:     s.Counter("curator.queues.dead", "{item}", "Items that this process has moved to a dead letter folder."),
		leftOut:  s.Counter("curator.queues.left_out", "{znode}", "Znodes of queues that were left out: their items cannot be read."),
		waiting:  s.Gauge("curator.queues.waiting", "{znode}", "Znodes that a consumer of this process has found and not tried, or that a producer has found."),
	}
	return t, s.Err()
}
