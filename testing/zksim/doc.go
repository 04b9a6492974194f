// SPDX-License-Identifier: Apache-2.0

// Package zksim plays programs of several clients against three ZooKeeper servers in the process, and sometimes an observer, with
// faults of servers and networks, on fake time. A history of a minute takes some ten milliseconds. A seed decides what clients do,
// and which faults happen when.
//
// A [Program] says what one client does at each of its actions. It tells the [World] what it holds, and what it finds wrong:
//
//	zksim.Check(t, 1, 100, zksim.Program{
//		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
//			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
//			return func(ctx context.Context, _ *rand.Rand) {
//				lease, err := mutex.Acquire(ctx)
//				if err != nil {
//					return
//				}
//				leave := w.Enter(zksim.Hold{Key: "/lock", Exclusive: true, Token: lease.Token(), IsOver: func() bool { return lease.Err() != nil }})
//				time.Sleep(time.Second)
//				leave()
//				lease.Release(ctx)
//			}, err
//		},
//	})
//
// [Check] judges each history. No two clients may hold the same thing at a time, and tokens must rise. No call may wait long
// after the last fault, and no client may repeat what fails without pauses. Clients that are closed must leave no ephemeral znodes,
// watches or sessions. Sessions time out after 4 seconds unless [Program.Options] say otherwise, so that faults end some. A finding is played again, to say how often it comes back, and made smaller.
//
// A program has rules of its own in [Program.Rules], which are asked again and again. It may pause, kill and start a [Process] where
// faults happen at the wrong moments, and a process may have several clients; see the example. The library compares no clocks of machines, so
// no process has one that is wrong.
//
// With [KillProcess] among the faults, clients die in the midst of what they do and begin again. What a program knows of a client
// must not outlive it, so this fault is for programs that name it. Some of them have a guard that ends the session by
// [framework.EndSession]. With [PauseProcess] all that clients send and receive arrives late, though their sessions may have ended.
//
// With [Replace] a server leaves the ensemble and stops, and joins it again, every other one with its disk lost. What clients see of that is a server that is
// away, and another /zookeeper/config, which clients with [framework.WithEnsembleTracker] follow. A server gets all that the leader has before it serves,
// so a backup of one server that is restored shows them nothing else.
//
// All that servers and clients draw follows from the seed: sessions, UUIDs, pauses. Goroutines that are ready at the same instant may go
// on in another order, so a finding need not come back each time. Check says how often it does. On one processor (GOMAXPROCS=1), and without the race
// detector, the order is mostly the same too: two logs of a program with one goroutine a client are equal, line by line. With the race detector
// the test has one processor while it plays, because the detector crashes now and then when two threads run timers of one bubble
// (https://go.dev/issue/78156).
//
// The package is experimental until version 0.2: its API may change.
package zksim
