// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/migration"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMigrationOfEveryOperation(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.Containers, ensemble.TTLNodes)
		client := zktest.Client(t, server)
		create := migration.Create
		acl := zk.WorldACL(zk.PermRead | zk.PermDelete)
		s := migration.Set{ID: "app", MetadataPath: "/meta/app", Migrations: []migration.Migration{
			{
				create("/app", []byte("1")),
				create("/app/container", nil).WithMode(framework.Container),
				create("/app/temporary", nil).WithMode(framework.PersistentWithTTL).WithTTL(time.Hour),
				create("/app/item-", nil).WithMode(framework.PersistentSequential),
				create("/app/short-", nil).WithMode(framework.PersistentSequentialWithTTL).WithTTL(time.Hour),
				create("/app/closed", nil).WithACL(acl...),
				create("/app/small", []byte("text")).Compressed(),
			},
			{
				migration.Check("/app", 0),
				migration.SetData("/app", []byte("2")).WithVersion(0),
				migration.SetData("/app/small", []byte("more")).Compressed(),
				migration.Check("/app", 1),
				migration.Check("/app/small", framework.AnyVersion),
				migration.Delete("/app/container").WithVersion(0),
			},
		}}
		m := newManager(t, client)
		first := s
		first.Migrations = s.Migrations[:1]
		require.NoError(t, m.Migrate(zktest.Context(t), first))
		names := must.Get(client.Children(zktest.Context(t), "/app"))(t)
		require.ElementsMatch(t, []string{"container", "temporary", "item-0000000002", "short-0000000003", "closed", "small"}, names)
		require.Equal(t, acl, must.Get(client.GetACL(zktest.Context(t), "/app/closed"))(t))

		for range 2 {
			require.NoError(t, m.Migrate(zktest.Context(t), s))
		}
		data := must.Get(client.Get(zktest.Context(t), "/app"))(t)
		require.Equal(t, "2", string(data))
		data = must.Get(client.Get(zktest.Context(t), "/app/small", framework.Decompressed()))(t)
		require.Equal(t, "more", string(data))
		must.Get(client.Exists(zktest.Context(t), "/app/container"))(t)
	})
}

func TestMigrationMakesZnodesThatTheServerDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		s := migration.Set{ID: "app", MetadataPath: "/meta/app", Migrations: []migration.Migration{{
			migration.Create("/container", nil).WithMode(framework.Container),
			migration.Create("/container/child", nil).WithMode(framework.PersistentWithTTL).WithTTL(24 * time.Hour),
		}}}
		require.NoError(t, newManager(t, client).Migrate(zktest.Context(t), s))
		time.Sleep(23 * time.Hour)
		stat := must.Get(client.Exists(zktest.Context(t), "/container/child"))(t)
		require.NotNil(t, stat)
		time.Sleep(2 * time.Hour)
		stat = must.Get(client.Exists(zktest.Context(t), "/container"))(t)
		require.Nil(t, stat)
	})
}

// A version that differs is no other set that has run in between, after which Migrate would look again.
func TestMigrationWhoseVersionDiffersIsNotApplied(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		m := newManager(t, client)
		require.NoError(t, m.Migrate(zktest.Context(t), set(1)))
		for name, o := range map[string]migration.Operation{
			"check":  migration.Check("/app/config", 7),
			"set":    migration.SetData("/app/config", nil).WithVersion(7),
			"delete": migration.Delete("/app/config").WithVersion(7),
		} {
			s := set(1)
			s.Migrations = append(s.Migrations, migration.Migration{migration.Create("/app/x", nil), o})
			err := m.Migrate(zktest.Context(t), s)
			require.ErrorIs(t, err, framework.ErrBadVersion, name)
			require.ErrorContains(t, err, "/app/config", name)
			require.Equal(t, "config=1 after 1", state(t, client), name)
		}
	})
}

func TestMigrationSettingsAreHashed(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	m := newManager(t, client)
	s := migration.Set{ID: "app", MetadataPath: "/meta/app"}
	run := func(o ...migration.Operation) error {
		s.Migrations = []migration.Migration{o}
		return m.Migrate(zktest.Context(t), s)
	}
	plain := migration.Create("/app", nil)
	require.NoError(t, run(plain, migration.SetData("/app", nil)))
	require.NoError(t, run(plain.WithMode(framework.Persistent), migration.SetData("/app", nil).WithVersion(framework.AnyVersion)), "the defaults")
	for name, o := range map[string]migration.Migration{
		"mode":    {plain.WithMode(framework.Container), migration.SetData("/app", nil)},
		"ttl":     {plain.WithMode(framework.PersistentWithTTL).WithTTL(time.Hour), migration.SetData("/app", nil)},
		"acl":     {plain.WithACL(zk.WorldACL(zk.PermAll)...), migration.SetData("/app", nil)},
		"codec":   {plain.Compressed(), migration.SetData("/app", nil)},
		"version": {plain, migration.SetData("/app", nil).WithVersion(0)},
	} {
		require.ErrorIs(t, run(o...), migration.ErrChanged, name)
	}
	require.NoError(t, client.Delete(t.Context(), "/app"))
	hashes := map[string]bool{}
	for i, o := range []migration.Operation{
		plain.WithMode(framework.PersistentWithTTL).WithTTL(time.Hour), plain.WithMode(framework.PersistentWithTTL).WithTTL(time.Minute),
		plain.WithACL(zk.WorldACL(zk.PermRead)...), plain.WithACL(zk.DigestACL(zk.PermRead, "a", "b")...),
	} {
		s.ID = string(rune('a' + i))
		s.MetadataPath = "/meta/" + s.ID
		require.NoError(t, run(o, migration.Delete("/app")))
		data := must.Get(client.Get(zktest.Context(t), s.MetadataPath+"/meta-0000000000"))(t)
		hashes[string(data)] = true
	}
	require.Len(t, hashes, 4)
}

func TestMigrationBadOperations(t *testing.T) {
	server := zktest.NewServer(t)
	m := newManager(t, zktest.Client(t, server))
	var sent atomic.Int32
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpPing {
			sent.Add(1)
		}
		return zkserver.Pass
	})
	for want, o := range map[string]migration.Operation{
		"the zero Operation, expected one of Create, SetData, Delete or Check": {},
		"WithMode(1), expected a mode of a znode that outlives its session":    migration.Create("/a", nil).WithMode(framework.Ephemeral),
		"WithMode(9), expected a mode":                                         migration.Create("/a", nil).WithMode(9),
		"mode 5 with a time to live of 0s, expected WithTTL":                   migration.Create("/a", nil).WithMode(framework.PersistentWithTTL),
		"time to live of 999µs, expected WithTTL of 1ms":                       migration.Create("/a", nil).WithMode(framework.PersistentWithTTL).WithTTL(time.Millisecond - time.Microsecond),
		"time to live of 400000h0m0s, expected":                                migration.Create("/a", nil).WithMode(framework.PersistentWithTTL).WithTTL(400_000 * time.Hour),
		"mode 0 with a time to live of 1s, expected WithTTL":                   migration.Create("/a", nil).WithTTL(time.Second),
		"WithACL(), expected one entry or more":                                migration.Create("/a", nil).WithACL(),
		"WithMode of a set, expected of a create":                              migration.SetData("/a", nil).WithMode(framework.Container),
		"WithVersion of a create, expected of a set or a delete":               migration.Create("/a", nil).WithVersion(1),
		"Compressed of a check, expected of a create or a set":                 migration.Check("/a", 1).Compressed(),
	} {
		s := set(1)
		s.Migrations[0] = migration.Migration{o}
		err := m.Migrate(zktest.Context(t), s)
		require.ErrorIs(t, err, framework.ErrInvalidOption, want)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "operation 0 of migration 0")
		require.Zero(t, sent.Load(), want)
	}
	s := set(1) // a sequential znode is not the folder of what its path is a prefix of
	s.Migrations[0] = migration.Migration{migration.Create("/meta", nil).WithMode(framework.PersistentSequential), migration.Create("/", nil).WithMode(framework.PersistentSequential)}
	require.NoError(t, m.Migrate(zktest.Context(t), s))
}
