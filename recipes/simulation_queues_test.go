// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zksim"
)

// queueSimulations are programs of queues, by name.
var queueSimulations = map[string]zksim.Program{
	"queue":                         queueOf("", false, openPlain),
	"queue with locks":              queueOf(lockPath, false, openPlain),
	"priority queue with locks":     queueOf(lockPath, false, openPriority),
	"delay queue with locks":        queueOf(lockPath, false, openDelay),
	"id queue with locks":           queueOf(lockPath, false, openID),
	"queue and sessions that go on": inSessionsThatGoOn(openPlain),
	"priority queue likewise":       inSessionsThatGoOn(openPriority),
	"delay queue likewise":          inSessionsThatGoOn(openDelay),
	"id queue likewise":             inSessionsThatGoOn(openID),
	"queue whose folder goes":       queueOf(lockPath, true, openPlain),
}

const lockPath = "/queue-locks"

// inSessionsThatGoOn is about a queue with locks that loses requests and replies, and no sessions: it gives each item once.
func inSessionsThatGoOn(open opener) zksim.Program {
	p := queueOf(lockPath, false, open)
	p.Faults, p.Options = []zksim.Fault{zksim.LoseRequests, zksim.LoseReplies}, nil
	return p
}

// consumer is a queue of any kind.
type consumer interface {
	Items(ctx context.Context) iter.Seq2[*queues.Item, error]
}

// opener opens a queue. put puts an item, and says when it is due.
type opener = func(client *framework.Framework, opts ...queues.Option) (c consumer, put func(ctx context.Context, random *rand.Rand, item []byte) (time.Time, error), err error)

func openPlain(client *framework.Framework, opts ...queues.Option) (consumer, func(context.Context, *rand.Rand, []byte) (time.Time, error), error) {
	q, err := queues.NewDistributedQueue(client, "/queue", opts...)
	return q, func(ctx context.Context, _ *rand.Rand, item []byte) (time.Time, error) {
		return time.Time{}, q.Put(ctx, item)
	}, err
}

func openPriority(client *framework.Framework, opts ...queues.Option) (consumer, func(context.Context, *rand.Rand, []byte) (time.Time, error), error) {
	q, err := queues.NewDistributedPriorityQueue(client, "/queue", opts...)
	return q, func(ctx context.Context, random *rand.Rand, item []byte) (time.Time, error) {
		return time.Time{}, q.Put(ctx, item, random.Int32N(3))
	}, err
}

func openDelay(client *framework.Framework, opts ...queues.Option) (consumer, func(context.Context, *rand.Rand, []byte) (time.Time, error), error) {
	q, err := queues.NewDistributedDelayQueue(client, "/queue", opts...)
	return q, func(ctx context.Context, random *rand.Rand, item []byte) (time.Time, error) {
		at := time.Now().Add(upTo(random, 5*time.Second))
		return at, q.Put(ctx, item, at)
	}, err
}

func openID(client *framework.Framework, opts ...queues.Option) (consumer, func(context.Context, *rand.Rand, []byte) (time.Time, error), error) {
	q, err := queues.NewDistributedIdQueue(client, "/queue", opts...)
	return q, func(ctx context.Context, _ *rand.Rand, item []byte) (time.Time, error) {
		return time.Time{}, q.Put(ctx, item, string(item))
	}, err
}

// deleteFolder deletes a queue by hand. Items that were put before now may be gone, or come again.
func (i *items) deleteFolder(ctx context.Context, w *zksim.World, c *zksim.Client) {
	i.Lock()
	i.deletions++
	i.Unlock()
	err := c.Delete(ctx, "/queue", framework.DeletingChildrenIfNeeded(), framework.WithVersion(framework.AnyVersion))
	w.Logf("client %d deletes the queue: %v", c.Index, err)
	i.Lock()
	defer i.Unlock()
	i.deletions--
	for item := range i.offered {
		i.offered[item] = errFolderGone
	}
}

var errFolderGone = errors.New("the folder was deleted meanwhile")

// queueOf is about items of a queue: none is lost if consumers lock items, two consumers never have one at a time, and none is there
// before it is due.
func queueOf(locks string, folderGoes bool, open opener) zksim.Program {
	type due = sync.Map
	return zksim.Program{
		Clients:  4,
		Actions:  8,
		Requests: 160, // a consumer may take all items that there are at once, four requests each
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all := zksim.State[items](w)
			var opts []queues.Option
			if locks != "" {
				opts = append(opts, queues.WithLockPath(locks))
			}
			queue, put, err := open(c.Framework, opts...)
			*zksim.State[ends](w) = ends{
				put: func(ctx context.Context, item []byte) error {
					_, err := put(ctx, rand.New(rand.NewPCG(0, 0)), item)
					return err
				},
				takeAll: func(ctx context.Context, take func(item []byte) (goesOn bool)) error {
					for item, err := range queue.Items(ctx) {
						if err != nil {
							return err
						}
						if !take(item.Data) {
							return nil
						}
					}
					return nil
				},
			}
			return func(ctx context.Context, random *rand.Rand) {
				switch n := random.IntN(8); {
				case n == 0 && folderGoes:
					all.deleteFolder(ctx, w, c)
					return
				case n < 4:
					all.offer(w, c, func(item []byte) error {
						at, err := put(ctx, random, item)
						zksim.State[due](w).Store(string(item), at)
						return err
					})
					return
				default:
				}
				consuming, cancel := context.WithTimeout(ctx, upTo(random, 8*time.Second))
				defer cancel()
				for item, err := range queue.Items(consuming) {
					if err != nil {
						if w.Logf("client %d: %v", c.Index, err); consuming.Err() == nil {
							w.Findf("client %d: a consumer has ended before its context: %v", c.Index, err)
						}
						return
					}
					if at, ok := zksim.State[due](w).Load(string(item.Data)); ok && time.Until(at.(time.Time)) > time.Millisecond { // names have milliseconds
						w.Findf("client %d has %s before %v", c.Index, item.Data, at)
					}
					if random.IntN(8) == 0 {
						return // the item stays
					}
					consume(w, c, all, item, locks != "", random)
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			left := make(map[string]bool)
			all := zksim.State[items](w)
			for _, z := range w.Servers.Znodes("/queue") {
				for item := range all.offered {
					if bytes.Contains(z.Data, []byte(item)) {
						left[item] = true
					}
				}
			}
			all.settle(w, left, locks != "")
			zksim.State[ends](w).drain(ctx, w, left)
		},
	}
}

// ends are the two ends of a queue, at one client.
type ends struct {
	put     func(ctx context.Context, item []byte) error
	takeAll func(ctx context.Context, take func(item []byte) (goesOn bool)) error
}

// drain puts one more item, and takes all that are left. An item that does not come within a minute is stuck.
func (e *ends) drain(ctx context.Context, w *zksim.World, left map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	left["last"] = true
	err := e.put(ctx, []byte("last"))
	if err == nil {
		err = e.takeAll(ctx, func(item []byte) bool {
			delete(left, string(item))
			return len(left) > 0
		})
	}
	for item := range left {
		w.Findf("no consumer gets %s, which is in the queue: %v", item, err)
	}
}

// consume has an item for a while.
func consume(w *zksim.World, c *zksim.Client, all *items, item *queues.Item, isLocked bool, random *rand.Rand) {
	if !isLocked {
		all.take(w, c, item.Data, nil)
		return
	}
	leave := w.Enter(zksim.Hold{
		Key: item.Path(), Client: c.Index, Exclusive: true, IsOver: func() bool { return item.Context().Err() != nil },
	})
	defer leave()
	time.Sleep(upTo(random, 500*time.Millisecond))
	if random.IntN(4) == 0 {
		item.Fail(errors.New("it has to come again"))
		return
	}
	// An item comes again if the session of its consumer ends.
	if session := c.Session(); session.Timeout() > 30*time.Second {
		all.take(w, c, item.Data, nil)
	} else {
		all.take(w, c, item.Data, errors.New("it may come again"))
	}
}
