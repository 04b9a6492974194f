// SPDX-License-Identifier: Apache-2.0

// Package inspect shows which recipes live in a ZooKeeper ensemble, with their holders and waiters. It
// reads, and writes nothing, so it can be pointed at any ensemble.
//
// # What is at a path
//
//	recipes, err := inspect.At(ctx, client, "/locks/report")
//	for _, r := range recipes {
//		fmt.Println(r.Kind, r.Holders, "hold,", r.Waiters, "wait")
//	}
//
// The names of the znodes decide, so contenders of every client are seen: of this library, of
// Curator in Java, of go-zookeeper's zk.Lock and of kazoo. Usually one recipe lives at a path.
// Two are a mistake that At makes visible: a mutex and a read/write lock on one path do
// not exclude each other.
//
// # Everything below a path
//
//	survey, err := inspect.Walk(ctx, client, "/")
//
// Walk reads a subtree in pipelines. With [HeadsOnly] it reads, of each lock, only the nodes
// of the holders and of the contender that has waited longest, which is enough for a list. [WithMemoryLimit]
// is for programs that must not grow with what others write into ZooKeeper.
//
// # What cannot be seen
//
//   - A lock without contenders is an empty folder, like any other.
//   - The znodes of a semaphore do not say its maximum; see [Recipe.MaxLeases].
//   - Curator's LeaderSelector and its first semaphore have the names of a mutex, and are
//     reported as one.
//   - A survey is no snapshot. A contender that leaves between list and read is left
//     out. A token says for certain which hold was meant.
package inspect
