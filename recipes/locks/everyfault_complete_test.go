package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/hardship"
)

// withoutAFault are the exported calls that are in no row of the table of
// TestEveryFaultAtEveryRequest, and why.
var withoutAFault = map[string]string{
	"FixedLeases.MaxLeases":                      "it makes no request",
	"StandardLockInternalsDriver.CreatesTheLock": "every acquisition makes it",
	"ReadLock.Do":                                "it is Do, like the method of InterProcessMutex",
	"WriteLock.Do":                               "it is Do, like the method of InterProcessMutex",
	"InterProcessSemaphore.Do":                   "it is Do, like the method of InterProcessMutex",
	"InterProcessSemaphoreV2.Do":                 "it is Do, like the method of InterProcessMutex",
	"InterProcessSemaphoreMutex.Do":              "it is Do, like the method of InterProcessMutex",
}

// TestEveryCallIsFaulted: whatever the package exports that takes a context and can fail
// is in a row of the table, and nothing else is.
func TestEveryCallIsFaulted(t *testing.T) {
	faulted := faultedCalls()
	rows := make([]hardship.Call, len(faulted))
	for i, call := range faulted {
		require.NotZero(t, call.requests, call.name)
		rows[i] = hardship.Call{Name: call.name, Of: call.of}
	}
	hardship.Complete(t, rows, withoutAFault)
}
