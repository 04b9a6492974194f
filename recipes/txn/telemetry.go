// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// telemetry counts the outcomes of tries; "Metrics" in doc.go has the table.
type telemetry struct{ commits, conflicts *instruments.Count }

func newTelemetry(client *framework.Framework) (telemetry, error) {
	s := instruments.New(client, "txn", "")
	t := telemetry{
		commits:   s.Counter("curator.txn.commits", "{transaction}", "Transactions that have succeeded."),
		conflicts: s.Counter("curator.txn.conflicts", "{try}", "Tries of transactions that have met a conflict, or another commit in the folder."),
	}
	return t, s.Err()
}
