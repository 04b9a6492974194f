// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// logPath is the key of the path in log records.
const logPath = string(instruments.Path)

// telemetry is what one node measures; "Metrics" in doc.go has the table.
type telemetry struct{ kept, standing, recreations *instruments.Count }

func newTelemetry(client *framework.Framework, path string) (telemetry, error) {
	s := instruments.New(client, "nodes", path)
	t := telemetry{
		kept:        s.UpDown("curator.nodes.kept", "{node}", "Nodes that this process keeps."),
		standing:    s.UpDown("curator.nodes.standing", "{node}", "Nodes whose znode stood when the server was last asked."),
		recreations: s.Counter("curator.nodes.recreations", "{creation}", "Znodes that were created again after they had gone."),
	}
	return t, s.Err()
}
