// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

// BenchmarkLookUp measures how long a call takes to choose one of a hundred instances.
// TestDiscoveryLookUpCostsNothing asserts that it allocates and sends nothing.
func BenchmarkLookUp(b *testing.B) {
	d := newServices(b, zktest.Client(b, zktest.NewServer(b)))
	var all []string
	for n := range 100 {
		all = append(all, fmt.Sprintf("%03d", n))
		register(b, d, newInstance(all[n]))
	}
	for name, strategy := range map[string]discovery.Strategy{
		"round-robin": discovery.RoundRobin(), "random": discovery.Random(), "sticky": discovery.Sticky(discovery.Random()),
	} {
		b.Run(name, func(b *testing.B) {
			p := newProvider(b, d, discovery.ProviderConfig[string]{Strategy: strategy})
			awaitIDs(b, p, all...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Instance(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// clients returns one client with options and another one, of a new server.
func clients(tb testing.TB, opts ...framework.Option) (client, writer *framework.Framework) {
	tb.Helper()
	server := zktest.NewServer(tb)
	return zktest.Client(tb, server, opts...), zktest.Client(tb, server)
}

// replace replaces all n instances of a generation by those of the next one.
func replace(tb testing.TB, writer *framework.Framework, n, generation int) {
	tb.Helper()
	require.NoError(tb, writer.Mkdirs(zktest.Context(tb), "/services/orders"))
	path := func(generation, i int) string { return fmt.Sprintf("/services/orders/%d-%d", generation, i) }
	const batch = 100
	for begin := 0; begin < n; begin += batch {
		var ops []framework.Op
		for i := begin; i < begin+batch; i++ {
			ops = append(ops, framework.CreateOp(path(generation, i),
				fmt.Appendf(nil, `{"name":"orders","id":"%d-%d","address":"h","port":%d}`, generation, i, 1+i)))
			if generation > 0 {
				ops = append(ops, framework.DeleteOp(path(generation-1, i)))
			}
		}
		must.Get(writer.Transact(zktest.Context(tb), ops...))(tb)
	}
}

// isReplaced reports whether there are the n instances of generation 1.
func isReplaced(all []*instance, n int) bool {
	for _, i := range all {
		if i.ID[0] != '1' {
			return false
		}
	}
	return len(all) == n
}

// BenchmarkReplacement measures when a provider is current after all instances of its service are
// replaced at once, beside a CuratorCache of the same znodes: go test -bench Replacement -benchtime 1x.
func BenchmarkReplacement(b *testing.B) {
	for _, n := range []int{3000, 5000} {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				client, writer := clients(b)
				replace(b, writer, n, 0)
				plain := must.Get(cache.NewCuratorCache(client, "/services/orders"))(b)
				require.NoError(b, plain.Start())
				p := newProvider(b, newServices(b, client), discovery.ProviderConfig[string]{})
				require.NoError(b, plain.Fresh(zktest.Context(b)))
				var before, now runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()

				begin := time.Now()
				replace(b, writer, n, 1)
				require.NoError(b, plain.Fresh(zktest.Context(b)))
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "cache-ms")
				peak := before.HeapAlloc
				for !isReplaced(p.Instances(), n) {
					runtime.ReadMemStats(&now)
					peak = max(peak, now.HeapAlloc)
					time.Sleep(time.Millisecond)
				}
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "provider-ms")
				b.ReportMetric(float64((peak-before.HeapAlloc)>>20), "heap-MB")
				b.StopTimer()
				require.NoError(b, plain.Close())
				b.StartTimer()
			}
		})
	}
}
