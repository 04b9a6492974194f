// SPDX-License-Identifier: Apache-2.0

// Package migration changes the znodes of an application from release to release. It runs ordered sets of
// operations once for each ensemble. It is Curator's MigrationManager, with its layout. The package
// is kept for programs that have Curator's, and gets no new options. It is experimental until version 0.2: its API may change.
//
//	set := migration.Set{
//		ID:           "orders",
//		MetadataPath: "/migrations/orders",
//		Migrations: []migration.Migration{
//			{migration.Create("/orders", nil), migration.Create("/orders/config", []byte("v1"))}, // release 1
//			{migration.SetData("/orders/config", []byte("v2"))},                                  // release 2
//		},
//	}
//	manager, err := migration.NewManager(client, "/migrations/locks")
//	err = manager.Migrate(ctx, set) // each replica calls it when it starts
//
// [Manager.Migrate] applies the migrations that the ensemble does not have yet, under a lock. Each migration is
// applied whole or not at all. They share one transaction as long as they fit into a request, so on a new server
// small releases run together, and large ones one after the other. A release adds migrations at the end of the list. A release must not
// change migrations that have run: Migrate compares their hashes and refuses a set in which they differ, with
// [ErrChanged].
//
// # Operations
//
// A migration has all operations of Curator's:
//
//	CuratorOp                                   here
//	create().withMode(CreateMode.CONTAINER)     Create(path, data).WithMode(framework.Container)
//	create().withTtl(ms).withMode(...WITH_TTL)  Create(path, data).WithMode(framework.PersistentWithTTL).WithTTL(d)
//	create().withACL(list)                      Create(path, data).WithACL(list...)
//	create().compressed(), setData().compressed()  .Compressed()
//	setData().withVersion(v), delete().withVersion(v)  .WithVersion(v)
//	check().withVersion(v)                      Check(path, v)
//
// Znodes that end with a session are refused. A check that fails keeps its migration, and all later ones, from being
// applied: Migrate fails with [framework.ErrBadVersion] until the znode fits.
//
// # Layout
//
// MetadataPath has a persistent sequential child for each migration that has run, meta-0000000000 and so on.
// Its data is a SHA-256 hash of the migration. The lock is an InterProcessSemaphoreMutex at the path of the
// manager and the ID of the set. Curator has the same layout, but hashes the text form of its Java objects. So
// a set must be run by Java or by Go, not by both. Sets with different IDs must not have one MetadataPath. If they do,
// the one that comes later gets ErrChanged, and nothing of it is applied.
package migration
