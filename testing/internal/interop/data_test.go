// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// Both sides agree on which names are protected.
//
// Curator: TestCreate.testProtectedUtils.
func TestDataProtectedNames(t *testing.T) {
	needsJava(t)
	java := actor{startJava(t).Actor("names")}
	id := uuid.NewString()
	for name, want := range map[string]bool{
		"_c_" + id + "-lock-0000000000":                           true,
		"_c_" + id + "-":                                          false,
		"_c_" + id + "-0":                                         true,
		"_c_" + strings.ToUpper(id) + "-lock-0000000000":          true,
		"_c_" + strings.ReplaceAll(id, "-", "") + "-lock-0000000": false, // go-zookeeper's
		"_c_" + id:                   false,
		"_c_" + id + "lock-":         false,
		"_c_short":                   false,
		"_c_-lock-0000000000":        false,
		"_C_" + id + "-lock-":        false,
		"c_" + id + "-lock-":         false,
		id + "-lock-":                false,
		"lock-0000000000":            false,
		"x_c_" + id + "-lock-":       false,
		"_c_" + id[:35] + "g-lock-":  false, // no hexadecimal digit
		"_c_{" + id[1:35] + "}-lock": false,
	} {
		require.Equal(t, want, framework.IsProtectedName(name), "Go: %s", name)
		require.Equal(t, strconv.FormatBool(want), java.do(t, "is-protected", name)[0], "Java: %s", name)
	}
}

// What one side creates has the names, the parents and the data that the other
// expects.
func TestDataCreatedNodes(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server)
		java := newActor(t, server)

		path := java.do(t, "create-protected", "/java/folder/job-", "EPHEMERAL_SEQUENTIAL")[0]
		require.True(t, framework.IsProtectedName(path))
		var stat framework.Stat
		data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
		require.NoError(t, err)
		require.NotNil(t, net.ParseIP(string(data)), "Curator's default data is an address, not %q", data)
		require.NotZero(t, stat.EphemeralOwner)

		path, err = client.Create(ctx, "/go/folder/job-", []byte("from Go"),
			framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
			framework.WithMode(framework.EphemeralSequential), framework.StoringStatIn(&stat))
		require.NoError(t, err)
		_, name := framework.SplitPath(path)
		require.Equal(t, []string{"true", "job-0000000000"}, java.do(t, "is-protected", name))
		require.Equal(t, []string{
			"from Go", "0", strconv.FormatInt(client.Session().ID(), 10), strconv.FormatInt(stat.Czxid, 10),
		}, java.do(t, "get", path))
		require.Equal(t, []string{name}, java.do(t, "children", "/go/folder"))

		// The numbers go on, whoever creates.
		next := java.do(t, "create", "/go/folder/job-", "PERSISTENT_SEQUENTIAL", "from Java")[0]
		require.Equal(t, "/go/folder/job-0000000001", next)
		_, err = client.Create(ctx, next, nil)
		require.ErrorIs(t, err, framework.ErrNodeExists)
	})
}

// The folders that either side makes are containers: they go when they are empty.
func TestDataFoldersAreContainers(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		server = withQuickReaper(t, server)
		client := zktest.Client(t, server.ConnectString())
		java := newActor(t, server)

		path := java.do(t, "create-protected", "/java/folder/job-", "EPHEMERAL_SEQUENTIAL")[0]
		require.NoError(t, client.Delete(zktest.Context(t), path))
		awaitGone(t, client, "/java/folder")
		awaitGone(t, client, "/java")

		path, err := client.Create(zktest.Context(t), "/go/folder/job", nil, framework.CreatingParentContainersIfNeeded())
		require.NoError(t, err)
		java.do(t, "delete", path)
		awaitGone(t, client, "/go/folder")
		awaitGone(t, client, "/go")
	})
}

func awaitGone(t *testing.T, client *framework.Framework, path string) {
	t.Helper()
	for {
		var watch *framework.Watch
		stat, err := client.Exists(zktest.Context(t), path, framework.Watched(&watch))
		require.NoError(t, err)
		if stat == nil {
			watch.Cancel()
			return
		}
		await(t, watch.Fired(), "the end of "+path)
	}
}

func TestDataTransactions(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server)
		java := newActor(t, server)

		java.do(t, "transact",
			"create", "/report", "draft", "set", "/report", "final", "check", "/report", "1",
			"create", "/scratch", "", "delete", "/scratch")
		data, err := client.Get(ctx, "/report")
		require.NoError(t, err)
		require.Equal(t, "final", string(data))

		_, err = client.Transact(ctx,
			framework.CheckOp("/report", 1),
			framework.SetDataOp("/report", []byte("corrected")),
			framework.CreateOp("/archive", []byte("final")))
		require.NoError(t, err)
		require.Equal(t, []string{"corrected", "2"}, java.do(t, "get", "/report")[:2])
		require.Equal(t, "final", java.do(t, "get", "/archive")[0])

		// All or nothing, on either side.
		_, err = client.Transact(ctx, framework.DeleteOp("/archive"), framework.CheckOp("/report", 1))
		require.ErrorIs(t, err, framework.ErrBadVersion)
		_, err = java.Do(ctx, "transact", "delete", "/archive", "check", "/report", "1")
		require.ErrorContains(t, err, "BadVersion")
		require.Equal(t, "final", java.do(t, "get", "/archive")[0])
	})
}
