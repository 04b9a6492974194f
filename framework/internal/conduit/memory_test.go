package conduit_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// ofOneConduit bounds the bytes that a conduit keeps, and those that a reconnect takes, each with
// what the test has for it. A buffer of go-zookeeper's own has three times as many.
const ofOneConduit = 512 << 10

// TestMemoryOfAConduit: neither a client nor a reconnect costs one of the buffers that
// go-zookeeper has for requests of znodes, which none of them needs.
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
			c.Reset(errReset)
			(<-n.peers).accept(0x51, sessionTimeout)
		}
		synctest.Wait()
		taken := int64(heap().TotalAlloc-before.TotalAlloc) / reconnects

		t.Logf("a conduit keeps %d bytes, a reconnect takes %d", kept, taken)
		require.Less(t, kept, int64(ofOneConduit), "bytes that each conduit keeps")
		require.Less(t, taken, int64(ofOneConduit), "bytes that each reconnect takes")
	})
}

// heap is what there is without garbage.
func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
