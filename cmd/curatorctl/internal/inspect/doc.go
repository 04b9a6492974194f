// SPDX-License-Identifier: Apache-2.0

// Package inspect shows which recipes are in a ZooKeeper ensemble, with their holders and waiters. It
// writes nothing, so it is safe on any ensemble.
//
// The names of the znodes decide. So [At] finds the contenders of this library, of Curator in Java, of
// go-zookeeper's zk.Lock and of kazoo. Usually there is one recipe at a path. Two recipes at a path
// are a mistake that At makes visible: a mutex and a read/write lock on one path do not exclude each
// other. [Walk] reads a subtree, [Explain] says why a lock is stuck, [Deadlocks] finds clients that wait for each other
// in a cycle, and [Follow] measures what locks have to bear.
//
// What is not known is never told as health: [Finding].Unknown says what is missing, why, and what would make it known.
//
// # What cannot be seen
//
//   - A lock without contenders is an empty folder, like any other.
//   - The znodes of slots do not say how many numbers there are.
//   - The znodes of a semaphore do not say its maximum; see [Recipe.MaxLeases].
//   - Curator's LeaderSelector and its first semaphore have the names of a mutex, and are
//     reported as one.
//   - A survey is no snapshot. It leaves out a contender that leaves between the list and the read.
//     The token identifies a hold for certain.
package inspect
