// SPDX-License-Identifier: Apache-2.0

// Package barriers makes processes wait for each other.
//
//   - [DistributedBarrier] keeps all that come to it waiting until it is removed.
//   - [DistributedDoubleBarrier] lets a number of members begin together and end
//     together.
//   - [CyclicBarrier] is a meeting point: each member waits there until all
//     have come, as often as they like.
//   - [CountDownLatch] opens once a number of events has been counted.
//
// The first two share their znodes with Curator's classes of the same names,
// and members in Go and Java may stand at one barrier.
//
// # What a member costs
//
// A member of a double barrier makes a fixed number of requests and gets one
// event, however many members there are: it waits for the znode "ready" and asks
// for the number of members, not for their names. The same holds for its end,
// with two exceptions. A member whose process dies, or that gives up to enter, is noticed by
// those that wait to leave. To notice it each of them looks after 1/16 of a session timeout, then
// after twice as long each time, up to a session timeout. And a member that finds the barrier in another round
// than its own reads the Stats of the members that are there, 128 in a round trip.
//
// # What is left behind
//
// A call that fails, or whose context ends, takes its member node back. The node
// "ready" of a round whose members have all died does not open the next round,
// unlike in Curator 5.4: a member relies on a "ready" that is younger than
// itself, or than another member that is still there.
package barriers
