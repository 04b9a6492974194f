// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/hardship"
)

// withoutAFault are the exported calls that are in no row of the table of
// TestEveryFaultAtEveryRequest, and why.
var withoutAFault = map[string]string{
	"FixedLeases.MaxLeases":                      "it makes no request",
	"StandardLockInternalsDriver.CreatesTheLock": "every acquisition makes it",
	"permits.Do": "it is Do, like lock.Do",
}

// TestEveryCallIsFaulted: each exported call that takes a context and can fail
// is in a row of the table, and nothing else is.
func TestEveryCallIsFaulted(t *testing.T) {
	requests, rows := 0, everyFaultCalls()
	for _, row := range rows {
		require.NotZero(t, row.Requests, row.Name)
		requests += row.Requests
	}
	require.Equal(t, requestsOfAllCalls, requests)
	hardship.Complete(t, rows, withoutAFault)
}
