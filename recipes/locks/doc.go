// SPDX-License-Identifier: Apache-2.0

// Package locks has Curator's lock recipes. With them, processes that share only ZooKeeper
// exclude each other, take turns in order, and learn in time when a lock is lost.
//
// The first five sections are what a program needs in its first hour.
//
// # Which lock do I need
//
//	one at a time                                    InterProcessMutex
//	many readers or one writer                       InterProcessReadWriteLock
//	at most n at a time                              InterProcessSemaphoreV2
//	several locks, all or none                       InterProcessMultiLock
//	one at a time, never re-entered                  InterProcessMutex made WithoutReentry
//	one replica leads, all others stand by           package leader: LeaderLatch
//	a job that runs once for each night or hour      package leader: Once
//	a contender order of your own                    LockInternals with a driver
//
// A semaphore limits the number of simultaneous holders, not a rate such as calls in a
// second. [InterProcessSemaphore] and [InterProcessSemaphoreMutex] are for programs that
// share a lock with Curator's classes of those names; new programs need neither.
//
// # Taking turns
//
// [InterProcessMutex.Do] runs a function while the lock is held:
//
//	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
//	...
//	err = mutex.Do(ctx, func(ctx context.Context) error {
//		return writeReport(ctx) // ctx ends when the lock is lost
//	})
//
// All clients that use the path share the lock. Its folder need not exist.
//
// [InterProcessMutex.Acquire] gives more control. It returns a [Lease]:
//
//	lease, err := mutex.Acquire(ctx)   // ctx bounds the wait, and nothing else does
//	if err != nil {
//		return err                     // matches ErrNotAcquired if another client is in the way
//	}
//	defer lease.Release(ctx)
//	err = writeReport(lease.Context(ctx)) // this context ends with the lease, and carries ownership
//
// Inside Do, [LeaseFrom] returns the lease.
//
// An acquisition with a context that carries ownership re-enters the lock. Any other context
// is another owner, even in the same process. Goroutines that share the context of one lease
// are all inside at once, because a lock knows contexts and not goroutines. To exclude
// goroutines from each other, give each a context that carries no lease, such as the one that
// Do was called with. [WithoutReentry] makes the mistake an error.
//
// # Work that must run once
//
// A lock makes runs take turns. If three replicas call Do with the nightly report, the
// report is written three times, one run after the other. To write it once, leave a marker
// under the lock and look for it first:
//
//	err = mutex.Do(ctx, func(ctx context.Context) error {
//		if stat, err := client.Exists(ctx, "/reports/2026-11-22"); err != nil || stat != nil {
//			return err // another replica has written it
//		}
//		if err := writeReport(ctx); err != nil {
//			return err
//		}
//		_, err := locks.LeaseFrom(ctx).Transact(ctx, framework.CreateOp("/reports/2026-11-22", nil))
//		return err
//	})
//
// Once of package leader does that. TryAcquire does not replace the marker: a replica that
// comes a moment after the release finds a free lock. A process may die after its work and
// before the marker. Then another replica does the work again. So make the work repeatable,
// or part of the transaction.
//
// # What a lease promises
//
// While a lease is valid, no other client, in Go or Java, holds the lock. The lease ends
// when it is released or lost. When it is lost, its contexts end with a [*LostError] as their
// cause, Done is closed, and Release returns the error. In these cases the holder learns of
// the loss before the next waiter can enter:
//
//   - The connection is lost, in either direction. Under the default
//     [framework.StandardErrorPolicy] the lease ends when the client notices the silence, at
//     the latest two thirds of the session timeout after the last sign of life.
//   - No server can be reached. The lease ends by the client's own monotonic clock, before
//     any server can expire the session.
//   - The client is closed.
//
// Under [framework.QuorumErrorPolicy] this holds in every partition, also among the servers,
// and with any session timeout. The price is a write for each quarter of that timeout.
// [framework.StandardErrorPolicy] says which policy is safe with which timeout.
//
// The contexts end in time, but a goroutine that waits for one of them runs only when it is
// scheduled. On a busy machine that may be after the next holder has entered. [Lease.Err] asks
// the clock and needs no other goroutine. Call it right before a step that cannot be taken
// back, or fence the step with the token.
//
// In one case the holder may learn of the loss later than the next waiter: another client
// deletes the node of the hold, or closes its session. The server then notifies the holder and
// the waiter of the same transaction, and the client with the faster link learns first. To
// save requests, a holder watches its node only after 1 ms, and notices an earlier deletion when it begins
// to watch. A client that may change the access control list of the node can make it unreadable
// before the deletion. Then the server tells the holder nothing (since the fix of CVE-2024-23944).
// [framework.WithACLProvider] can leave the nodes of locks to their creators.
//
// A waiter whose node is deleted by hand learns of it at its turn, and joins the queue again. There is one exception:
// behind a holder of its own client, or with one contender before it, a waiter relies on its node for 100 ms after a request
// that has shown it. If the node is deleted in this time, the waiter may take the turn. It then loses the lock as a holder does.
//
// The client deletes the znode of every acquisition, however the acquisition or the release
// ends, in the background if necessary. If the reply to the creation was lost, the client
// finds the znode by its UUID. Watches are shared and removed.
//
// # Failover time
//
// When a process releases its lock or closes its client, the next waiter enters about one
// round trip later. When a process is killed, or its machine or link fails, its session lives
// on at the servers, and the next waiter waits for the rest of the session timeout.
//
// A client asks for 60 s. Servers grant at most 20 ticks, which are 40 s with the usual tick
// of 2 s. [framework.WithSessionTimeout] sets the timeout. A shorter timeout makes failover
// quicker, but a process or network that stalls for that long loses its session. Below 18 s,
// with usual servers, only [framework.QuorumErrorPolicy] is safe in a partition.
//
// A holder that hangs keeps its lock as long as its client's session lives, unless the lock was made
// [WithMaxHold]. Bound the work with a context, or ask for the lock with [AttemptRevoke]. A
// resource that knows no tokens needs time after a loss: see [WithLockDelay].
//
// # What it does not promise
//
// A debugger, a hypervisor or the operating system may pause a process for longer than its
// session. The process then goes on with its next statement as if nothing had happened. No
// lock service can stop it; only the resource can. Send [Lease.Token] to the resource, and let
// it refuse a token below the greatest that it has seen. Package fence does so in memory, in
// SQL and over HTTP, and [Lease.Transact] does it for znodes.
//
// The server notifies a client only about nodes that it may read. A waiter needs the node
// before it, or the folder of an [InterProcessSemaphoreV2]'s leases. If it may not read them
// when it starts to wait, it fails with [framework.ErrNoAuth].
// If the permission is taken away during the wait, it may miss its turn until its connection
// changes or its context ends. So let all clients that share the lock read its nodes.
//
// # What else there is
//
// [InterProcessMutex.Participants] shows the holders and the waiters of a lock, and
// [WithLabel] names them. [WithQueueListener] tells a waiter its place. [AttemptRevoke] asks a
// contender to give its lock back.
// [WithLocalHandoff] passes a lock that is hot within one process on in memory.
//
// The layout is Apache Curator's, so Go and Java queue together. recipes/MIGRATING.md has
// Curator's names beside the names here, and says how to share a queue with zk.Lock and kazoo.
//
// # Many goroutines of one client
//
// In Curator each thread has a node in the queue. Here a client has at most four nodes in the queue of a mutex, an
// election, or the turn at an [InterProcessSemaphoreV2], and two when other clients are in it; see [WithQueuePlaces]. The
// other goroutines wait in memory, in the order of their calls. They cost the servers nothing, and Participants does not show
// them. So the turns of a client among the turns of others do not grow with its goroutines: beside a Java process with ten
// threads in the queue, a Go process with ten goroutines gets two turns for each ten.
//
// # Metrics and traces
//
// If its client was made with framework.WithMeterProvider or framework.WithTracerProvider,
// every lock measures waits and holds, and how they end:
//
//	instrument                      kind, unit               attributes
//	curator.lock.acquire.duration   histogram s              curator.recipe, curator.outcome, error.type
//	curator.lock.hold.duration      histogram s              curator.recipe, curator.end
//	curator.lock.held               updowncounter {hold}     curator.recipe
//	curator.lock.waiting            updowncounter {waiter}   curator.recipe
//	curator.lock.lost               counter {loss}           curator.recipe, curator.reason
//
//	curator.recipe    mutex, rw.read, rw.write, semaphore; "custom", or what WithRecipeName says, for a LockInternals
//	curator.outcome   acquired, not_acquired (TryAcquire), canceled (the context ended),
//	                  lost (node or session, and the retry policy gave up), error
//	curator.end       released, lost
//	curator.reason    a framework.LostReason: suspended, lease_end, session_expired, node_deleted, auth_failed, closed,
//	                  max_hold
//	error.type        a framework.ErrorType, sequence_exhausted, or panic (of a driver);
//	                  with canceled, lost and error only
//
// The counters of a lock exist, with zeros, from its construction. So an alert on an increase
// notices the first loss.
//
// The span "acquire lock" contains the requests of an acquisition. It has these attributes,
// and curator.fence (the token), curator.session, server.address and server.port. It has the
// event "queued" each time the number of contenders ahead (curator.position) has changed, and
// the events "suspended" and "granted". A re-entry is not measured. The measurement of a hold
// ends with its release, because other clients wait until then. framework.WithPathAttribute
// adds the path of the lock.
//
// # Composing
//
// All locks are a [LockInternalsDriver] on [LockInternals]. A driver decides how the node is
// created, which children contend in which order, and which contender has the lock.
// LockInternals adds waiting, loss, re-entry, cancellation and cleanup. A driver must
// follow these rules:
//
//   - The node must be ephemeral, of the given session, and protected: use CreatesTheLock of
//     [StandardLockInternalsDriver].
//   - The decision follows from the names alone. The names do not show which contender holds
//     the lock, so the decision must never admit a newcomer before a holder.
//   - A waiter's turn never comes before a contender in its PathsToWatch has left.
//     LockInternals need not wake a waiter for another change.
//
// A waiter lists the folder after each wake-up, and asks the driver again.
//
// The package's example "composing" makes a lock from a driver, a mutex and a multi-lock. In
// its queue operators wait in front.
package locks
