// SPDX-License-Identifier: Apache-2.0

// Package atomic has values and counters that many processes change together:
// each change is applied to the value that the one before it has left.
//
//	counter, err := atomic.NewDistributedAtomicLong(client, "/counters/orders")
//	value, err := counter.Increment(ctx)
//	number := value.Post // this caller's own, no other one has it
//
// [DistributedAtomicLong] and [DistributedAtomicInteger] are counters,
// [DistributedAtomicValue] is bytes, and [CachedAtomicLong] hands out numbers
// from blocks, with one write per block. They share their znodes, byte for
// byte, with Curator's classes of the same names.
//
// # How a change is made
//
// A change reads the value, computes the next one, and writes it on condition
// that the version of the znode is still the one that was read. If another
// process was faster it starts again after a short, random pause. The context
// is its only bound. Under heavy contention [WithPromotedToLock] makes
// processes queue for a mutex instead of colliding.
//
// A change that follows another one of the same value or counter at once begins
// with what that one has written, and needs no read if no other process was
// faster. Up to eight changes follow each other so, and then one reads again, to
// give other processes a turn.
//
// As in Curator, the version is all that a write depends on. A znode that is
// deleted, created again and written as often as before, all between the read
// and the write of a change, is taken for the old one.
//
// Goroutines that add to one counter combine: all additions that arrive while a
// write is under way leave together in the next. Each caller still gets the
// value before and after its own addition, in one order.
//
// # When the outcome is unknown
//
// A reply can get lost. The write is then sent again on the same condition, so
// it is never applied twice: of two writes that ask for one version, at most
// one succeeds. If that shows that the value has moved on, it cannot be told
// whether this write or another one has moved it. The change then fails with an
// error for which [framework.OutcomeUnknown] is true. Retrying such an increment
// may count it twice; not retrying it may lose it.
//
// # Coming from Curator
//
//   - AtomicValue.succeeded is the error: a change that was not made has one.
//     CompareAndSet and Initialize report whether they have changed the value.
//   - The retry policy of the constructor is the context of the call. What
//     fails because of the connection is retried by the policy of the client.
//   - PromotedToLock is [WithPromotedToLock]. AtomicStats is [Stats].
package atomic
