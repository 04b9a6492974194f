// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/testing/zktest"
)

// A folder finds its znodes in a cache of any part of the tree, and goes from level to level.
func TestCachedOfAPartOfATree(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for _, path := range []string{
		"/services/search/nodes/1/below", "/services/search/nodes/2", "/services/search/other/3", "/services/mail/nodes/1", "/services/empty",
		"/elsewhere/search/nodes/1",
	} {
		must.Get(client.Create(t.Context(), path, []byte(`{}`), framework.CreatingParentsIfNeeded()))(t)
		require.NoError(t, client.Set(t.Context(), path, []byte(`{}`)))
	}
	require.NoError(t, client.Set(t.Context(), "/services/search/nodes/1", []byte(`{}`)))
	folder := must.Get(typed.NewFolder(client, "/services/{service}/nodes/{id}", typed.JSON[service]()))(t)
	all := [][]string{{"search", "1"}, {"search", "2"}, {"mail", "1"}}
	for _, test := range []struct {
		root string
		opts []cache.Option
		want [][]string
	}{
		{"/", nil, all},
		{"/services", nil, all},
		{"/services", []cache.Option{cache.WithMaxDepth(3)}, all},
		{"/services", []cache.Option{cache.WithMaxDepth(2)}, nil},
		{"/services/search", nil, all[:2]},
		{"/services/search/nodes", []cache.Option{cache.WithChildrenOnly()}, all[:2]},
		{"/services/search/nodes/1", []cache.Option{cache.SingleNodeCache()}, all[:1]},
		{"/services/search/nodes/9", nil, nil},
		{"/services/search/nodes/1/below", nil, nil},
		{"/services/search/other", nil, nil},
		{"/elsewhere", nil, nil},
	} {
		c := must.Get(cache.NewCuratorCache(client, test.root, test.opts...))(t)
		require.NoError(t, c.Start())
		require.NoError(t, c.Fresh(t.Context()))
		var got [][]string
		for node, err := range folder.Cached(c) {
			require.NoError(t, err, test.root)
			got = append(got, node.Parameters)
		}
		require.ElementsMatch(t, test.want, got, test.root)
		for _, err := range folder.Cached(c) { // a loop may end early
			require.NoError(t, err)
			break
		}
		require.NoError(t, c.Close())
	}
}
