// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ErrEmpty says that a queue has no item.
var ErrEmpty = errors.New("the queue is empty")

// SimpleDistributedQueue is a queue of bytes: first in, first out. It shares its
// znodes with Curator's class of that name and with the queue of ZooKeeper's
// own recipes.
//
// Layout: <path>/qn-<10 digits>, persistent. The data is the item, without an envelope. Znodes with
// other names stay where they are. The
// folder at path is persistent too, and stays when it is empty. Curator's class makes it a
// container: servers remove that when it has been empty for a minute or so, and its numbers begin
// again. A consumer that reads an item before that and deletes it afterwards may delete a new item
// of the same name. Where Curator may offer the first item, create the folder beforehand.
//
// It lists the items once for a thousand of them, and keeps their names. So an item
// costs two requests, or more if other consumers are faster.
//
// It is safe for concurrent use.
type SimpleDistributedQueue struct {
	client *framework.Framework
	path   string
	folder *folder

	telemetry telemetry

	mu    sync.Mutex
	heads heads // guarded by mu; never changed in place
}

// heads is the beginning of a queue: the names of the newest list, in order, without the
// items that have gone since. Every item that is put after the list comes after them.
type heads struct {
	names []string
	listed
}

// listed says when a list was read.
type listed struct {
	history int64 // see framework.Framework.History
	zxid    int64 // of the last change before the list
}

// maxHeads bounds the names that a queue keeps between its calls.
const maxHeads = 1000

// NewSimpleDistributedQueue returns the queue at path. It checks its arguments
// and sends nothing.
func NewSimpleDistributedQueue(client *framework.Framework, path string) (*SimpleDistributedQueue, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	measured, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("queues: %s: %w", path, err)
	}
	return &SimpleDistributedQueue{client: client, path: path, folder: newFolder(client, path, simplePrefix), telemetry: measured}, nil
}

// Path returns the path of the queue.
func (q *SimpleDistributedQueue) Path() string { return q.path }

// Offer puts an item at the end of the queue. If [framework.OutcomeUnknown] is
// true for its error, the item may be in the queue.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, data []byte) error {
	if ctx == nil {
		return wrap("offer", attempt.ErrNilContext)
	}
	err := q.folder.create(ctx, func() error {
		_, err := q.client.Create(ctx, framework.JoinPath(q.path, simplePrefix), data, framework.WithMode(framework.PersistentSequential))
		return err
	})
	if err == nil {
		q.telemetry.put.Add(1)
	}
	return wrap("offer", err)
}

// Peek returns the first item and leaves it there, or fails with [ErrEmpty]. With
// [framework.WithCompression] an item that is not compressed is left out, and the log says so. Poll and Take leave out
// such items, too.
func (q *SimpleDistributedQueue) Peek(ctx context.Context) ([]byte, error) {
	data, _, err := q.first(ctx, nil, false)
	return data, wrap("peek at "+q.path, err)
}

// Poll removes the first item and returns it, or fails with [ErrEmpty].
//
// If [framework.OutcomeUnknown] is true for its error, Poll returns the item as
// well. Either Poll has removed it, or it may still be in the queue, or another
// consumer has it.
func (q *SimpleDistributedQueue) Poll(ctx context.Context) ([]byte, error) {
	data, _, err := q.first(ctx, nil, true)
	return data, wrap("poll "+q.path, err)
}

// Take removes the first item and returns it. It blocks while the queue is
// empty, until ctx ends. It survives the loss of the connection and of the
// session, and fails when requests fail for longer than the retry policy
// allows. See [SimpleDistributedQueue.Poll] for an unknown outcome.
func (q *SimpleDistributedQueue) Take(ctx context.Context) ([]byte, error) {
	for {
		var watch *framework.Watch
		data, empty, err := q.first(ctx, &watch, true)
		if empty {
			_, err = watch.Wait(ctx)
			if err == nil {
				continue // it has ended and leaves nothing
			}
		}
		watch.Cancel()
		return data, wrap("take from "+q.path, err)
	}
}

// first returns the first item that is not gone, and removes it if asked to. If it lists the items
// and into is not nil, it sets a watch that ends when the list changes. If the queue is
// empty, it says so beside [ErrEmpty], which the cause of a context may match as well.
func (q *SimpleDistributedQueue) first(ctx context.Context, into **framework.Watch, removes bool) (data []byte, empty bool, err error) {
	for {
		known, isNew, err := q.known(ctx, into)
		if err != nil {
			return nil, false, err
		}
		leftOut := 0
		for _, name := range known.names {
			data, err := q.read(ctx, name, known.listed, removes)
			if errors.Is(err, errOtherFolder) {
				q.keep(heads{})
				break
			}
			switch {
			case errors.Is(err, framework.ErrCompression):
				leftOut++
				q.client.Logger().Error("an item cannot be decompressed and stays in its queue", logPath, q.path, "name", name, "error", err)
			case !attempt.Overtaken(err):
				return data, false, err
			}
			q.forget(name, known.listed)
		}
		if isNew && leftOut == len(known.names) {
			return nil, true, ErrEmpty
		}
		// All are gone, or from another folder. Other items may have come since the list.
		if into != nil {
			(*into).Cancel()
		}
	}
}

// known returns the beginning of the queue. It lists the items only if all that it knew of
// have gone, and says so.
func (q *SimpleDistributedQueue) known(ctx context.Context, into **framework.Watch) (known heads, isNew bool, err error) {
	q.mu.Lock()
	known = q.heads
	q.mu.Unlock()
	history := q.client.History()
	if len(known.names) > 0 && known.history == history {
		return known, false, nil
	}
	var stat framework.Stat
	names, err := list(ctx, q.client, q.path, simplePrefix, into, framework.StoringStatIn(&stat))
	if err != nil {
		return heads{}, false, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { // which is no item
		_, ok := framework.SequenceNumber(name, simplePrefix)
		return !ok
	})
	slices.SortFunc(names, compareNumbers)
	known = heads{make([]string, min(len(names), maxHeads)), listed{history, stat.Pzxid}}
	for i := range known.names {
		known.names[i] = strings.Clone(names[i]) // a part of the reply would keep all of it in memory
	}
	q.keep(known)
	return known, true, nil
}

func (q *SimpleDistributedQueue) keep(known heads) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heads = known
}

// forget removes an item that has gone, and the items before it, from that list. It does
// nothing if another list is known by now.
func (q *SimpleDistributedQueue) forget(name string, at listed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.heads.names, name); i >= 0 && q.heads.listed == at {
		q.heads.names = q.heads.names[i+1:]
	}
}

// errOtherFolder says that the folder may have been created again since it was listed. Its
// numbers have then begun again, and the list says nothing about its order.
var errOtherFolder = errors.New("the folder may have been created again after the list")

// read returns an item by its name in the list of that time, and removes it if asked to.
func (q *SimpleDistributedQueue) read(ctx context.Context, name string, at listed, removes bool) ([]byte, error) {
	path, history := framework.JoinPath(q.path, name), q.client.History()
	var stat framework.Stat
	data, err := q.client.Get(ctx, path, framework.StoringStatIn(&stat))
	switch {
	case err != nil:
		return nil, err
	case stat.Czxid > at.zxid || q.client.History() != at.history:
		return nil, errOtherFolder
	case !removes:
		return data, nil
	}
	switch err := remove(ctx, q.client, path, &stat, history); {
	case framework.OutcomeUnknown(err):
		return data, err
	case attempt.NotSent(err):
		return nil, errOtherFolder
	case errors.Is(err, framework.ErrBadVersion):
		return q.read(ctx, name, at, removes) // it was written, and is still the first
	case err != nil:
		return nil, err
	}
	q.forget(name, at)
	q.telemetry.consumed.Add(1)
	return data, nil
}
