// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

func TestTransactAppliesAll(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.Containers)
		var stat framework.Stat
		results, err := f.Transact(t.Context(),
			framework.CheckOp("/start", 0),
			framework.CreateOp("/a", []byte("data")),
			framework.SetDataOp("/a", []byte("more"), framework.WithVersion(0), framework.StoringStatIn(&stat)),
			framework.CreateOp("/a/s-", nil, framework.WithMode(framework.EphemeralSequential)),
			framework.CreateOp("/c", nil, framework.WithMode(framework.Container)),
			framework.CreateOp("/t", nil, framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(time.Hour)),
			framework.CreateOp("/gone", nil),
			framework.DeleteOp("/gone", framework.WithVersion(0)),
		)
		require.NoError(t, err)
		require.Len(t, results, 8)
		require.Equal(t, framework.OpResult{Path: "/start"}, results[0])
		require.Equal(t, "/a", results[1].Path)
		require.EqualValues(t, 1, results[2].Stat.Version)
		require.Equal(t, stat, *results[2].Stat)
		require.Equal(t, "/a/s-0000000000", results[3].Path)
		require.Equal(t, "/c", results[4].Path)
		require.Equal(t, "/t", results[5].Path)
		require.Equal(t, "/gone", results[6].Path)
		for path, exists := range map[string]bool{"/a": true, "/a/s-0000000000": true, "/c": true, "/t": true, "/gone": false} {
			stat, err := f.Exists(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, exists, stat != nil, path)
		}
	})
}

func TestTransactAppliesNothing(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.Containers)
		create := framework.CreateOp("/a", nil)
		for name, c := range map[string]struct {
			ops  []framework.Op
			path string
			op   string
			err  error
		}{
			"first": {[]framework.Op{framework.CheckOp("/none", framework.AnyVersion), create}, "/none", "check", framework.ErrNoNode},
			"last":  {[]framework.Op{create, framework.DeleteOp("/none")}, "/none", "delete", framework.ErrNoNode},
			"middle": {
				[]framework.Op{create, framework.SetDataOp("/start", nil, framework.WithVersion(9)), framework.DeleteOp("/a")},
				"/start", "set", framework.ErrBadVersion,
			},
			"two fail": {
				[]framework.Op{create, framework.CreateOp("/start", nil), framework.CheckOp("/none", framework.AnyVersion)},
				"/start", "create", framework.ErrNodeExists,
			},
			"container": {
				[]framework.Op{create, framework.CreateOp("/none/c", nil, framework.WithMode(framework.Container))},
				"/none/c", "create", framework.ErrNoNode,
			},
		} {
			results, err := f.Transact(t.Context(), c.ops...)
			require.ErrorIs(t, err, c.err, name)
			require.Nil(t, results, name)
			var op *framework.OpError
			require.ErrorAs(t, err, &op, name)
			require.Equal(t, "transact", op.Op)
			require.Equal(t, c.path, op.Path, name)
			require.Contains(t, err.Error(), c.op, name)
			stat, err := f.Exists(t.Context(), "/a")
			require.NoError(t, err)
			require.Nil(t, stat, "%s: nothing applied", name)
		}
	})
}

func TestTransactRefusesLocally(t *testing.T) {
	f := unstarted(t)
	s := zktest.Client(t, zktest.NewServer(t).Addr()).Session()
	for name, c := range map[string]struct {
		op  framework.Op
		err error
	}{
		"protection": {framework.CreateOp("/a", nil, framework.WithProtection()), framework.ErrInvalidOption},
		"parents":    {framework.CreateOp("/a", nil, framework.CreatingParentsIfNeeded()), framework.ErrInvalidOption},
		"session":    {framework.CreateOp("/a", nil, framework.InSession(s)), framework.ErrInvalidOption},
		"stat":       {framework.CreateOp("/a", nil, framework.StoringStatIn(new(framework.Stat))), framework.ErrInvalidOption},
		"mode":       {framework.CreateOp("/a", nil, framework.WithMode(9)), framework.ErrInvalidOption},
		"guaranteed": {framework.DeleteOp("/a", framework.Guaranteed()), framework.ErrInvalidOption},
		"background": {framework.DeleteOp("/a", framework.InBackground()), framework.ErrInvalidOption},
		"nil stat":   {framework.SetDataOp("/a", nil, framework.StoringStatIn(nil)), framework.ErrInvalidOption},
		"path":       {framework.CheckOp("a", framework.AnyVersion), framework.ErrInvalidPath},
		"root":       {framework.CreateOp("/", nil), framework.ErrInvalidPath},
		"reserved":   {framework.DeleteOp("/zookeeper/quota"), framework.ErrInvalidPath},
	} {
		_, err := f.Transact(t.Context(), framework.CheckOp("/fine", framework.AnyVersion), c.op)
		require.ErrorIs(t, err, c.err, name)
	}
	results, err := f.Transact(t.Context())
	require.NoError(t, err)
	require.Empty(t, results)
}

// TestTransactionOpCanBeUsedAgain: an Op is a value without state.
func TestTransactionOpCanBeUsedAgain(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	create, remove := framework.CreateOp("/a", nil), framework.DeleteOp("/a")
	for range 3 {
		_, err := f.Transact(t.Context(), create, remove)
		require.NoError(t, err)
	}
}
