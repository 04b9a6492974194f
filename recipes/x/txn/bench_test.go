// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// BenchmarkOneFolder has clients that each change a znode of their own in one folder, at 2 ms a request.
func BenchmarkOneFolder(b *testing.B) {
	for _, clients := range []int{1, 2, 16, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchmarkOneFolder(b, clients) })
		b.Run(fmt.Sprintf("clients=%d/versions-only", clients), func(b *testing.B) { benchmarkOneFolder(b, clients, txn.VersionsOnly()) })
	}
}

func benchmarkOneFolder(b *testing.B, clients int, opts ...txn.Option) {
	server := zktest.NewServer(b)
	all := make([]*framework.Framework, clients)
	for i := range all {
		all[i] = zktest.Client(b, server)
		must.Get(all[i].Create(b.Context(), fmt.Sprintf("/d/%d", i), nil, framework.CreatingParentsIfNeeded()))(b)
	}
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpPing {
			return zkserver.Pass
		}
		return zkserver.Delay(2 * time.Millisecond)
	})
	var left, longest atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, client := range all {
		path := fmt.Sprintf("/d/%d", i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				if err := txn.Do(b.Context(), client, func(tx *txn.Tx) error {
					data, err := tx.Get(path)
					if err != nil {
						return err
					}
					return tx.Set(path, append(data[:0], 'x'))
				}, opts...); err != nil {
					b.Error(err)
				}
				for took := int64(time.Since(began)); ; {
					if before := longest.Load(); took <= before || longest.CompareAndSwap(before, took) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "txn/s")
	b.ReportMetric(float64(longest.Load())/1e6, "longest-ms")
}
