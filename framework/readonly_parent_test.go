// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// A server checks the permission to create before it looks for the znode. What is there is
// used all the same, and what is missing is refused.
func TestReadOnlyParentWhatExistsIsUsed(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		admin := zktest.Client(t, server)
		for _, path := range []string{"/team/app/folder/leaf", "/team/app/empty"} {
			require.NoError(t, admin.Mkdirs(t.Context(), path))
		}
		readOnly := framework.ReadACL()
		for _, path := range []string{"/team", "/team/app", "/team/app/folder"} {
			require.NoError(t, admin.SetACL(t.Context(), path, readOnly))
		}
		client := zktest.Client(t, server)
		view := must.Get(client.UsingNamespace("team/app"))(t)
		create := func(path string, opts ...framework.CreateOption) func() error {
			return func() error {
				_, err := client.Create(t.Context(), path, nil, opts...)
				return err
			}
		}
		for _, c := range []struct {
			name string
			do   func() error
			want error
		}{
			{"Mkdirs", func() error { return client.Mkdirs(t.Context(), "/team/app/folder") }, nil},
			{"CreateContainers", func() error { return client.CreateContainers(t.Context(), "/team/app/folder") }, nil},
			{"Mkdirs of a namespace", func() error { return view.Mkdirs(t.Context(), "/") }, nil},
			{"Mkdirs of what is missing", func() error { return client.Mkdirs(t.Context(), "/team/app/new") }, framework.ErrNoAuth},
			{"Exists with parents", func() error {
				_, err := client.Exists(t.Context(), "/team/app/folder/none", framework.CreatingParentsIfNeeded())
				return err
			}, nil},
			{"Create", create("/team/app/folder"), framework.ErrNodeExists},
			{"Create with parents", create("/team/app/folder", framework.CreatingParentsIfNeeded()), framework.ErrNodeExists},
			{"Create of what is missing", create("/team/app/new"), framework.ErrNoAuth},
			{"Idempotent", create("/team/app/folder/leaf", framework.Idempotent()), nil},
			{"OrSetData", create("/team/app/folder/leaf", framework.OrSetData()), nil},
			{"sequential", create("/team/app/s-", framework.WithMode(framework.PersistentSequential)), framework.ErrNoAuth},
		} {
			if err := c.do(); c.want == nil {
				require.NoError(t, err, c.name)
			} else {
				require.ErrorIs(t, err, c.want, c.name)
			}
		}
	})
}
