// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{
	crowd + "consume an item":                square,
	crowd + "consume a locked item":          square,
	crowd + "remove a locked item and write": square,
	crowd + "a loop over an item":            square,
	crowd + "simple queue: Peek":             square,
	crowd + "start a sharder and consume":    square,
	crowd + "simple queue: Poll":             square,
	crowd + "simple queue: Take":             square,
}

const (
	crowd  = "many participants of one client, and one reset: "
	square = "each consumer reads the list of all items, and those that begin together all try the first one: see doc.go"
)

func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), knownHardships) }

func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, hardshipCalls(), nil) }

// kind is a queue with an envelope, and one put of it.
type kind struct {
	typ  string
	open func(client *framework.Framework, path string, opts ...queues.Option) (source, func(context.Context, ...[]byte) error, error)
}

var due = time.UnixMilli(1)

var kinds = []kind{
	{"DistributedQueue", func(client *framework.Framework, path string, opts ...queues.Option) (source, func(context.Context, ...[]byte) error, error) {
		q, err := queues.NewDistributedQueue(client, path, opts...)
		return q, func(ctx context.Context, items ...[]byte) error { return q.PutMulti(ctx, items...) }, err
	}},
	{"DistributedPriorityQueue", func(client *framework.Framework, path string, opts ...queues.Option) (source, func(context.Context, ...[]byte) error, error) {
		q, err := queues.NewDistributedPriorityQueue(client, path, opts...)
		return q, func(ctx context.Context, items ...[]byte) error { return q.PutMulti(ctx, 5, items...) }, err
	}},
	{"DistributedDelayQueue", func(client *framework.Framework, path string, opts ...queues.Option) (source, func(context.Context, ...[]byte) error, error) {
		q, err := queues.NewDistributedDelayQueue(client, path, opts...)
		return q, func(ctx context.Context, items ...[]byte) error { return q.PutMulti(ctx, due, items...) }, err
	}},
	{"DistributedIdQueue", func(client *framework.Framework, path string, opts ...queues.Option) (source, func(context.Context, ...[]byte) error, error) {
		q, err := queues.NewDistributedIdQueue(client, path, opts...)
		return q, func(ctx context.Context, items ...[]byte) error { return q.PutMulti(ctx, "id", items...) }, err
	}},
}

func hardshipCalls() []hardship.Call {
	var calls []hardship.Call
	for _, k := range kinds {
		calls = append(calls, hardship.Call{
			Name: "put into a " + k.typ, Of: []string{k.typ + ".Put", k.typ + ".PutMulti"}, Requests: 2, May: framework.OutcomeUnknown,
			Prepare: func(s *hardship.Stage) func(context.Context) error {
				_, put, err := k.open(s.Ours, s.Path)
				require.NoError(s.T, err)
				_, theirs, err := k.open(s.Theirs, s.Path)
				require.NoError(s.T, err)
				require.NoError(s.T, theirs(context.Background(), nil))
				return func(ctx context.Context) error { return put(ctx, []byte("a")) }
			},
		})
	}
	return append(calls,
		queueRow("Len", "queue.Len", 1, nil, func(ctx context.Context, q *queues.DistributedQueue) error {
			_, err := q.Len(ctx)
			return err
		}),
		queueRow("a put in the background and a flush", "queue.FlushPuts", 2, []queues.Option{queues.WithPutInBackground()},
			func(ctx context.Context, q *queues.DistributedQueue) error {
				if err := q.Put(ctx, []byte("a")); err != nil {
					return err
				}
				return q.FlushPuts(ctx)
			}),
		queueRow("consume an item", "queue.Consume", 3, nil, consumeOne),
		queueRow("a loop over an item", "queue.Items", 3, nil, func(ctx context.Context, q *queues.DistributedQueue) error {
			for _, err := range q.Items(ctx) {
				return err
			}
			return nil
		}),
		simpleRow("Offer", 2, func(ctx context.Context, q *queues.SimpleDistributedQueue) error { return q.Offer(ctx, []byte("a")) }),
		simpleRow("Peek", 2, func(ctx context.Context, q *queues.SimpleDistributedQueue) error {
			_, err := q.Peek(ctx)
			return err
		}),
		simpleRow("Poll", 3, func(ctx context.Context, q *queues.SimpleDistributedQueue) error {
			_, err := q.Poll(ctx)
			return err
		}),
		simpleRow("Take", 3, func(ctx context.Context, q *queues.SimpleDistributedQueue) error {
			_, err := q.Take(ctx)
			return err
		}),
		lockedRow("consume a locked item", "queue.Consume", 8, queues.WithLockPath, consumeOne),
		lockedRow("remove a locked item and write", "Item.Transact", 8, queues.WithLockPath, transactOne),
		lockedRow("remove an item late and write", "Item.Transact", 5, func(string) queues.Option { return queues.WithLateRemoval() }, transactOne),
		copyRow(),
		sharderRow(),
		removeRow("remove an item", nil, 2),
		removeRow("remove an item that may be locked", []queues.Option{queues.WithLockPath("/removal-locks")}, 3),
	)
}

// transactOne removes the next item and writes its folder in the same transaction.
func transactOne(ctx context.Context, q *queues.DistributedQueue) error {
	for item, err := range q.Items(ctx) {
		if err == nil {
			err = item.Transact(ctx, framework.SetDataOp(q.Path(), item.Data))
		}
		return err
	}
	return nil
}

// consumeOne consumes the next item.
func consumeOne[S source](ctx context.Context, q S) error {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	got := false
	err := q.Consume(stop, func(context.Context, []byte) error {
		got = true
		cancel()
		return nil
	})
	if got && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// plenty is how many items the rival has put into a queue: some for each of a crowd.
func plenty(s *hardship.Stage) int {
	if s.Crowd {
		return 300
	}
	return 3
}

// queueRow is a call of a queue that the rival has filled.
func queueRow(
	name, of string, requests int, opts []queues.Option, made func(ctx context.Context, q *queues.DistributedQueue) error,
) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{of}, Requests: requests, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			theirs := must.Get(queues.NewDistributedQueue(s.Theirs, s.Path, queues.WithPutInBackground()))(s.T)
			for range plenty(s) {
				require.NoError(s.T, theirs.Put(context.Background(), []byte("a")))
			}
			require.NoError(s.T, theirs.FlushPuts(context.Background()))
			q := must.Get(queues.NewDistributedQueue(s.Ours, s.Path, opts...))(s.T)
			return func(ctx context.Context) error { return made(ctx, q) }
		},
	}
}

// copyRow is a put into a queue whose items have numbers that the server gives once more.
func copyRow() hardship.Call {
	return hardship.Call{
		Name: "put into a copy", Of: []string{"DistributedQueue.Put"}, Requests: 5, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			for _, name := range []string{"/queue-0000000003", "/queue-2000000000"} {
				must.Get(s.Theirs.Create(context.Background(), s.Path+name, queues.Encode(nil), framework.CreatingParentsIfNeeded()))(s.T)
			}
			q := must.Get(queues.NewDistributedQueue(s.Ours, s.Path))(s.T)
			return func(ctx context.Context) error { return q.Put(ctx, []byte("a")) }
		},
	}
}

// lockedRow is the consumption of an item under its lock. In the end the rival consumes what is
// left, each item once: none is lost.
func lockedRow(
	name, of string, requests int, opt func(lockPath string) queues.Option, consume func(context.Context, *queues.DistributedQueue) error,
) hardship.Call {
	row := queueRow(name, of, requests, nil, nil)
	row.Prepare = func(s *hardship.Stage) func(context.Context) error {
		const items = 3
		option := opt(s.Path + "-locks")
		theirs := must.Get(queues.NewDistributedQueue(s.Theirs, s.Path, option))(s.T)
		ours := must.Get(queues.NewDistributedQueue(s.Ours, s.Path, option))(s.T)
		for range items {
			require.NoError(s.T, theirs.Put(context.Background(), []byte("a")))
		}
		s.End = func(error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- theirs.Consume(ctx, func(context.Context, []byte) error { return nil }) }()
			for f, err := range s.Theirs.FollowChildren(ctx, s.Path) {
				require.NoError(s.T, err, "%s: %v are left", s.Name, f.Names)
				if len(f.Names) == 0 {
					break
				}
			}
			cancel()
			require.ErrorIs(s.T, <-ended, context.Canceled, s.Name)
		}
		s.Rival = func() { s.End(nil) }
		return func(ctx context.Context) error {
			if s.Crowd { // each has an item of its own, so that none waits for another's
				if err := ours.Put(ctx, []byte("a")); err != nil {
					return err
				}
			}
			return consume(ctx, ours)
		}
	}
	return row
}

// sharderRow starts a sharder of a queue that the rival has filled, and consumes an item. The
// election goes on in the background, and may have made none of its 8 requests when the sharder
// is closed.
func sharderRow() hardship.Call {
	return hardship.Call{
		Name: "start a sharder and consume", Of: []string{"QueueSharder.Start", "QueueSharder.Consume"},
		Requests: 12, Spares: 8, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			theirs := must.Get(queues.NewDistributedQueue(s.Theirs, s.Path+shard, queues.WithPutInBackground()))(s.T)
			for range plenty(s) {
				require.NoError(s.T, theirs.Put(context.Background(), []byte("a")))
			}
			require.NoError(s.T, theirs.FlushPuts(context.Background()))
			return func(ctx context.Context) error {
				open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(s.Ours, path) }
				sharder, err := queues.NewQueueSharder(s.Ours, open, s.Path, s.Path+"-leader", queues.WithThresholdCheck(time.Hour))
				if err != nil {
					return err
				}
				if err := sharder.Start(ctx); err != nil {
					return errors.Join(err, sharder.Close())
				}
				return errors.Join(consumeOne(ctx, sharder), sharder.Close())
			}
		},
	}
}

// simpleRow is a call of a simple queue that the rival has filled.
func simpleRow(method string, requests int, made func(context.Context, *queues.SimpleDistributedQueue) error) hardship.Call {
	return hardship.Call{
		Name: "simple queue: " + method, Of: []string{"SimpleDistributedQueue." + method}, Requests: requests, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			theirs := must.Get(queues.NewSimpleDistributedQueue(s.Theirs, s.Path))(s.T)
			for range plenty(s) {
				require.NoError(s.T, theirs.Offer(context.Background(), []byte("a")))
			}
			ours := must.Get(queues.NewSimpleDistributedQueue(s.Ours, s.Path))(s.T)
			return func(ctx context.Context) error { return made(ctx, ours) }
		},
	}
}

// removeRow is the removal of an item by its id.
func removeRow(name string, opts []queues.Option, requests int) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{"DistributedIdQueue.Remove"}, Requests: requests, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			require.NoError(s.T, must.Get(queues.NewDistributedIdQueue(s.Theirs, s.Path))(s.T).Put(context.Background(), []byte("a"), "id"))
			ours := must.Get(queues.NewDistributedIdQueue(s.Ours, s.Path, opts...))(s.T)
			return func(ctx context.Context) error { _, err := ours.Remove(ctx, "id"); return err }
		},
	}
}
