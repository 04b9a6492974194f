// SPDX-License-Identifier: Apache-2.0

// Package atomic has values and counters that many processes change together. Each
// change is applied to the result of the change before it.
//
//	counter, err := atomic.NewDistributedAtomicLong(client, "/counters/orders")
//	value, err := counter.Increment(ctx)
//	number := value.Post // this caller's own, no other one has it
//
// [DistributedAtomicLong] and [DistributedAtomicInteger] are counters. A
// [DistributedAtomicValue] is a value of bytes. A [CachedAtomicLong] hands out
// numbers from blocks, with one write per block. They share their znodes, byte for
// byte, with Curator's classes of the same names.
//
// # How a change is made
//
// A change reads the value, computes the next one, and writes it on condition that
// the version of the znode has not changed. If another process was faster, the
// change starts again after a short, random pause. Only the context bounds a change.
// Under heavy contention [WithPromotedToLock] makes processes queue for a mutex
// instead of colliding.
//
// A change that follows another change of the same value at once begins with the
// value that was written. It needs no read if no other process was faster. After up
// to eight such changes the next one reads again, so that changes of other processes
// succeed too.
//
// As in Curator, a write depends on the version alone. If the znode is deleted,
// created again and written as often as before, all between the read and the write
// of a change, the change takes it for the old znode.
//
// Goroutines that add to one counter combine: all additions that arrive while a
// write is under way leave together in the next. Each caller still gets the
// value before and after its own addition, in one order.
//
// # When the outcome is unknown
//
// If a reply is lost, the write is sent again on the same condition. So it is never
// applied twice: of two writes that ask for one version, at most one succeeds. If
// the server refuses the second write, the change cannot know whether its own first
// write or another client has changed the value. The change then fails with an error
// for which [framework.OutcomeUnknown] is true. Retrying such an increment may count
// it twice; not retrying it may lose it.
//
// # Coming from Curator
//
//   - AtomicValue.succeeded is the error: a change that was not made returns one.
//     CompareAndSet and Initialize report whether they have changed the value.
//   - The context of the call takes the place of the retry policy of the
//     constructor. The policy of the client decides about requests that fail because
//     of the connection.
//   - PromotedToLock is [WithPromotedToLock]. AtomicStats is [Stats].
package atomic
