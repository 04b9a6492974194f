// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// InterProcessReadWriteLock is a pair of locks across processes and machines: any
// number of owners may hold the [ReadLock], or one the [WriteLock]. It shares its
// queue with Curator's class of that name.
//
// It is fair: readers and writers enter in the order in which the server has created their
// nodes, and a reader does not overtake a waiting writer. Both sides are re-entrant by
// context. Acquire, TryAcquire and Do are methods of the sides:
//
//	err := lock.ReadLock().Do(ctx, show)
//	err = lock.WriteLock().Do(ctx, change)
//
// A writer can become a reader without a gap in which another writer gets in: it acquires
// the read lock with the context of its write lease, and then releases that lease. A reader
// cannot become a writer, see [ErrUpgrade].
//
// Layout: <path>/_c_<uuid>-__READ__<10 digits> and <path>/_c_<uuid>-__WRIT__<10
// digits>, ephemeral, numbered from one counter, below container nodes. A writer
// waits for the node before it. A reader waits for the nearest writer before it, so a
// departing writer wakes only the readers it was blocking, plus at most one that prepares
// its own turn. Curator's readers wait for the first writer, and wake up in vain while other
// writers are between.
//
// It is safe for concurrent use. Two InterProcessReadWriteLock on one path and
// client are the same lock.
type InterProcessReadWriteLock struct {
	read  *ReadLock
	write *WriteLock
}

// NewInterProcessReadWriteLock returns the read/write lock at path. It checks its
// arguments and sends nothing.
func NewInterProcessReadWriteLock(client *framework.Framework, path string, opts ...Option) (*InterProcessReadWriteLock, error) {
	side := spec{client: client, path: path, maxLeases: FixedLeases(1), reenters: true}
	side.driver, side.lockName, side.opts = readDriver{}, readName, named("rw.read", opts)
	read, err := newInternals(side)
	if err != nil {
		return nil, err
	}
	side.driver, side.lockName, side.opts = writeDriver{}, writeName, named("rw.write", opts)
	write, err := newInternals(side)
	if err != nil {
		return nil, err
	}
	return &InterProcessReadWriteLock{&ReadLock{read, write}, &WriteLock{write, read}}, nil
}

// ReadLock returns the side that many can hold.
func (l *InterProcessReadWriteLock) ReadLock() *ReadLock { return l.read }

// WriteLock returns the side that one can hold.
func (l *InterProcessReadWriteLock) WriteLock() *WriteLock { return l.write }

// Path returns the path of the lock, the folder of its nodes.
func (l *InterProcessReadWriteLock) Path() string { return l.read.Path() }

// Participants returns the readers and writers in the order of the queue; see
// [LockInternals.Participants].
func (l *InterProcessReadWriteLock) Participants(ctx context.Context) ([]Participant, error) {
	return l.read.internals.participants(ctx, func(name string) *LockInternals {
		if _, isWriter := writeSorter.Sequence(name); isWriter {
			return l.write.internals
		}
		return l.read.internals
	})
}

// ReadLock is the side of an [InterProcessReadWriteLock] that many owners can hold
// at once.
type ReadLock struct {
	internals *LockInternals
	write     *LockInternals
}

var _ InterProcessLock = (*ReadLock)(nil)

// Path returns the path of the read/write lock.
func (r *ReadLock) Path() string { return r.internals.Path() }

// Acquire blocks until no writer is before this reader in the queue, and returns its
// lease. It follows the contract of [InterProcessMutex.Acquire]: the context bounds the
// wait, and the context of a read lease re-enters.
//
// With the context of a write lease of the same lock it downgrades: the read lease is
// granted at once, has a node of its own in the writer's place of the queue, and the
// writer's token. Either lease may be released first. If the write lease has ended, or ends
// during the call, the error says how.
func (r *ReadLock) Acquire(ctx context.Context) (*Lease, error) {
	return r.internals.attemptLock(ctx, r.entry(ctx, true))
}

// TryAcquire is Acquire without the wait: with a writer before this reader it
// returns an error that matches [ErrNotAcquired].
func (r *ReadLock) TryAcquire(ctx context.Context) (*Lease, error) {
	return r.internals.attemptLock(ctx, r.entry(ctx, false))
}

// entry describes the acquisition of a reader. The owner of the write lock becomes a reader
// in the writer's place.
func (r *ReadLock) entry(ctx context.Context, wait bool) entry {
	e := r.internals.entry(wait)
	if writer := r.write.owned(ctx); writer != nil {
		e.driver = downgradeDriver{writer: writer}
	}
	return e
}

// Do runs fn while the read lock is held; see [Do].
func (r *ReadLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, r, fn)
}

// Participants returns the readers in the order of the queue; see
// [LockInternals.Participants].
func (r *ReadLock) Participants(ctx context.Context) ([]Participant, error) {
	return r.internals.only(ctx, readSorter)
}

// WriteLock is the side of an [InterProcessReadWriteLock] that one owner can hold,
// while there are no readers.
type WriteLock struct {
	internals *LockInternals
	read      *LockInternals
}

var _ InterProcessLock = (*WriteLock)(nil)

// Path returns the path of the read/write lock.
func (w *WriteLock) Path() string { return w.internals.Path() }

// Acquire blocks until no contender is before this writer in the queue, and returns its
// lease. It follows the contract of [InterProcessMutex.Acquire]: the context bounds the
// wait, and the context of a write lease re-enters. With the context of a read lease alone
// it fails at once, with an error that matches [ErrUpgrade].
func (w *WriteLock) Acquire(ctx context.Context) (*Lease, error) {
	if err := w.refuseUpgrade(ctx); err != nil {
		return nil, err
	}
	return w.internals.Acquire(ctx)
}

// TryAcquire is Acquire without the wait: with a contender before this writer it returns an
// error that matches [ErrNotAcquired].
func (w *WriteLock) TryAcquire(ctx context.Context) (*Lease, error) {
	if err := w.refuseUpgrade(ctx); err != nil {
		return nil, err
	}
	return w.internals.TryAcquire(ctx)
}

// refuseUpgrade returns an error if ctx holds the read lock and not the write lock.
func (w *WriteLock) refuseUpgrade(ctx context.Context) error {
	reader, writer := w.read.owned(ctx), w.internals.owned(ctx)
	reads, writes := reader != nil && reader.err() == nil, writer != nil && writer.err() == nil
	if reads && !writes {
		return fmt.Errorf("locks: acquire %s: %w", w.Path(), ErrUpgrade)
	}
	return nil
}

// Do runs fn while the write lock is held; see [Do].
func (w *WriteLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, w, fn)
}

// Participants returns the writers in the order of the queue; see
// [LockInternals.Participants].
func (w *WriteLock) Participants(ctx context.Context) ([]Participant, error) {
	return w.internals.only(ctx, writeSorter)
}

// only returns the participants of one side, with their positions in the common queue.
func (l *LockInternals) only(ctx context.Context, side StandardLockInternalsSorter) ([]Participant, error) {
	return l.participants(ctx, func(name string) *LockInternals {
		if !side.Contends(name) {
			return nil
		}
		return l
	})
}
