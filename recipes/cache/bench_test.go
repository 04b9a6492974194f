// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// benchNodes and benchFolders are the size of the tree that is read in the benchmarks; a znode
// has 100 bytes.
const (
	benchNodes   = 60_000 // more do not fit into the heap that tests give to ZooKeeper
	benchFolders = 100
)

// benchTree makes the tree and returns its paths, folders first.
func benchTree(b *testing.B, client *framework.Framework) []string {
	b.Helper()
	paths := []string{"/tree"}
	for i := range benchFolders {
		paths = append(paths, fmt.Sprintf("/tree/folder-%03d", i))
	}
	for i := range benchNodes - benchFolders {
		paths = append(paths, fmt.Sprintf("/tree/folder-%03d/node-%06d", i%benchFolders, i))
	}
	const perTransaction = 1000
	for begin := 0; begin < len(paths); begin += perTransaction {
		var ops []framework.Op
		for _, path := range paths[begin:min(begin+perTransaction, len(paths))] {
			ops = append(ops, framework.CreateOp(path, make([]byte, 100)))
		}
		must.Get(client.Transact(context.Background(), ops...))(b)
	}
	return paths
}

// BenchmarkFill fills a cache, beside reads of the same paths in the same window with nothing
// kept.
func BenchmarkFill(b *testing.B) {
	b.Run("zkserver", func(b *testing.B) { benchFill(b, zktest.Client(b, zktest.NewServer(b))) })
	b.Run("zookeeper", func(b *testing.B) { benchFill(b, zktest.Client(b, zktest.NewEnsemble(b, 1))) })
}

func benchFill(b *testing.B, client *framework.Framework) {
	b.Helper()
	paths := benchTree(b, client)

	b.Run("cache", func(b *testing.B) {
		for b.Loop() {
			c := newCache(b, client, "/tree")
			start(b, c)
			require.Equal(b, len(paths), c.Size())
			require.NoError(b, c.Close())
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			readAll(b, client, paths)
		}
	})
	b.Run("memory", func(b *testing.B) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			c := newCache(b, client, "/tree")
			start(b, c)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(paths)), "B/node")
			require.NoError(b, c.Close())
		}
	})
	b.Run("refill", func(b *testing.B) {
		c := newCache(b, client, "/tree")
		start(b, c)
		for b.Loop() {
			zktest.KillSession(b, client)
			fresh(b, c)
		}
		require.NoError(b, c.Close())
	})
}

// readAll reads the data of all paths, three writes of 64 requests at a time.
func readAll(b *testing.B, client *framework.Framework, paths []string) {
	b.Helper()
	const window = 64
	window3 := make(chan struct{}, 3)
	errs := make(chan error, len(paths)/window+1)
	n := 0
	for begin := 0; begin < len(paths); begin += window {
		part := paths[begin:min(begin+window, len(paths))]
		window3 <- struct{}{}
		n++
		go func() {
			defer func() { <-window3 }()
			data := make([][]byte, len(part))
			stats := make([]framework.Stat, len(part))
			reads := make([]framework.Read, len(part))
			for i, path := range part {
				reads[i] = framework.ReadData(path, &data[i], framework.StoringStatIn(&stats[i]))
			}
			errs <- client.Pipeline(context.Background(), reads...)
		}()
	}
	for range n {
		require.NoError(b, <-errs)
	}
}
