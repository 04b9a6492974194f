package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ErrEmpty says that a queue has no item.
var ErrEmpty = errors.New("the queue is empty")

// simplePrefix begins the name of every item, as in ZooKeeper's own recipe.
const simplePrefix = "qn-"

// SimpleDistributedQueue is a queue of bytes: first in, first out. It shares its
// znodes with Curator's class of that name and with the queue of ZooKeeper's
// own recipes.
//
// Layout: <path>/qn-<10 digits>, persistent, below container nodes. The data is
// the item, without an envelope.
//
// It is safe for concurrent use.
type SimpleDistributedQueue struct {
	client *framework.Framework
	path   string
}

// NewSimpleDistributedQueue returns the queue at path. It checks its arguments
// and sends nothing.
func NewSimpleDistributedQueue(client *framework.Framework, path string) (*SimpleDistributedQueue, error) {
	if err := validate(client, path); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	return &SimpleDistributedQueue{client, path}, nil
}

// Path returns the path of the queue.
func (q *SimpleDistributedQueue) Path() string { return q.path }

// Offer puts an item at the end of the queue. If [framework.OutcomeUnknown] is
// true for its error, the item may be in the queue.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, data []byte) error {
	_, err := q.client.Create(ctx, framework.JoinPath(q.path, simplePrefix), data,
		framework.WithMode(framework.PersistentSequential), framework.CreatingParentContainersIfNeeded())
	return wrap("offer", err)
}

// Peek returns the first item and leaves it there, or fails with [ErrEmpty].
func (q *SimpleDistributedQueue) Peek(ctx context.Context) ([]byte, error) {
	data, err := q.first(ctx, nil, q.read)
	return data, wrap("peek at "+q.path, err)
}

// Poll removes the first item and returns it, or fails with [ErrEmpty].
//
// If [framework.OutcomeUnknown] is true for its error, Poll returns the item as
// well. Either Poll has removed it, or it may still be in the queue, or another
// consumer has it.
func (q *SimpleDistributedQueue) Poll(ctx context.Context) ([]byte, error) {
	data, err := q.first(ctx, nil, q.remove)
	return data, wrap("poll "+q.path, err)
}

// Take removes the first item and returns it. It blocks while the queue is
// empty, until ctx ends. It survives the loss of the connection and of the
// session, and fails when requests fail for longer than the retry policy
// allows. See [SimpleDistributedQueue.Poll] for an unknown outcome.
func (q *SimpleDistributedQueue) Take(ctx context.Context) ([]byte, error) {
	for {
		var watch *framework.Watch
		data, err := q.first(ctx, &watch, q.remove)
		if errors.Is(err, ErrEmpty) {
			_, err = watch.Wait(ctx)
			if err == nil {
				continue // it has ended and leaves nothing
			}
		}
		watch.Cancel()
		return data, wrap("take from "+q.path, err)
	}
}

// first calls use with the items of the queue, in order, until one is not gone.
// With into it sets a watch that ends when the list changes.
func (q *SimpleDistributedQueue) first(
	ctx context.Context, into **framework.Watch, use func(context.Context, string) ([]byte, error),
) ([]byte, error) {
	for {
		names, err := list(ctx, q.client, q.path, simplePrefix, into)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, ErrEmpty
		}
		slices.SortFunc(names, compareNumbers)
		for _, name := range names {
			data, err := use(ctx, framework.JoinPath(q.path, name))
			if !attempt.Overtaken(err) {
				return data, err
			}
		}
		// All are gone, but others may have come before the last of them went.
		if into != nil {
			(*into).Cancel()
		}
	}
}

func (q *SimpleDistributedQueue) read(ctx context.Context, path string) ([]byte, error) {
	return q.client.Get(ctx, path)
}

func (q *SimpleDistributedQueue) remove(ctx context.Context, path string) ([]byte, error) {
	var stat framework.Stat
	data, err := q.client.Get(ctx, path, framework.StoringStatIn(&stat))
	if err != nil {
		return nil, err
	}
	if err := remove(ctx, q.client, path, &stat); err != nil {
		if framework.OutcomeUnknown(err) {
			return data, err
		}
		return nil, err
	}
	return data, nil
}
