// SPDX-License-Identifier: Apache-2.0

// Package txn reads and writes several znodes as one transaction. It is etcd's software
// transactional memory for ZooKeeper; Curator has no counterpart. The package is experimental until version 0.2: its API may change.
//
//	err := txn.Do(ctx, client, func(tx *txn.Tx) error {
//		from, err := tx.Get("/accounts/a")
//		if err != nil {
//			return err
//		}
//		to, err := tx.Get("/accounts/b")
//		if err != nil {
//			return err
//		}
//		from, to, err = move(from, to, 10)
//		if err != nil {
//			return err // nothing is written
//		}
//		return errors.Join(tx.Set("/accounts/a", from), tx.Set("/accounts/b", to))
//	})
//
// Reads go to the server, and the transaction remembers their results. Writes stay in the client until
// the function returns; later reads of the same transaction see them. Then one request writes
// everything, on the condition that all results of the reads are still true. If one is not, nothing
// was written, and the function runs again.
//
// # The function
//
// The function may run several times, so it must make changes only through its [Tx]. An error that the
// function returns ends the transaction. [Do] first checks that all results of its reads were true at
// one moment. If they were not, the function runs again, because its error may come from two states
// that never existed together.
//
// While it runs, the function may see such a mixture, because another client may write between two of
// its reads. The function must not panic or loop because of it. [Tx.Prefetch] reads several znodes
// together, which saves round trips.
//
// # Conflicts
//
// After a conflict [Do] pauses for a random time of at most 16 ms, and runs the function again.
// When the context ends, the error matches [ErrConflict] and names the znode. So a program that may
// meet many rivals gives [Do] a context with a deadline.
//
// Transactions are serializable. Before a commit, [Do] looks once more at the Stats of all that it
// depends on, so it notices znodes and folders that were replaced. The commit itself then checks:
//
//   - A znode whose data was read still has its version. A version does not show that a znode was
//     deleted and created again. But ZooKeeper numbers the creations in each folder. So the commit
//     creates a sequential znode with the prefix "_txn-" in the folder. It deletes the znode by the
//     name that it must have got.
//   - A folder that was listed has its children, and no new one. This takes the same check.
//   - A znode that was missing can be created, and is deleted again.
//   - A znode that was only asked for, by [Tx.Exists] or a write, exists.
//
// No client can read the znodes that a commit creates for its checks, but watches of the names and of
// the folders' children fire. This has four consequences:
//
//   - The client needs the permissions to create and delete in the folders.
//   - The check of a folder uses up one of its 2^31 sequential numbers. At 1,000 transactions a second
//     that takes 25 days. A million numbers before the end, [Do] fails with
//     [locks.ErrSequenceExhausted]. Transactions that only read use up nothing, and neither do writes
//     of znodes that were not read.
//   - Of two commits in one folder that overlap, one is made again, even if they use different znodes. The
//     function does not run again. But all clients together make only one commit in the time of two or
//     three round trips. With 2 ms for each request that was 70 to 280 commits a second in one folder,
//     by 2 to 64 clients (BenchmarkOneFolder). The longest call took half a second among 16 clients, and
//     three seconds among 64.
//   - A folder must not be deleted and created again between the look and the commit, with as many
//     creations and versions as before. Nothing would show that.
//
// For more transactions, give each znode that is often changed a folder of its own, such as
// /accounts/a/balance. Or use [VersionsOnly], which drops the check for znodes that exist: 16 clients
// made 2,800 transactions a second then. It is right for znodes that are never deleted, or never
// created again.
//
// Other servers number creations otherwise. At one that is not ZooKeeper, such as ClickHouse Keeper, a
// commit that takes such a check fails with [framework.ErrUnsupported] and writes nothing. With [VersionsOnly]
// only [Tx.Children], and znodes missing below an ephemeral one, take it.
//
// What is below /zookeeper cannot be checked, and is refused, except for /zookeeper/config and
// /zookeeper/quota themselves.
//
// # Errors
//
// Reads return the errors of package framework. If [framework.OutcomeUnknown] is true for the error of
// [Do], the transaction may have been applied; it is applied at most once. A transaction larger than
// [framework.WithMaxRequestSize] fails with [framework.ErrTooLarge] and is not sent.
//
// # Metrics
//
// With [framework.WithMeterProvider] there are two counters:
//
//	curator.txn.commits    transactions that have succeeded
//	curator.txn.conflicts  tries that have met a conflict, or another commit in the folder
package txn
