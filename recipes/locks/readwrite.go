// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

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
	side := spec{client: client, path: path, maxLeases: FixedLeases(1), reenters: true, features: []feature{measured, revocable}}
	side.driver, side.lockName, side.recipe, side.shared = readDriver{}, readName, "rw.read", true
	side.isFull = func(contenders []string, _ int) bool { return slices.ContainsFunc(contenders, writeSorter.Contends) }
	read, err := newLock(side, opts)
	if err != nil {
		return nil, err
	}
	side.driver, side.lockName, side.recipe, side.shared = writeDriver{}, writeName, "rw.write", false
	side.isFull = isFull
	write, err := newLock(side, opts)
	if err != nil {
		return nil, err
	}
	read.driverFor = func(ctx context.Context) (LockInternalsDriver, error) {
		if writer := write.owned(ctx); writer != nil {
			return downgradeDriver{writer: writer}, nil
		}
		return read.driver, nil
	}
	write.driverFor = func(ctx context.Context) (LockInternalsDriver, error) {
		if read.holds(ctx) && !write.holds(ctx) {
			return nil, ErrUpgrade
		}
		return write.driver, nil
	}
	return &InterProcessReadWriteLock{&ReadLock{read}, &WriteLock{write}}, nil
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
	return l.read.inspect(ctx, "participants", func(_ queued, name string) *lock {
		if writeSorter.Contends(name) {
			return l.write.lock
		}
		return l.read.lock
	})
}

// ReadLock is the side of an [InterProcessReadWriteLock] that many owners can hold at once. An
// acquisition blocks until no writer is before it in the queue.
//
// With the context of a write lease of the same lock it downgrades: the read lease is
// granted at once, has a node of its own in the writer's place of the queue, and the
// writer's token. Either lease may be released first. If the write lease has ended, or ends
// during the call, the error says how.
type ReadLock struct{ *lock }

var (
	_ InterProcessLock = (*ReadLock)(nil)
	_ Revocable        = (*ReadLock)(nil)
)

// Participants returns the readers in the order of the queue; see
// [LockInternals.Participants].
func (r *ReadLock) Participants(ctx context.Context) ([]Participant, error) {
	return r.only(ctx, readSorter)
}

// WriteLock is the side of an [InterProcessReadWriteLock] that one owner can hold, while there
// are no readers. An acquisition blocks until no contender is before it in the queue. With the
// context of a read lease alone it fails at once, with an error that matches [ErrUpgrade].
type WriteLock struct{ *lock }

var (
	_ InterProcessLock = (*WriteLock)(nil)
	_ Revocable        = (*WriteLock)(nil)
)

// Participants returns the writers in the order of the queue; see
// [LockInternals.Participants].
func (w *WriteLock) Participants(ctx context.Context) ([]Participant, error) {
	return w.only(ctx, writeSorter)
}

// only returns the participants of one side, with their positions in the common queue.
func (l *lock) only(ctx context.Context, side StandardLockInternalsSorter) ([]Participant, error) {
	return l.inspect(ctx, "participants", func(_ queued, name string) *lock {
		if !side.Contends(name) {
			return nil
		}
		return l
	})
}

// Curator's names for the nodes of the two sides. They have the same length, as Java
// compares the rest of the node's name.
const (
	readName  = "__READ__"
	writeName = "__WRIT__"
)

var (
	readSorter  = StandardLockInternalsSorter{readName}
	writeSorter = StandardLockInternalsSorter{writeName}
)

// readWriteQueue is the part of the drivers that both sides share: one queue in the order
// of the sequence numbers.
type readWriteQueue struct{}

// Contends reports whether the name is a reader's or a writer's.
func (readWriteQueue) Contends(name string) bool {
	return readSorter.Contends(name) || writeSorter.Contends(name)
}

// Compare compares by sequence number. A downgraded reader has the number of its
// writer, and comes after it.
func (q readWriteQueue) Compare(a, b string) int {
	if d := q.number(a) - q.number(b); d != 0 { // the difference wraps as the counter does
		return cmp.Compare(d, 0)
	}
	switch aWrites, bWrites := writeSorter.Contends(a), writeSorter.Contends(b); {
	case aWrites == bWrites:
		return strings.Compare(a, b)
	case aWrites:
		return -1
	default:
		return 1
	}
}

// number returns the number of a contender.
func (readWriteQueue) number(name string) int32 {
	if n, ok := writeSorter.Sequence(name); ok {
		return n
	}
	n, _ := readSorter.Sequence(name)
	return n
}

// CreatesTheLock creates the node as for a mutex.
func (readWriteQueue) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (LockNode, error) {
	return StandardLockInternalsDriver{}.CreatesTheLock(ctx, client, session, path, data)
}

// writeDriver lets in the first in the queue.
type writeDriver struct{ readWriteQueue }

// GetsTheLock decides as for a mutex.
func (writeDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error) {
	return StandardLockInternalsDriver{writeSorter}.GetsTheLock(contenders, ours, maxLeases)
}

// readDriver lets in every reader without a writer before it.
type readDriver struct{ readWriteQueue }

// GetsTheLock has the reader wait for the nearest writer before it. A writer with the
// reader's own number is the writer that became this reader.
func (readDriver) GetsTheLock(contenders []string, ours string, _ int) (PredicateResults, error) {
	i := slices.Index(contenders, ours)
	number, _ := readSorter.Sequence(ours)
	switch {
	case number == math.MaxInt32:
		return PredicateResults{}, ErrSequenceExhausted
	case i < 0:
		return PredicateResults{}, notListed(ours)
	}
	for _, name := range slices.Backward(contenders[:i]) {
		if n, isWriter := writeSorter.Sequence(name); isWriter && n != number {
			return PredicateResults{PathsToWatch: []string{name}}, nil
		}
	}
	return PredicateResults{GetsTheLock: true}, nil
}

// downgradeDriver makes the owner of the write lock a reader in the same place of the queue:
// the name of the reader's node ends with the writer's number, and the server appends none
// (CURATOR-621).
type downgradeDriver struct {
	readDriver

	writer *hold
}

// CreatesTheLock creates the reader's node in the writer's session.
func (d downgradeDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, _ *framework.Session, path string, data []byte,
) (LockNode, error) {
	if err := d.writer.err(); err != nil {
		return LockNode{}, writerEnded(err)
	}
	number := d.writer.node.Path[strings.LastIndex(d.writer.node.Path, writeName)+len(writeName):]
	node := LockNode{Token: d.writer.token}
	var err error
	node.Path, err = client.Create(ctx, path+number, data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.Ephemeral), framework.InSession(d.writer.session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

// GetsTheLock admits the reader if and only if its own node and the writer's are in the list.
// The list was read after the reader's node was created, so both nodes existed together, and no
// other writer can have entered in between. A writer before this one has let it in already, and
// only its node is still to be deleted.
func (d downgradeDriver) GetsTheLock(contenders []string, ours string, _ int) (PredicateResults, error) {
	_, writer := framework.SplitPath(d.writer.node.Path)
	switch {
	case !slices.Contains(contenders, ours):
		return PredicateResults{}, notListed(ours)
	case slices.Contains(contenders, writer):
		return PredicateResults{GetsTheLock: true}, nil
	}
	if err := d.writer.err(); err != nil {
		return PredicateResults{}, writerEnded(err)
	}
	return PredicateResults{}, writerEnded(&LostError{Reason: framework.ReasonNodeDeleted})
}

func writerEnded(err error) error {
	return fmt.Errorf("the write lease to be downgraded has ended: %w", err)
}
