// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// ofOneConduit bounds the bytes that a conduit keeps, and the bytes that a reconnect allocates, with
// the overhead of the test. A default buffer of go-zookeeper is three times as large.
const ofOneConduit = 512 << 10

// TestMemoryOfAConduit checks that neither a conduit nor a reconnect has one of go-zookeeper's
// default buffers.
func TestMemoryOfAConduit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conduits, reconnects = 10, 10
		n := newNetwork(t)
		var c *conduit.Conduit
		before := heap()
		for range conduits {
			c, _, _ = connected(t, n)
		}
		kept := int64(heap().HeapAlloc-before.HeapAlloc) / conduits

		before = heap()
		for range reconnects {
			c.Cut(errReset)
			(<-n.peers).accept(0x51, sessionTimeout)
		}
		synctest.Wait()
		taken := int64(heap().TotalAlloc-before.TotalAlloc) / reconnects

		t.Logf("a conduit keeps %d bytes, a reconnect takes %d", kept, taken)
		require.Less(t, kept, int64(ofOneConduit), "bytes that each conduit keeps")
		require.Less(t, taken, int64(ofOneConduit), "bytes that each reconnect takes")
	})
}

// heap collects garbage and returns the statistics of the heap.
func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
