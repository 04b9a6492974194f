// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// DistributedQueue is a queue: first in, first out, as long as there is one
// consumer. It shares its znodes with Curator's class of that name.
//
// Layout: <path>/queue-<10 digits>, persistent, with one item or several in
// Curator's envelope.
//
// It is safe for concurrent use.
type DistributedQueue struct{ *queue }

// NewDistributedQueue returns the queue at path. It checks its arguments and
// sends nothing.
func NewDistributedQueue(client *framework.Framework, path string, opts ...Option) (*DistributedQueue, error) {
	q, err := newQueue(client, path, fifo, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedQueue{q}, nil
}

// Put puts an item at the end of the queue. If [framework.OutcomeUnknown] is
// true for its error, the item may be in the queue.
func (q *DistributedQueue) Put(ctx context.Context, item []byte) error {
	return q.PutMulti(ctx, item)
}

// PutMulti is Put for several items in one znode, which one consumer gets.
func (q *DistributedQueue) PutMulti(ctx context.Context, items ...[]byte) error {
	return q.add(ctx, itemPrefix, items)
}

// DistributedPriorityQueue is a queue in which items with a lower priority number
// come first. Items of equal priority come in the order of their arrival. It shares
// its znodes with Curator's class of that name.
//
// Layout: as in a [DistributedQueue], with the priority in front of the
// digits: 0 for negative ones or 1, and eight hexadecimal digits.
//
// It is safe for concurrent use.
type DistributedPriorityQueue struct{ *queue }

// NewDistributedPriorityQueue returns the queue at path. It checks its
// arguments and sends nothing.
func NewDistributedPriorityQueue(client *framework.Framework, path string, opts ...Option) (*DistributedPriorityQueue, error) {
	q, err := newQueue(client, path, byPriority, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedPriorityQueue{q}, nil
}

// Put puts an item into the queue. See [DistributedQueue.Put].
func (q *DistributedPriorityQueue) Put(ctx context.Context, item []byte, priority int32) error {
	return q.PutMulti(ctx, priority, item)
}

// PutMulti is Put for several items in one znode, which one consumer gets.
func (q *DistributedPriorityQueue) PutMulti(ctx context.Context, priority int32, items ...[]byte) error {
	return q.add(ctx, prioritized(priority), items)
}

// DistributedDelayQueue is a queue that keeps each item until a time of its
// own, by the clocks of the consumers. It shares its znodes with Curator's class
// of that name.
//
// Layout: as in a [DistributedQueue], with the time in front of the digits:
// milliseconds since 1970 in hexadecimal digits, between two "|".
//
// It is safe for concurrent use.
type DistributedDelayQueue struct{ *queue }

// NewDistributedDelayQueue returns the queue at path. It checks its arguments
// and sends nothing.
func NewDistributedDelayQueue(client *framework.Framework, path string, opts ...Option) (*DistributedDelayQueue, error) {
	q, err := newQueue(client, path, byTime, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedDelayQueue{q}, nil
}

// Put puts an item into the queue that no consumer gets before a time. The time
// is rounded up to milliseconds and must be after 1970 began. See
// [DistributedQueue.Put].
func (q *DistributedDelayQueue) Put(ctx context.Context, item []byte, at time.Time) error {
	return q.PutMulti(ctx, at, item)
}

// PutMulti is Put for several items in one znode, which one consumer gets.
func (q *DistributedDelayQueue) PutMulti(ctx context.Context, at time.Time, items ...[]byte) error {
	milliseconds := at.Add(time.Millisecond - 1).UnixMilli()          //nolint:forbidigo // Curator's unit, for other processes
	if milliseconds <= 0 || time.UnixMilli(milliseconds).Before(at) { // the number does not hold a time so late
		return wrap("put into "+q.path, fmt.Errorf("due at %v, expected a time after 1970 began, in milliseconds that 63 bits hold", at))
	}
	return q.add(ctx, delayed(milliseconds), items)
}

// DistributedIdQueue is a [DistributedQueue] whose items have ids, by which
// they can be removed. Several items may have the same id. It shares its znodes
// with Curator's class of that name.
//
// Layout: as in a DistributedQueue, with the id in front of the digits, between
// two "|". A "/" or "|" in the id becomes "_".
//
// It is safe for concurrent use.
type DistributedIdQueue struct{ *queue } //nolint:revive // Curator's name

// NewDistributedIdQueue returns the queue at path. It checks its arguments and
// sends nothing.
//
//nolint:revive // Curator's name
func NewDistributedIdQueue(client *framework.Framework, path string, opts ...Option) (*DistributedIdQueue, error) {
	q, err := newQueue(client, path, byNumber, opts)
	if err != nil {
		return nil, err
	}
	return &DistributedIdQueue{q}, nil
}

var errNoID = errors.New(`id "", expected one that is not empty`)

// Put puts an item at the end of the queue. See [DistributedQueue.Put].
func (q *DistributedIdQueue) Put(ctx context.Context, item []byte, id string) error {
	return q.PutMulti(ctx, id, item)
}

// PutMulti is Put for several items in one znode, which one consumer gets.
func (q *DistributedIdQueue) PutMulti(ctx context.Context, id string, items ...[]byte) error {
	if id == "" {
		return wrap("put into "+q.path, errNoID)
	}
	return q.add(ctx, identified(id), items)
}

// Remove removes all znodes with this id that no consumer has locked, and
// returns how many it has removed.
//
// If [framework.OutcomeUnknown] is true for its error, one more may have been
// removed by this call.
func (q *DistributedIdQueue) Remove(ctx context.Context, id string) (int, error) {
	if id == "" {
		return 0, wrap("remove from "+q.path, errNoID)
	}
	names, err := list(ctx, q.client, q.path, itemPrefix, nil)
	removed := 0
	for _, name := range names {
		if between(name) != cleanID(id) {
			continue
		}
		switch err := q.removeUnlocked(ctx, name); {
		case err == nil:
			removed++
		case attempt.Overtaken(err), errors.Is(err, framework.ErrNotEmpty): // a consumer has it
		default:
			return removed, wrap("remove", err)
		}
	}
	return removed, wrap("remove from "+q.path, err)
}

// removeUnlocked deletes an item unless a consumer has locked it. Then its error
// matches [attempt.Overtaken].
func (q *DistributedIdQueue) removeUnlocked(ctx context.Context, name string) error {
	item := framework.JoinPath(q.path, name)
	if q.cfg.lockPath == "" {
		return attempt.Conditional(func() error { return q.client.Delete(ctx, item) })
	}
	if err := ensure(ctx, q.client, q.cfg.lockPath); err != nil {
		return err
	}
	lock := q.lockOf(name)
	return attempt.Conditional(func() error {
		// Nothing stays of the lock, but it cannot be made where there is one.
		_, err := q.client.Transact(ctx, framework.DeleteOp(item), framework.CreateOp(lock, nil), framework.DeleteOp(lock))
		return err
	})
}
