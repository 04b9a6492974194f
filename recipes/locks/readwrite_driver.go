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
	"github.com/gocurator/curator/recipes/locks/internal/line"
)

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
type readWriteQueue struct{ unlisted }

// Contends reports whether the name is a reader's or a writer's.
func (readWriteQueue) Contends(name string) bool {
	return readSorter.Contends(name) || writeSorter.Contends(name)
}

// Compare compares by sequence number. A downgraded reader has the number of its
// writer, and comes after it.
func (q readWriteQueue) Compare(a, b string) int {
	x, xIsWriter := q.sequence(a)
	y, yIsWriter := q.sequence(b)
	switch d := x - y; {
	case d != 0:
		return cmp.Compare(d, 0)
	case xIsWriter != yIsWriter && xIsWriter:
		return -1
	case xIsWriter != yIsWriter:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

func (readWriteQueue) order() line.Sorter { return readWriteOrder{} }

// readWriteOrder is the order of both sides.
type readWriteOrder struct{ readWriteQueue }

// Number returns the number of a name.
func (readWriteOrder) Number(name string) (int32, bool) {
	if n, ok := writeSorter.Sequence(name); ok {
		return n, true
	}
	return readSorter.Sequence(name)
}

func (readWriteQueue) sequence(name string) (n int32, isWriter bool) {
	if n, isWriter = writeSorter.Sequence(name); !isWriter {
		n, _ = readSorter.Sequence(name)
	}
	return n, isWriter
}

// CreatesTheLock creates the node as for a mutex.
func (readWriteQueue) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (LockNode, error) {
	return StandardLockInternalsDriver{}.CreatesTheLock(ctx, client, session, path, data)
}

// writeDriver lets in the first in the queue.
type writeDriver struct{ readWriteQueue }

// marks is true: see downgradeDriver.CreatesTheLock.
func (writeDriver) marks() bool { return true }

// Shrinks is false for a writer: it may have become a reader in the same place.
func (writeDriver) Shrinks(name string) bool { return !writeSorter.Contends(name) }

// GetsTheLock decides as for a mutex.
func (writeDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error) {
	return StandardLockInternalsDriver{writeSorter}.GetsTheLock(contenders, ours, maxLeases)
}

// readDriver lets in every reader without a writer before it.
type readDriver struct{ readWriteQueue }

// Shrinks is true: only a reader can take the place of a writer, and a reader waits for no
// reader.
func (readDriver) Shrinks(string) bool { return true }

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

// standsLast is false: the reader stands in the writer's place.
func (downgradeDriver) standsLast() bool { return false }

// CreatesTheLock creates the reader's node in the writer's session.
func (d downgradeDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, _ *framework.Session, path string, data []byte,
) (LockNode, error) {
	// Before the check: once the writer is known to hold, its release must prove nothing to
	// the contenders behind it, as the reader may be in its place.
	d.writer.self.unproven.Store(true)
	if err := d.writer.err(); err != nil {
		return LockNode{}, writerEnded(err)
	}
	number := d.writer.node.path[strings.LastIndex(d.writer.node.path, writeName)+len(writeName):]
	node := LockNode{Token: d.writer.node.token}
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
	_, writer := framework.SplitPath(d.writer.node.path)
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
