// Package locks has Curator's lock recipes: processes that share nothing but
// ZooKeeper exclude each other, in order, and know when they no longer do.
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
// [InterProcessMutex.Acquire] gives more control: it returns a [Lease].
//
//	lease, err := mutex.Acquire(ctx)   // ctx bounds the wait, and nothing else does
//	if err != nil {
//		return err                     // matches ErrNotAcquired if ctx has ended
//	}
//	defer lease.Release(ctx)
//	held := lease.Context(ctx)         // ends with the lease; carries ownership
//
// A context that carries ownership re-enters the lock; any other is another owner,
// in the same process too. There is no thread or goroutine identity.
//
// # Readers and writers
//
// An [InterProcessReadWriteLock] is two locks with one queue. Readers share, a
// writer is alone, and nobody overtakes. The context of a write lease makes its
// owner a reader without a gap, after which the write lease is released:
//
//	reader, err := lock.ReadLock().Acquire(writer.Context(ctx))
//	err = writer.Release(ctx)
//
// A reader that asks for the write lock gets [ErrUpgrade] in place of a deadlock.
//
// # Several at once
//
// An [InterProcessSemaphoreV2] has a number of leases, which may change while
// people wait. [InterProcessSemaphoreV2.AcquireN] acquires several or none. Every
// lease has a token and a loss of its own. [InterProcessSemaphore] is Curator's
// older layout, and [InterProcessSemaphoreMutex] a lock that does not re-enter.
//
// # Several locks as one
//
// An [InterProcessMultiLock] holds all its members or none, and acquires them in
// the order of their paths, so that two of them do not wait for each other. Its
// [MultiLease] ends with the first of its leases.
//
// # Waiting for what another holder will do
//
// A [Condition] of a mutex, or of a write lock, is java.util.concurrent's across
// processes: whoever holds the lock gives it back until he is signalled. Await may
// return without a signal, so it belongs in a loop:
//
//	filled, err := mutex.NewCondition("/locks/shelf-filled")
//	...
//	for err == nil && shelf.IsEmpty() {
//		lease, err = filled.Await(ctx, lease)
//	}
//
// The lease that Await returns has a token of its own, greater than that of the one
// given back: others may have had the lock in between.
//
// # Who is there
//
// Participants, which every recipe has, tell who holds and who waits for whom, since
// when, with which token, and on which host in which process. [WithLabel] adds a name
// of one's own. It takes two round trips and no lock, so it can be asked often:
//
//	participants, err := mutex.Participants(ctx)
//	for _, p := range participants {
//		fmt.Println(p.Position, p.Holds, p.Host, p.PID, p.Label, time.Since(p.Since), p.WaitsFor)
//	}
//
// # What a lease promises
//
// While a lease is valid, no other client, in Go or Java, holds the lock. It ends
// when it is released or lost. Its loss is known to the holder before the next in
// the queue can enter, in these cases:
//
//   - the connection is lost, in whichever direction: under the default
//     [framework.StandardErrorPolicy] the lease ends when the silence is noticed, at
//     the latest two thirds of the session timeout after the last sign of life;
//   - no server can be reached: by the client's own monotonic clock, before any
//     server can expire the session;
//   - the client is closed.
//
// Under [framework.QuorumErrorPolicy] it is known in every partition, also of the
// servers, with any session timeout, for a write per quarter of that timeout.
// Which policy is safe with which session timeout in which partition is said at
// [framework.StandardErrorPolicy]. When somebody else ends the hold at the server,
// by deleting its node or closing its session, the server tells the holder and the
// next in the queue with the same transaction, and whose link is faster hears of it
// first. A hold watches its node from its first millisecond on, or its wait's
// twentieth, so that a short turn takes fewer requests: before, its deletion by hand
// is noticed by so much later. Who may change a node's access control list can make it
// unreadable first, and then the server tells the holder nothing (since the fix of
// CVE-2024-23944): [framework.WithACLProvider] can leave the nodes of locks to their
// creators.
//
// The contexts of a lost lease end with a [*LostError] as their cause, Done is
// closed, and Release returns the error. [Lease.Release] waits ten seconds at most when
// its context has no deadline, or has ended. What it returns is a [*ReleaseError], also
// from [Do]: fn has run then.
//
// # A lock that is hot within one process
//
// With [WithLocalHandoff] goroutines that share a mutex pass it on in memory, several
// holds in a row under one node. It saves round trips, makes others wait longer, and
// gives the row one token:
//
//	mutex, err := locks.NewInterProcessMutex(client, "/locks/report", locks.WithLocalHandoff(10))
//
// # Asking for a lock that is held
//
// [AttemptRevoke] asks a contender to give its lock back, and Curator's Revoker does the
// same. The owner learns of it from the lease, or from a listener of the lock, and
// decides:
//
//	select {
//	case <-lease.Revoked(): // finish what is begun, then release
//	case <-work:
//	}
//
// Nothing is taken away: the lease stays valid until it is released. A request is not
// missed, also when it comes while the contender waits: it is told when it holds. See
// [WithRevocationListener].
//
// # What it does not promise
//
// No lock service can stop a process that has been paused for longer than its
// session, by a debugger, a hypervisor or the operating system, and goes on with
// its next statement as if nothing had happened. Only the resource itself can:
// give it [Lease.Token], and let it refuse a token below the greatest it has seen, as
// package fence does in memory, in SQL and over HTTP. If what is protected is in
// ZooKeeper, [Lease.Transact] does that.
//
// A waiter hears no more than the holder of what it may not read. If that is so when it
// comes to wait, it is refused with [framework.ErrNoAuth]. If the right to read what it
// watches (the node before it, or the folder of an [InterProcessSemaphoreV2]'s leases) is
// taken away during the wait, it may sleep on when its turn has come, until its connection
// changes or its context ends. So whoever may change access control lists there leaves the
// right to read with all who share the lock.
//
// # Nothing is left behind
//
// However an acquisition or a release ends, its znode is deleted: in the background
// if need be, under the name it was given or, when the reply to its creation was
// lost, after a search for its UUID. Watches are shared and taken back.
//
// # Metrics and traces
//
// On a client made with framework.WithMeterProvider or framework.WithTracerProvider
// every lock tells how long it was waited for and held, and what became of it:
//
//	instrument                      kind, unit               attributes
//	curator.lock.acquire.duration   histogram s              curator.recipe, curator.outcome, error.type
//	curator.lock.hold.duration      histogram s              curator.recipe, curator.end
//	curator.lock.held               updowncounter {hold}     curator.recipe
//	curator.lock.waiting            updowncounter {waiter}   curator.recipe
//	curator.lock.lost               counter {loss}           curator.recipe, curator.reason
//
//	curator.recipe    mutex, rw.read, rw.write, semaphore; "custom", or what WithRecipeName says, for recipes of one's own;
//	                  condition, of acquire.duration and waiting: from the call to Await to its result, with the lock's wait in it
//	curator.outcome   acquired, not_acquired (TryAcquire), canceled (the context ended),
//	                  lost (node or session, and the retry policy gave up), error
//	curator.end       released, lost
//	curator.reason    a framework.LostReason: suspended, lease_end, session_expired, node_deleted, closed
//	error.type        a framework.ErrorType, or sequence_exhausted; of canceled, lost and error only
//
// The span "acquire lock" is around the requests of an acquisition. It has these
// attributes, and curator.fence (the token), curator.session, server.address and
// server.port. Its events are queued, with the number of contenders in front as
// curator.position, each time that has changed when we look; suspended; and granted.
// A re-entry is no acquisition and a lease of it no hold of its own. A hold is
// measured up to the end of its release, as long as others wait for it. The path
// of the lock is added to all of them with framework.WithPathAttribute only.
//
// # Composing
//
// All locks are a [LockInternalsDriver] on [LockInternals]. A driver decides how the
// node is created, who contends in which order, and who has the lock; waiting,
// loss, re-entrancy, cancellation and clean-up come with LockInternals. What it has
// to see to:
//
//   - The node is protected and bound to the session: take CreatesTheLock from
//     [StandardLockInternalsDriver]. One that is not ephemeral is a [LockNode] that says
//     so.
//   - The decision follows from the names alone, and from these nobody can tell a holder
//     from one that waits: whoever comes later must not come before a holder.
//   - It cannot become our turn before one of PathsToWatch is gone. What else changes
//     meanwhile need not wake anybody.
//   - If nobody can come to stand before a contender that is there already, it is also a
//     [ShrinkingQueue], as the standard driver is: then a waiter enters when those before
//     it have gone, without another list. A driver that embeds the standard one and
//     orders otherwise has to say no: Shrinks that returns false.
//
// The package's example "composing" is a lock whose operators wait at the front, made
// of a driver, a mutex and a multi-lock.
//
// # With Java
//
// Node names, container parents and the order are those of Apache Curator's
// recipes, so that both sides queue together. A Java contender sees the node's data
// as text: by default host name and process id, see [WithLabel] and [WithLockData].
// The node of a chroot must exist before a Java client can lock below it; ours makes it.
//
//	Curator                                   here
//	mutex.acquire()                           mutex.Acquire(ctx)
//	mutex.acquire(time, unit)                 mutex.Acquire(ctx) with a timeout
//	mutex.release()                           lease.Release(ctx)
//	Locker                                    mutex.Do(ctx, fn)
//	isOwnedByCurrentThread()                  lease.Err() == nil
//	getParticipantNodes()                     mutex.Participants(ctx), for all recipes
//	getLockNodeBytes(), overridden            WithLabel, WithLockData
//	readLock(), writeLock()                   lock.ReadLock(), lock.WriteLock()
//	semaphore.acquire(), acquire(n)           semaphore.Acquire(ctx), AcquireN(ctx, n)
//	InterProcessMultiLock(client, paths)      NewInterProcessMultiLock(members...)
//	SharedCountReader                         MaxLeases; SharedCount: SharedLeases
//	returnLease, returnAll                    lease.Release(ctx)
//	PredicateResults.getPathToWatch           PredicateResults.PathsToWatch
//	ConnectionStateListener, by hand          lease.Context(ctx), lease.Done()
//	makeRevocable(listener)                   WithRevocationListener(fn), lease.Revoked()
//	Revoker.attemptRevoke(client, path)       AttemptRevoke(ctx, client, path)
//	newCondition() of java.util.concurrent    mutex.NewCondition(path); Java contenders do not see it
//
// # With Python
//
// kazoo's Lock keeps the same kind of queue under another name. A [LockInternals] of
// that name queues with it, one holder at a time, in the order of the server; see the
// example. What else there is to know, with kazoo 2.8:
//
//   - Make the folder first, as a node that stays. kazoo makes sure of it once; when the
//     server has removed an empty container of ours, its next acquisition fails.
//   - An [InterProcessMutex] and kazoo's Lock do not exclude each other on one path. With
//     extra_lock_patterns kazoo sees ours, but ours ignores what does not have its
//     name. Java takes every child for a contender, but orders kazoo's wrongly.
//   - kazoo's Semaphore has another layout than either of ours: each child of the folder is
//     a lease, the folder's data is their number as text, and whoever has a Lock at
//     <path>-__lock__ may add one. Two LockInternals make one that goes with it, as
//     testing/internal/interop does.
//   - ReadLock and WriteLock have no counterpart. Their names are others than
//     Curator's, and a reader may wait for a writer that came after it and that waits for the
//     reader (kazoo#649).
//   - kazoo does not tell a holder that it has lost its lock. Its users listen to the
//     state of the connection, or rely on the token.
package locks
