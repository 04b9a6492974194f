// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// BenchmarkAcquireRelease measures a turn of an uncontended mutex, and the three
// round trips that every client needs for the same queue: create, list, delete.
// "ratio" runs both alternately on one connection and reports the one's time by the
// other's.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, backend := range []struct {
		name    string
		connect func(b *testing.B) string
	}{
		{"zkserver", func(b *testing.B) string { return zktest.NewServer(b).Addr() }},
		{"zookeeper", func(b *testing.B) string { return zktest.NewEnsemble(b, 1).ConnectString() }},
	} {
		b.Run(backend.name, func(b *testing.B) {
			client := zktest.Client(b, backend.connect(b))
			mutex := newMutex(b, client, "/locks/bench")
			must.Get(client.Create(context.Background(), "/raw", nil))(b)
			b.Run("mutex", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					lockedTurn(b, mutex)
				}
			})
			b.Run("raw", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					rawTurn(b, client)
				}
			})
			b.Run("ratio", func(b *testing.B) {
				var locked, raw time.Duration
				for b.Loop() {
					begin := time.Now()
					lockedTurn(b, mutex)
					middle := time.Now()
					rawTurn(b, client)
					locked += middle.Sub(begin)
					raw += time.Since(middle)
				}
				b.ReportMetric(float64(locked)/float64(raw), "ratio")
			})
		})
	}
}

// BenchmarkThroughput has several clients acquire and release a mutex each, on one
// embedded server over loopback, and reports how many turns a second there are in all.
func BenchmarkThroughput(b *testing.B) {
	const clients = 4 // for each core
	server := zktest.NewServer(b)
	mutexes := make(chan *locks.InterProcessMutex, clients*runtime.GOMAXPROCS(0))
	for i := range cap(mutexes) {
		mutexes <- newMutex(b, zktest.Client(b, server), fmt.Sprintf("/locks/%d", i))
	}
	b.SetParallelism(clients)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		mutex := <-mutexes
		for pb.Next() {
			lockedTurn(b, mutex)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}

func lockedTurn(b *testing.B, mutex *locks.InterProcessMutex) {
	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		b.Fatal(err)
	}
}

func rawTurn(b *testing.B, client *framework.Framework) {
	ctx := context.Background()
	path, err := client.Create(ctx, "/raw/node-", nil, framework.WithMode(framework.EphemeralSequential))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.Children(ctx, "/raw"); err != nil {
		b.Fatal(err)
	}
	if err := client.Delete(ctx, path); err != nil {
		b.Fatal(err)
	}
}
