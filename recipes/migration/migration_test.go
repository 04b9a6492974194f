// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/migration"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func newManager(tb testing.TB, client *framework.Framework) *migration.Manager {
	tb.Helper()
	m := must.Get(migration.NewManager(client, "/locks"))(tb)
	return m
}

// set is a set of as many releases.
func set(releases int) migration.Set {
	return migration.Set{ID: "app", MetadataPath: "/meta/app", Migrations: []migration.Migration{
		{migration.Create("/app", nil), migration.Create("/app/config", []byte("1"))},
		{migration.SetData("/app/config", []byte("2"))},
		{migration.Delete("/app/config"), migration.Create("/app/settings", []byte("3"))},
	}[:releases]}
}

// state is the data below /app, and how many migrations are recorded.
func state(tb testing.TB, client *framework.Framework) string {
	tb.Helper()
	names, err := client.Children(zktest.Context(tb), "/app")
	if errors.Is(err, framework.ErrNoNode) {
		return "none"
	}
	require.NoError(tb, err)
	var out []string
	for _, name := range names {
		data := must.Get(client.Get(zktest.Context(tb), "/app/"+name))(tb)
		out = append(out, name+"="+string(data))
	}
	ran := must.Get(client.Children(zktest.Context(tb), "/meta/app"))(tb)
	return strings.Join(out, ",") + fmt.Sprintf(" after %d", len(ran))
}

func TestMigrationEachReleaseAppliesWhatIsNew(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		m := newManager(t, client)
		for releases, want := range []string{"config=1 after 1", "config=2 after 2", "settings=3 after 3"} {
			for range 2 {
				require.NoError(t, m.Migrate(zktest.Context(t), set(releases+1)))
				require.Equal(t, want, state(t, client))
			}
		}
		data := must.Get(client.Get(zktest.Context(t), "/meta/app/meta-0000000002"))(t)
		require.Len(t, data, 32, "a SHA-256 in a znode that is named as Curator names it")
		err := m.Migrate(zktest.Context(t), set(2))
		require.ErrorIs(t, err, migration.ErrChanged)
		require.ErrorContains(t, err, "3 migrations have run, expected at most the 2 of this set")
	})
}

func TestMigrationReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	server := zktest.NewServer(t)
	ended := make(chan error, 5)
	for range cap(ended) {
		m := newManager(t, zktest.Client(t, server))
		go func() { ended <- m.Migrate(zktest.Context(t), set(3)) }()
	}
	for range cap(ended) {
		require.NoError(t, zktest.Await(t, ended, "a replica"))
	}
	require.Equal(t, "settings=3 after 3", state(t, zktest.Client(t, server)))
}

func TestMigrationThatHasRunMustNotChange(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	m := newManager(t, client)
	require.NoError(t, m.Migrate(zktest.Context(t), set(1)))
	for name, changed := range map[string]migration.Migration{
		"data":                                {migration.Create("/app", nil), migration.Create("/app/config", []byte("x"))},
		"path":                                {migration.Create("/app", nil), migration.Create("/app/confi", []byte("g1"))},
		"kind":                                {migration.Create("/app", nil), migration.SetData("/app/config", []byte("1"))},
		"order":                               {migration.Create("/app/config", []byte("1")), migration.Create("/app", nil)},
		"an operation less":                   {migration.Create("/app", nil)},
		"an operation in the data of another": {migration.Create("/app", []byte("create/app/config1"))},
	} {
		s := set(2)
		s.Migrations[0] = changed
		err := m.Migrate(zktest.Context(t), s)
		require.ErrorIs(t, err, migration.ErrChanged, name)
		require.ErrorContains(t, err, "migration 0", name)
	}
	require.Equal(t, "config=1 after 1", state(t, client))
	require.NoError(t, m.Migrate(zktest.Context(t), set(2)))
	s := set(3)
	s.Migrations[0] = migration.Migration{migration.Create("/app", []byte("x"))}
	require.ErrorContains(t, m.Migrate(zktest.Context(t), s), "migration 0 has another hash", "the later one is the same")
}

// TestMigrationsOfANewServerMayBeLargerThanARequest: each of them has run alone, where it was a release.
func TestMigrationsOfANewServerMayBeLargerThanARequest(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		s := set(1)
		for i := range 7 {
			s.Migrations = append(s.Migrations, migration.Migration{migration.Create(fmt.Sprint("/app/", i), make([]byte, 600_000))})
		}
		require.NoError(t, newManager(t, client).Migrate(zktest.Context(t), s))
		require.Len(t, must.Get(client.Children(zktest.Context(t), "/app"))(t), 8)

		s.Migrations = append(s.Migrations, migration.Migration{migration.Create("/app/long", make([]byte, 2<<20))})
		require.ErrorIs(t, newManager(t, client).Migrate(zktest.Context(t), s), framework.ErrTooLarge)
	})
}

// duringTheTransaction calls fn when the server gets the first transaction, before it is applied. It returns how
// many came.
func duringTheTransaction(t *testing.T, server *zkserver.Server, fn func() error) (transactions *atomic.Int32) {
	t.Helper()
	transactions = new(atomic.Int32)
	ended, release := make(chan error, 1), make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpMulti || transactions.Add(1) > 1 {
			return zkserver.Pass
		}
		go func() {
			defer close(release)
			ended <- fn()
		}()
		return zkserver.HoldUntil(release)
	})
	t.Cleanup(func() { require.NoError(t, <-ended) })
	return transactions
}

// TestMigrationSetsOfOneMetadataPathExcludeEachOther: they have different locks.
func TestMigrationSetsOfOneMetadataPathExcludeEachOther(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	manager, ctx := newManager(t, other), zktest.Context(t)
	duringTheTransaction(t, server, func() error {
		return manager.Migrate(ctx, migration.Set{
			ID: "copied", MetadataPath: "/meta/app", Migrations: []migration.Migration{{migration.Create("/copied", nil)}},
		})
	})
	require.ErrorIs(t, newManager(t, client).Migrate(zktest.Context(t), set(3)), migration.ErrChanged)
	require.Equal(t, "none", state(t, client))
}

// TestMigrationIsNotAppliedWithoutTheLock: the node of the lock is deleted before the transaction.
func TestMigrationIsNotAppliedWithoutTheLock(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	ctx := zktest.Context(t)
	transactions := duringTheTransaction(t, server, func() error { return other.DeleteChildren(ctx, "/locks/app/leases") })
	require.NoError(t, newManager(t, client).Migrate(zktest.Context(t), set(1)))
	require.EqualValues(t, 2, transactions.Load())
	require.Equal(t, "config=1 after 1", state(t, client))
}

// TestMigrationPathsThatOnlyBeginAlike are different paths.
func TestMigrationPathsThatOnlyBeginAlike(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	s := set(1)
	s.MetadataPath = "/app-migrations"
	require.NoError(t, must.Get(migration.NewManager(client, "/app-locks"))(t).Migrate(zktest.Context(t), s))
}

func TestMigrationSetThatFailsAppliesNothing(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	m := newManager(t, client)
	s := set(3)
	s.Migrations[2] = migration.Migration{migration.Delete("/app/none")}

	err := m.Migrate(zktest.Context(t), s)

	require.ErrorIs(t, err, framework.ErrNoNode)
	require.ErrorContains(t, err, "/app/none")
	require.Equal(t, "none", state(t, client))
	require.NoError(t, m.Migrate(zktest.Context(t), set(3)), "it is mended, and runs whole")
}

// TestMigrationLostReplyIsSettled: the lock is held, so the records tell whether the transaction was applied.
func TestMigrationLostReplyIsSettled(t *testing.T) {
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server, framework.WithErrorPolicy(policy))
			lost := false
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpMulti && !lost {
					lost = true
					return fault
				}
				return zkserver.Pass
			})
			require.NoError(t, newManager(t, client).Migrate(zktest.Context(t), set(2)))
			require.True(t, lost)
			require.Equal(t, "config=2 after 2", state(t, client))
		}
	}
}

func TestMigrationBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	_, err := migration.NewManager(nil, "/locks")
	require.ErrorContains(t, err, "client nil")
	_, err = migration.NewManager(client, "locks")
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	m := newManager(t, client)
	for want, change := range map[string]func(*migration.Set){
		`ID "a/b", expected a name`:                    func(s *migration.Set) { s.ID = "a/b" },
		`ID "", expected a name`:                       func(s *migration.Set) { s.ID = "" },
		"metadata path":                                func(s *migration.Set) { s.MetadataPath = "x" },
		"no migrations, expected":                      func(s *migration.Set) { s.Migrations = nil },
		"operation 0 of migration 1: invalid":          func(s *migration.Set) { s.Migrations[1] = migration.Migration{{}} },
		"operation 0 of migration 1: ":                 func(s *migration.Set) { s.Migrations[1] = migration.Migration{migration.Delete("y")} },
		"the path belongs to something else":           func(s *migration.Set) { s.MetadataPath = "/taken" },
		"the lock is at /locks/app":                    func(s *migration.Set) { s.MetadataPath = "/locks" },
		"operation 0 of migration 1 is on /app/config": func(s *migration.Set) { s.Migrations[0], s.MetadataPath = nil, "/app/config" },
		"operation 0 of migration 0 is on /app":        func(s *migration.Set) { s.MetadataPath = "/" },
		"is a create of /app, expected a metadata":     func(s *migration.Set) { s.MetadataPath = "/app/migrations" },
		"is a delete of /app, expected a metadata": func(s *migration.Set) {
			s.Migrations, s.MetadataPath = []migration.Migration{{migration.Delete("/app")}}, "/app/migrations"
		},
	} {
		must.Get(client.Create(zktest.Context(t), "/taken/x", nil, framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
		s := set(2)
		change(&s)
		require.ErrorContains(t, m.Migrate(zktest.Context(t), s), want)
	}
	require.ErrorIs(t, m.Migrate(nilContext, set(1)), framework.ErrInvalidOption)
	require.Equal(t, "none", state(t, client))

	below := must.Get(migration.NewManager(client, "/app/locks"))(t)
	require.ErrorContains(t, below.Migrate(zktest.Context(t), set(1)), "operation 0 of migration 0 is a create of /app, which the lock is below")
}

var nilContext context.Context

// TestMigrationHardships migrates where life is hard.
func TestMigrationHardships(t *testing.T) { hardship.Run(t, migrationCalls, nil) }

// TestMigrationHardshipsAtEveryRequest migrates with every fate of every request.
func TestMigrationHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, migrationCalls) }

func TestMigrationHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, migrationCalls, nil) }

var migrationCalls = []hardship.Call{
	{
		Name: "Migrate", Of: []string{"Manager.Migrate"}, Requests: 19, May: framework.OutcomeUnknown,
		Prepare: migrating(func(path string) migration.Migration {
			return migration.Migration{migration.SetData(path, []byte("1")), migration.Create(path+"/item", nil)}
		}),
	},
	{
		Name: "Migrate, every operation", Of: []string{"Manager.Migrate"}, Requests: 19, May: framework.OutcomeUnknown,
		Prepare: migrating(func(path string) migration.Migration {
			return migration.Migration{
				migration.Check(path, 0),
				migration.SetData(path, []byte("1")).WithVersion(0).Compressed(),
				migration.Create(path+"/container", nil).WithMode(framework.Container),
				migration.Create(path+"/short", nil).WithMode(framework.PersistentWithTTL).WithTTL(time.Hour),
				migration.Create(path+"/short-", nil).WithMode(framework.PersistentSequentialWithTTL).WithTTL(time.Hour),
				migration.Create(path+"/item-", nil).WithMode(framework.PersistentSequential).WithACL(zk.WorldACL(zk.PermAll)...),
				migration.Delete(path + "/container").WithVersion(0),
			}
		}),
	},
}

// migrating applies a migration that sets the data of a folder and creates an item there, once.
func migrating(of func(path string) migration.Migration) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		must.Get(s.Theirs.Create(context.Background(), s.Path, nil))(s.T)
		require.NoError(s.T, s.Theirs.CreateContainers(context.Background(), s.Path+"/meta"))
		m := must.Get(migration.NewManager(s.Ours, s.Path+"/locks"))(s.T)
		s.End = func(err error) { requireOnce(s, err) }
		return func(ctx context.Context) error {
			return m.Migrate(ctx, migration.Set{ID: "x", MetadataPath: s.Path + "/meta", Migrations: []migration.Migration{of(s.Path)}})
		}
	}
}

// requireOnce checks that a migration is applied whole or not at all, and not twice.
func requireOnce(s *hardship.Stage, failure error) {
	s.T.Helper()
	stat, err := s.Theirs.Exists(context.Background(), s.Path)
	require.NoError(s.T, err, s.Name)
	names, err := s.Theirs.Children(context.Background(), s.Path)
	require.NoError(s.T, err, s.Name)
	ran, err := s.Theirs.Children(context.Background(), s.Path+"/meta")
	require.NoError(s.T, err, s.Name)
	items := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "item") })
	if failure == nil && !s.Crowd && len(ran) != 1 || len(ran) != int(stat.Version) || len(ran) != len(items) {
		s.T.Errorf("%s: it ran %d times, and has made %v and version %d, after %v", s.Name, len(ran), items, stat.Version, failure)
	}
}
