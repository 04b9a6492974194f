// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// BenchmarkMemory reports how many bytes of heap the server keeps for a znode, a watch and a session: b.N is ignored, as
// many of each are made as the figures need.
func BenchmarkMemory(b *testing.B) {
	const count = 20_000
	for _, bench := range []struct {
		name string
		fill func(b *testing.B, srv *zkserver.Server)
	}{
		{"znode", func(b *testing.B, srv *zkserver.Server) { fillZnodes(b, srv, count) }},
		{"ephemeral", func(b *testing.B, srv *zkserver.Server) { fillEphemerals(b, srv, count) }},
		{"watch", func(b *testing.B, srv *zkserver.Server) { fillWatches(b, srv, count) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			srv := start(b)
			for range 25_000 { // so that the log has its full size before
				srv.Send(1, nil)
			}
			before := liveHeap()
			bench.fill(b, srv)
			b.ReportMetric(float64(liveHeap()-before)/count, "heap-B/"+bench.name)
			b.ReportMetric(0, "ns/op")
			runtime.KeepAlive(srv)
		})
	}
	b.Run("session", func(b *testing.B) {
		const sessions = 500
		srv := start(b, zkserver.WithoutListener())
		before := liveHeap()
		for range sessions {
			nc, err := srv.Dial(b.Context(), "", "")
			require.NoError(b, err)
			_, err = handshake(nc, connection{timeoutMs: 10_000})
			require.NoError(b, err)
			require.NoError(b, nc.Close())
		}
		for srv.Stats().Connections > 0 {
			runtime.Gosched()
		}
		b.ReportMetric(float64(liveHeap()-before)/sessions, "heap-B/session")
		b.ReportMetric(0, "ns/op")
	})
}

func fillZnodes(b *testing.B, srv *zkserver.Server, count int) {
	b.Helper()
	c := rawTo(b, srv, connection{})
	c.must(b, 1, createBody("/parent", "", 0))
	for i := range count {
		c.must(b, 1, createBody(fmt.Sprintf("/parent/node-%010d", i), "some data", 0))
	}
}

func fillEphemerals(b *testing.B, srv *zkserver.Server, count int) {
	b.Helper()
	c := rawTo(b, srv, connection{})
	c.must(b, 1, createBody("/parent", "", 0))
	for range count {
		c.must(b, 1, createBody("/parent/node-", "some data", 3))
	}
}

func fillWatches(b *testing.B, srv *zkserver.Server, count int) {
	b.Helper()
	c := rawTo(b, srv, connection{})
	for i := range count {
		c.watchMissing(b, fmt.Sprintf("/parent/node-%010d", i))
	}
}

// liveHeap is what is left after a collection.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
