// SPDX-License-Identifier: Apache-2.0

// Package barriers makes processes wait for each other.
//
//   - [DistributedBarrier] keeps all processes that wait at it until it is removed.
//   - [DistributedDoubleBarrier] lets a number of members begin together and end
//     together. They may do so any number of times.
//
// Both share their znodes with Curator's classes of the same names,
// and members in Go and Java may stand at one barrier.
//
// # What a member costs
//
// A member of a double barrier makes a fixed number of requests and gets one event,
// however many members there are. It waits for the znode "ready", and asks for the
// number of members instead of their names. Leaving costs a fixed number of requests
// too, with two exceptions. First, the members that wait to leave look again after 1/16
// of a session timeout, then after twice as long each time, up to a session timeout. So
// they notice a member whose process has died, or that has given up to enter. Second, a
// member that comes while the barrier is open, or finds it in another round than its own,
// reads the nodes of all members, up to 1,024 in a round trip.
//
// # Metrics
//
// A client made WithMeterProvider measures the calls that wait:
//
//	instrument                        kind, unit               attributes
//	curator.barrier.waiting           updowncounter {waiter}   curator.recipe
//	curator.barrier.wait.duration     histogram s              curator.recipe, curator.outcome
//
// The recipe is barrier or double_barrier (Enter and Leave). The outcome is passed or failed. Only
// [framework.WithPathAttribute] adds the attribute curator.path.
//
// # What is left behind
//
// A call that fails, or whose context ends, deletes its member node. If all members
// of a round have died, the node "ready" of that round does not open the next round,
// unlike in Curator 5.4. A member relies only on a "ready" that is younger than
// itself, or that another member relies on which is still there. A late member of
// Curator leaves no trace of the round that it has joined. So when the others of its
// round have left, a further member in Go takes the round for abandoned and opens the
// next one. Members in Go that wait to leave then go on. The late member waits in its
// leave for the members of the next round.
package barriers
