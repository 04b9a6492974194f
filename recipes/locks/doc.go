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
//	defer lease.Release(context.WithoutCancel(ctx))
//	ctx = lease.Context(ctx)           // ends with the lease; carries ownership
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
// Which policy is safe with which session timeout in which partition is said at
// [framework.StandardErrorPolicy]. When somebody else ends the hold at the server,
// by deleting its node or closing its session, the server tells the holder and the
// next in the queue at the same time; the next one needs a round trip more.
//
// The contexts of a lost lease end with a [*LostError] as their cause, Done is
// closed, and Release returns the error.
//
// # What it does not promise
//
// No lock service can stop a process that has been paused for longer than its
// session, by a debugger, a hypervisor or the operating system, and goes on with
// its next statement as if nothing had happened. Only the resource itself can:
// give it [Lease.Token], and let it refuse a token below the greatest it has seen.
// If what is protected is in ZooKeeper, [Lease.Transact] does that.
//
// # Nothing is left behind
//
// However an acquisition or a release ends, its znode is deleted: in the background
// if need be, under the name it was given or, when the reply to its creation was
// lost, after a search for its UUID. Watches are shared and taken back.
//
// # Recipes of one's own
//
// All locks are a [LockInternalsDriver] on [LockInternals]. A driver decides how the
// node is created, who contends in which order, and who has the lock; waiting,
// loss, re-entrancy, cancellation and clean-up come with LockInternals.
//
// # With Java
//
// Node names, container parents and the order are those of Apache Curator's
// recipes, so that both sides queue together. A Java contender sees the node's data
// as text: by default the host name and process id, see [WithLockData].
//
//	Curator                                   here
//	mutex.acquire()                           mutex.Acquire(ctx)
//	mutex.acquire(time, unit)                 mutex.Acquire(ctx) with a timeout
//	mutex.release()                           lease.Release(ctx)
//	Locker                                    mutex.Do(ctx, fn)
//	isOwnedByCurrentThread()                  lease.Err() == nil
//	getParticipantNodes()                     mutex.Participants(ctx)
//	readLock(), writeLock()                   lock.ReadLock(), lock.WriteLock()
//	semaphore.acquire(), acquire(n)           semaphore.Acquire(ctx), AcquireN(ctx, n)
//	InterProcessMultiLock(client, paths)      NewInterProcessMultiLock(members...)
//	SharedCountReader                         MaxLeases; SharedCount: SharedLeases
//	returnLease, returnAll                    lease.Release(ctx)
//	PredicateResults.getPathToWatch           PredicateResults.PathsToWatch
//	ConnectionStateListener, by hand          lease.Context(ctx), lease.Done()
package locks
