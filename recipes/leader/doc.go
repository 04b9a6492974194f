// SPDX-License-Identifier: Apache-2.0

// Package leader elects one process of many, and runs jobs once across all of them.
//
// # Which recipe
//
// A service that has one active replica and hot standbys uses a [LeaderLatch]:
// it stands for election all its life.
//
//	latch, err := leader.NewLeaderLatch(client, "/orders/leader", leader.WithID("orders-1"))
//	if err := latch.Start(); err != nil { ... }
//	defer latch.Close()
//
//	for {
//		leadership, err := latch.Await(ctx)
//		if err != nil {
//			return err // ctx has ended
//		}
//		serve(leadership.Context(ctx)) // returns when the context ends
//	}
//
// Work that a leader does in a function uses a [LeaderSelector]:
//
//	selector, err := leader.NewLeaderSelector(client, "/orders/leader", leader.WithAutoRequeue())
//	err = selector.Run(ctx, func(ctx context.Context) error { ... })
//
// A job that must run once per night or hour, in any replica, uses a [Once]:
//
//	once, err := leader.NewOnce(client, "/jobs/report")
//	ran, err := once.Do(ctx, "2026-11-22", writeReport)
//
// A program that only needs the present leader calls [LeaderLatch.Leader] once, or
// ranges over [LeaderLatch.Observe]. Neither of these makes it a candidate. A leader publishes a
// value to them with [LeaderLatch.Proclaim]. [LeaderLatch.HealthHandler] says over HTTP whether a
// replica leads, waits, or cannot lead.
//
// # What is promised
//
// An election is a lock of [locks.LockInternals], so a leadership is a [locks.Lease]
// with all that locks promise. At most one candidate leads. The contexts of its
// leadership end before another candidate can lead, on the conditions of the error
// policy; see [locks.WithErrorPolicy]. [locks.Lease.Token] is the term: it rises
// from leader to leader, across sessions, servers and Java's leaders.
// [locks.Lease.Transact] applies only under this term.
//
// Under [framework.StandardErrorPolicy] each loss of the connection ends the
// leadership. Under [framework.SessionErrorPolicy] a short loss does not: the latch
// keeps its node and continues to lead.
//
// # Handing over
//
// [LeaderLatch.Resign] hands over to the next candidate with one event at one
// client. [locks.AttemptRevoke], and Curator's Revoker, ask a leader to do so:
// pass a [locks.WithRevocationListener] that releases the lease, or select on
// [locks.Lease.Revoked].
//
// No candidate is preferred (CURATOR-622). The queue decides by the number alone, and Java's
// candidates know no other rule. To hand over to a preferred candidate, all between would have to
// resign too, and each resignation is a time without a leader. A program that needs a preference
// follows the election with [LeaderLatch.Observe], and starts its other latches only while the
// preferred candidate is away.
//
// # Metrics and traces
//
// A client made with [framework.WithMeterProvider] or [framework.WithTracerProvider]
// measures an election as any lock; see package locks. The attribute curator.recipe
// is leader_latch, leader_selector or once. curator.lock.hold.duration is the time
// of a leadership, and curator.lock.lost counts leaderships that were lost.
// curator.fence of the span "acquire lock" is the term. Observers have metrics of
// their own:
//
//	instrument                        kind, unit          attributes
//	curator.leader.changes            counter {change}
//	curator.leader.absence.duration   histogram s
//	curator.once.runs                 counter {call}      curator.outcome: marked, skipped, failed
//
// The counter of changes exists, with zero, from the call of Observe. An absence is a time
// during which the observer saw no leader. curator.once.runs counts the calls of [Once.Do]: a call
// has run and marked its key, has found the key done, or returned an error. [framework.WithPathAttribute] adds the
// path of the election as curator.path.
//
// # Coming from Curator
//
//   - LeaderLatch.await returns the leadership instead of nothing; hasLeadership
//     is [LeaderLatch.HasLeadership].
//   - A LeaderLatchListener is [LeaderLatch.OnChange]. One function receives
//     beginnings and ends, in their order. The reason of an end is in [Change].
//   - LeaderSelector.start is [LeaderSelector.Run], which blocks. close is the end
//     of its context, and takeLeadership is its function. A context takes the place
//     of CancelLeadershipException.
//   - getParticipants and getLeader return [locks.Participant]. Java's ids are
//     the Identity. Leader reports false, not an empty participant, when there is none.
//   - A LeaderLatch keeps its node over a reconnect when its session lives on. So
//     does Curator's since 5.3.
package leader
