// SPDX-License-Identifier: Apache-2.0

// Package curator is the root of a module with Apache Curator's recipes for ZooKeeper: locks,
// elections, caches, queues, counters and barriers for processes that share an ensemble. The
// package itself has no names. A program imports these:
//
//   - [github.com/gocurator/curator/framework]: the client. Everything begins with its Connect.
//   - [github.com/gocurator/curator/recipes/locks]: mutex, read/write lock, semaphores. A holder
//     learns that it has lost its lock before the next contender enters.
//   - [github.com/gocurator/curator/recipes/leader]: one active replica of many, and jobs that
//     run once.
//   - [github.com/gocurator/curator/recipes/cache]: the current data of a subtree, in memory.
//   - [github.com/gocurator/curator/testing/zktest]: a server in the test process, which loses any
//     reply that a test names.
//
// For example, this takes a lock for as long as a function runs:
//
//	client, err := framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
//	if err != nil {
//		return err
//	}
//	return mutex.Do(ctx, func(ctx context.Context) error {
//		return writeReport(ctx) // ctx ends if the lock is lost
//	})
//
// The other folders of recipes have the other recipes, and recipes/CHOOSING.md says which one to
// take. The layout of the znodes is Apache Curator's, so Go and Java can wait in one queue.
package curator

import (
	_ "github.com/gocurator/curator/framework" // so that "go get" of the module records what all of it needs
)
