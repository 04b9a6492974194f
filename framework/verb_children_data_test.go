// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

func TestChildrenData(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		must.Get(client.Create(t.Context(), "/folder", nil, framework.CreatingParentsIfNeeded()))(t)
		all := must.Get(client.ChildrenData(t.Context(), "/folder", nil))(t)
		require.Empty(t, all)
		for _, name := range []string{"b", "a", "c"} {
			must.Get(client.Create(t.Context(), "/folder/"+name, []byte("data of "+name)))(t)
		}

		all = must.Get(client.ChildrenData(t.Context(), "/folder", nil))(t)
		var seen []string
		for _, child := range all {
			require.Equal(t, *must.Get(client.Exists(t.Context(), "/folder/"+child.Name))(t), child.Stat)
			seen = append(seen, child.Name+"="+string(child.Data))
		}
		require.Equal(t, []string{"a=data of a", "b=data of b", "c=data of c"}, seen)

		some := must.Get(client.ChildrenData(t.Context(), "/folder", func(names []string) []string {
			slices.Reverse(names)
			return names[:2]
		}))(t)
		require.Equal(t, []framework.Child{all[2], all[1]}, some)

		_, err := client.ChildrenData(t.Context(), "/none", nil)
		require.ErrorIs(t, err, framework.ErrNoNode)
		for _, name := range []string{"x/y", "", ".."} {
			_, err = client.ChildrenData(t.Context(), "/folder", func([]string) []string { return []string{name} })
			require.ErrorContains(t, err, "/folder", name)
		}
	})
}

// TestChildrenDataInParts: each part is one write, and what vanishes after the list is left out.
func TestChildrenDataInParts(t *testing.T) {
	const n = 2500
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	require.NoError(t, other.Mkdirs(t.Context(), "/folder"))
	ops := make([]framework.Op, n)
	for i := range ops {
		ops[i] = framework.CreateOp(fmt.Sprintf("/folder/%05d", i), nil)
	}
	must.Get(other.Bulk(t.Context(), ops))(t)
	deleted := false
	all := must.Get(client.ChildrenData(t.Context(), "/folder", func(names []string) []string {
		require.Len(t, names, n)
		require.NoError(t, other.Delete(t.Context(), "/folder/01024"))
		deleted = true
		return names
	}))(t)
	require.True(t, deleted)
	require.Len(t, all, n-1)
	require.False(t, slices.ContainsFunc(all, func(c framework.Child) bool { return c.Name == "01024" }))
}
