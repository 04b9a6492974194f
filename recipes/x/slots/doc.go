// SPDX-License-Identifier: Apache-2.0

// Package slots gives each live process a small number of its own, from 0 up to a size: the node id of
// a generator of ids, the shard or the port of a process, one of the licences or GPUs that there are.
// Curator has no such recipe.
//
//	numbers, err := slots.New(client, "/ids/nodes", 1024, slots.WithDelay(5*time.Second))
//	...
//	slot, err := numbers.Take(ctx) // waits for a free number; TryTake does not, and returns ErrFull
//	if err != nil {
//		return err
//	}
//	defer slot.Release(ctx)
//	err = serve(slot.Context(ctx), slot.Number()) // the context ends when the number is lost
//
// # What is promised
//
// Two processes never have one number, wherever two processes never hold one mutex: a number is a
// mutex, and a [Slot] is its lease. The process learns that it has lost its number before another one gets
// that; see package locks for the error policies, and for what no client can see. Against that, a store may keep the
// newest [locks.Lease.Token] of each number. After a loss the program takes a number again, and may get another one.
//
// The lowest free number is taken, after that of [Prefer]. Processes that come at the same moment may differ
// from that by the numbers of each other.
//
// # What it costs
//
// A join without contention is three requests in three round trips, four with [WithDelay], however many numbers there are. Its list has a
// name for each process. Processes that come while others wait, or that meet a faster one, queue
// as for a mutex. A number that is given back wakes one of them, and the one behind it. A fleet of 1,000 processes that starts at once,
// at a path that was never used, makes about 18 requests for each process.
//
// # Metrics
//
// They are those of package locks, with the recipe slot for numbers, and slot.turn for the queue of those who wait.
// Its curator.lock.acquire.duration has the waits.
//
// # What is not promised
//
// Processes that need numbers without gaps, or shards that move when processes come and go, want package
// partition. A number does not stay with a process that is started again, though Prefer asks for it.
package slots
