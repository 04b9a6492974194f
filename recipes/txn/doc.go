// SPDX-License-Identifier: Apache-2.0

// Package txn reads and writes several znodes as one transaction. It is etcd's software
// transactional memory for ZooKeeper; Curator has no counterpart.
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
// The retry policy of the client decides how often the function runs again, and after which
// pauses. When the policy gives up, the error is [ErrConflict] and names the znode.
//
// Transactions are serializable. The commit checks a znode that was read by its version. A version
// does not show that a znode was deleted and created again, or that a new znode has appeared.
// ZooKeeper numbers the creations in each folder, so a transaction also checks the number of every
// folder that it has read from: it creates a sequential znode with the prefix "_txn-" and deletes it
// by the name that it must have got. Both happen within the transaction, so no client can read that
// znode, but watches of the folder's children fire. This has three consequences:
//
//   - the client needs the permissions to create and delete in the folders;
//   - of two transactions in one folder that overlap, one runs again, even if they use different znodes;
//   - a folder must not be deleted and created again while it is used.
//
// [VersionsOnly] drops this check for znodes that exist. It is right for znodes that are never deleted,
// or never created again.
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
//	curator.txn.conflicts  tries that have met a conflict
package txn
