// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A few bytes at the server can be many in memory: what exceeds the limit is left out, and
// comes back when it is shorter, or when it changes after another znode has become shorter.
func TestInflatedDecompressedDataIsBoundedInAll(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	bomb := bytes.Repeat([]byte{0}, 100<<10)
	set := func(i int, data []byte) {
		require.NoError(t, client.Set(t.Context(), fmt.Sprintf("/tree/%d", i), data, framework.Compressed()))
	}
	for i := range 20 {
		must.Get(client.Create(t.Context(), fmt.Sprintf("/tree/%d", i), bomb, framework.Compressed(), framework.CreatingParentsIfNeeded()))(t)
	}
	c := started(t, client, "/tree", cache.CompressedData(), cache.WithMaxDecompressedSize(1<<20))
	fresh := func() (bytes, paths int) {
		require.NoError(t, c.Fresh(t.Context()))
		for _, data := range c.Stream() {
			bytes += len(data.Data)
			paths++
		}
		return bytes, paths
	}
	total, paths := fresh()
	require.Equal(t, 10*len(bomb), total, "one more would not fit")
	require.Equal(t, 11, paths, "these and the root")

	for i := range 20 {
		set(i, []byte("short"))
	}
	total, paths = fresh()
	require.Equal(t, 20*len("short"), total)
	require.Equal(t, 21, paths)

	for i := range 20 {
		set(i, bomb)
	}
	total, _ = fresh()
	require.Equal(t, 10*len(bomb), total)
	for i := range 20 {
		require.NoError(t, client.Delete(t.Context(), fmt.Sprintf("/tree/%d", i)))
	}
	must.Get(client.Create(t.Context(), "/tree/next", bomb, framework.Compressed()))(t)
	total, _ = fresh()
	require.Equal(t, len(bomb), total, "what is gone does not count")

	_, err := cache.NewCuratorCache(client, "/tree", cache.WithMaxDecompressedSize(0))
	require.ErrorContains(t, err, "expected 1 or more")
}

// Without data nothing is kept, so nothing is left out.
func TestInflatedStorageWithoutDataHasNoLimitForDecompressedData(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for i := range 20 {
		must.Get(client.Create(t.Context(), fmt.Sprintf("/tree/%d", i), make([]byte, 1000), framework.Compressed(), framework.CreatingParentsIfNeeded()))(t)
	}
	c := started(t, client, "/tree", cache.CompressedData(), cache.WithMaxDecompressedSize(1000), cache.WithStorage(cache.NewStorageWithoutData()))
	require.NoError(t, c.Fresh(t.Context()))
	require.Equal(t, 21, c.Size())
}

// Data that cannot be decompressed is replaced while the list after it is under way, whose Stat is of the new data.
func TestInflatedDataThatReplacesBadDataIsRead(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion(old)) // the first fill lists each znode together with its data
	client, writer := zktest.Client(t, server), zktest.Client(t, server)
	create(t, writer, "/tree/a", "not compressed")
	asked, written := make(chan struct{}, 10), make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Path != "/tree/a" || r.Op != zkserver.OpGetChildren2 {
			return zkserver.Pass
		}
		asked <- struct{}{}
		return zkserver.HoldUntil(written)
	})
	c := newCache(t, client, "/tree", cache.CompressedData())
	require.NoError(t, c.Start())
	zktest.Await(t, asked, "the list")
	require.NoError(t, writer.Set(t.Context(), "/tree/a", []byte("good"), framework.Compressed()))
	close(written)

	fresh(t, c)
	require.Equal(t, map[string]string{"/tree": "", "/tree/a": "good"}, picture(c))
}
