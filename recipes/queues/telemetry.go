// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// newTelemetry returns the count of what the consumers of a queue leave out.
func newTelemetry(client *framework.Framework, path string) (leftOut *instruments.Count, err error) {
	s := instruments.New(client, "queues", path)
	leftOut = s.Counter("curator.queues.left_out", "{znode}", "Znodes of queues that were left out: their items cannot be read.")
	return leftOut, s.Err()
}
