// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zktest"
)

// memoryInUse returns the bytes on the heap that are in use.
func memoryInUse() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second one
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// A znode of 100 bytes takes one piece of memory, and a place in the table of its folder.
func TestStorageMemory(t *testing.T) {
	const folders, leaves = 100, 1000
	before := memoryInUse()
	s := cache.NewStandardStorage()
	for folder := range folders {
		for leaf := range leaves {
			zxid := int64(1)<<32 + int64(folder*leaves+leaf)
			s.Put(&cache.ChildData{
				Path: fmt.Sprintf("/services/folder-%03d/node-%06d", folder, leaf),
				Stat: framework.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: 1_800_000_000_000, Mtime: 1_800_000_000_000, DataLength: 100},
				Data: make([]byte, 100),
			})
		}
	}
	perNode := (memoryInUse() - before) / float64(s.Size())
	require.Less(t, perNode, 175.0, "bytes for each znode")
	runtime.KeepAlive(s)
}

// Besides its storage a cache keeps nothing for a znode.
func TestStorageMemoryOfACache(t *testing.T) {
	const folders, leaves = 10, 500
	server := zktest.NewServer(t)
	client, writer := zktest.Client(t, server), zktest.Client(t, server)
	plant(t, writer, folders, leaves, make([]byte, 100))
	c := started(t, client, "/tree")
	nodes, full := c.Size(), memoryInUse()
	require.NoError(t, c.Close())
	require.Less(t, (full-memoryInUse())/float64(nodes), 220.0, "bytes for each znode")
	runtime.KeepAlive(c)
}

// A storage does what a map does, whatever the paths and the Stats, and while it grows and
// shrinks.
func TestStorageIsAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := cache.NewStandardStorage()
	want := map[string]*cache.ChildData{}
	for i := range 6000 {
		path := randomPath(rng)
		// It grows for a while, and then shrinks.
		if rng.IntN(10) < 3+4*(i/2000%2) {
			require.Equal(t, want[path], s.Remove(path))
			delete(want, path)
		} else {
			data := randomData(rng, path)
			require.Equal(t, want[path], s.Put(data))
			want[path] = data
		}
		other := randomPath(rng)
		got, found := s.Get(other)
		require.Equal(t, want[other], got)
		require.Equal(t, want[other] != nil, found)
		require.Equal(t, len(want), s.Size())
		if i%500 == 0 {
			requireStreams(t, want, s)
		}
	}
	for path, data := range want {
		require.Equal(t, data, s.Remove(path))
	}
	require.Zero(t, s.Size())
	requireStreams(t, nil, s)
}

func requireStreams(t *testing.T, want map[string]*cache.ChildData, s cache.CuratorCacheStorage) {
	t.Helper()
	seen := map[string]bool{}
	for data := range s.Stream() {
		require.False(t, seen[data.Path], "%s twice", data.Path)
		require.Equal(t, want[data.Path], data)
		seen[data.Path] = true
	}
	require.Len(t, seen, len(want))
}

// randomPath returns one of the root, paths with several levels, and paths that are none.
func randomPath(rng *rand.Rand) string {
	switch rng.IntN(20) {
	case 0:
		return []string{"/", "", "a", "//", "/a/"}[rng.IntN(5)]
	case 1:
		return fmt.Sprintf("/%d", rng.IntN(10))
	default:
		return fmt.Sprintf("/%d/%d", rng.IntN(3), rng.IntN(500))
	}
}

// randomData returns a state with extreme fields.
func randomData(rng *rand.Rand, path string) *cache.ChildData {
	long := func() int64 {
		return []int64{0, 1, -1, rng.Int64(), math.MaxInt64, math.MinInt64}[rng.IntN(6)]
	}
	short := func() int32 {
		return []int32{0, 1, -1, rng.Int32(), math.MaxInt32, math.MinInt32}[rng.IntN(6)]
	}
	return &cache.ChildData{
		Path: path,
		Stat: framework.Stat{
			Czxid: long(), Mzxid: long(), Pzxid: long(), Ctime: long(), Mtime: long(), EphemeralOwner: long(),
			Version: short(), Cversion: short(), Aversion: short(), NumChildren: short(), DataLength: short(),
		},
		Data: slices.Clone([][]byte{nil, {}, {0}, make([]byte, 1<<rng.IntN(12))}[rng.IntN(4)]),
	}
}

// A folder without children takes no memory, however many there have been.
func TestStorageEmptyFoldersAreForgotten(t *testing.T) {
	s := cache.NewStandardStorage()
	before := memoryInUse()
	for i := range 20_000 {
		path := fmt.Sprintf("/jobs/%d/task", i)
		s.Put(&cache.ChildData{Path: path})
		s.Remove(path)
	}
	require.Less(t, memoryInUse()-before, float64(256<<10))
	runtime.KeepAlive(s)
}
