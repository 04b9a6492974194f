// SPDX-License-Identifier: Apache-2.0

// Package inspect shows which recipes are in a ZooKeeper ensemble, with their holders and waiters. It
// writes nothing, so it is safe on any ensemble.
//
// # What is at a path
//
//	recipes, err := inspect.At(ctx, client, "/locks/report")
//	for _, r := range recipes {
//		fmt.Println(r.Kind, r.Holders, "hold,", r.Waiters, "wait")
//	}
//
// The names of the znodes decide. So At finds the contenders of this library, of Curator in Java, of
// go-zookeeper's zk.Lock and of kazoo. Usually there is one recipe at a path. Two recipes at a path
// are a mistake that At makes visible: a mutex and a read/write lock on one path do not exclude each
// other.
//
// # Everything below a path
//
//	survey, err := inspect.Walk(ctx, client, "/")
//
// Walk reads a subtree in pipelines. With [HeadsOnly] it reads, of each lock, only the nodes of the
// holders and of the contender that has waited longest, which is enough for a list. [WithMemoryLimit]
// is for programs whose memory must not grow with the data that other clients write into ZooKeeper.
//
// # Why it is stuck
//
//	e, err := inspect.Explain(ctx, client, "/locks/report")
//	fmt.Print(e)
//
// Explain says in plain English who holds a lock, and whether that client is alive. It says who waits,
// and why the first waiter does not have the lock yet. It names commands that help, and what they risk.
// For a program the same is in [Explanation.Findings]. Explain asks the servers for their sessions; see [Sessions].
// [Deadlocks] finds clients that wait for each other in a cycle.
//
// The answer is yes, no or unknown. ZooKeeper's default settings do not tell which clients are alive. They do with this line in zoo.cfg
// of each server, or where the admin server answers:
//
//	4lw.commands.whitelist=srvr,mntr,conf,cons,dump
//
// What is not known is never told as health: [Finding].Unknown says what is missing, why, and what would make it known.
//
// # What locks have to bear
//
//	traffic, err := inspect.Follow(ctx, client, "/locks")
//	defer traffic.Close()
//	time.Sleep(time.Minute)
//	found := traffic.Take()
//
// [Contention] has the turns of each lock, how long clients waited and held, who held for longest, and the holds
// that ended with their sessions. [Contention.WriteProfile] writes the same for go tool pprof. Follow makes no request for a
// turn; it says what it costs.
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
