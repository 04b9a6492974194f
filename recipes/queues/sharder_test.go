// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	leaderPath = "/queues/leader"
	shard      = "/queue-5a7a33c5-835d-4b98-bf7e-667aa1dcb0d0"
	another    = "/queue-0b9f1a52-6f0e-4f6c-9a53-2f2f4a2f9d11"
)

func newSharder(
	tb testing.TB, client *framework.Framework, opts ...queues.SharderOption,
) *queues.QueueSharder[*queues.DistributedQueue] {
	tb.Helper()
	open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(client, path) }
	s := must.Get(queues.NewQueueSharder(client, open, path, leaderPath, opts...))(tb)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// A queue that was added serves, even when its znode is gone before the sharder lists it.
func TestSharderKnowsWhatItHasAdded(t *testing.T) {
	server := zktest.NewServer(t)
	observer, listing := zktest.Client(t, server), make(chan struct{})
	lists := 0
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetChildren2 || r.Path != path || r.SessionID == observer.Session().ID() {
			return zkserver.Pass
		}
		if lists++; lists != 2 {
			return zkserver.Pass
		}
		return zkserver.HoldUntil(listing)
	})
	s, started := newSharder(t, zktest.Client(t, server), queues.WithThresholdCheck(time.Hour)), make(chan error, 1)
	go func() { started <- s.Start(zktest.Context(t)) }()
	added := awaitNames(t, observer, path, 1)[0]
	require.NoError(t, observer.Delete(zktest.Context(t), framework.JoinPath(path, added)))
	close(listing)

	require.NoError(t, zktest.Await(t, started, "the start"))
	require.Equal(t, framework.JoinPath(path, added), must.Get(s.Queue())(t).Path())
}

// Two processes fill the queues, and the one that leads adds a queue when one is full, up to
// the greatest number. What they have put is consumed from all.
func TestSharderAddsAQueueWhenOneIsFull(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const full, most, items = 3, 2, 12
		client := zktest.Client(t, server)
		opts := []queues.SharderOption{
			queues.WithNewQueueThreshold(full), queues.WithThresholdCheck(5 * time.Millisecond), queues.WithMaxQueues(most),
		}
		sharders := []*queues.QueueSharder[*queues.DistributedQueue]{newSharder(t, client, opts...), newSharder(t, zktest.Client(t, server), opts...)}
		for _, s := range sharders {
			require.NoError(t, s.Start(zktest.Context(t)))
			require.ErrorContains(t, s.Start(zktest.Context(t)), "started already")
			require.Len(t, s.QueuePaths(), 1)
		}
		for i, item := range numbers(items) {
			if i == full { // one is full
				for _, s := range sharders {
					require.Eventually(t, func() bool { return len(s.QueuePaths()) == most }, limit, time.Millisecond)
				}
			}
			require.NoError(t, must.Get(sharders[i%len(sharders)].Queue())(t).Put(zktest.Context(t), []byte(item)))
		}
		names := awaitNames(t, client, path, most)
		for _, name := range names {
			require.Regexp(t, `^queue-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, name, "as Curator names them")
			require.Positive(t, must.Get(client.Exists(zktest.Context(t), path+"/"+name))(t).NumChildren, "both are used")
		}
		require.ElementsMatch(t, numbers(items), awaitItems(t, consumed(t, sharders[0]), items))
	})
}

func ignored(context.Context, []byte) error { return nil }

// The consumption of all queues ends with the context's error, and the cause that it was given.
func TestSharderConsumerOfAllQueuesEndsWithItsContext(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	s := newSharder(t, client)
	require.NoError(t, s.Start(zktest.Context(t)))
	require.NoError(t, must.Get(s.Queue())(t).Put(zktest.Context(t), []byte("a")))
	ctx, cancel := context.WithCancelCause(zktest.Context(t))
	defer cancel(nil)

	err := s.Consume(ctx, func(context.Context, []byte) error {
		cancel(errFailed)
		return nil
	})

	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errFailed)
	require.ErrorContains(t, err, "consume the queues of "+path+":")
}

// Locks and other znodes beside the queues are no queues, and a queue at another path than
// the one that was asked for is refused.
func TestSharderTakesOnlyItsQueues(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for _, name := range []string{shard, shard + "-locks", "/queue-", "/other"} {
		require.NoError(t, client.Mkdirs(zktest.Context(t), path+name))
	}
	s := newSharder(t, client)
	require.NoError(t, s.Start(zktest.Context(t)))
	require.Equal(t, []string{path + shard}, s.QueuePaths())

	elsewhere := func(string) (*queues.DistributedQueue, error) {
		return queues.NewDistributedQueue(client, "/elsewhere")
	}
	wrong := must.Get(queues.NewQueueSharder(client, elsewhere, path, leaderPath))(t)
	require.ErrorContains(t, wrong.Start(zktest.Context(t)), "queue at /elsewhere, expected the one at "+path+shard)
}

// A queue that was full gets items again when half of it is consumed, and not before.
func TestSharderFullQueueGetsItemsWhenHalfOfItIsGone(t *testing.T) {
	const full = 4
	client := zktest.Client(t, zktest.NewServer(t))
	first := must.Get(queues.NewDistributedQueue(client, path+shard))(t)
	for range full {
		require.NoError(t, first.Put(zktest.Context(t), []byte("a")))
	}
	sizes := make(chan int, 1000)
	open := func(path string) (*observed, error) {
		q, err := queues.NewDistributedQueue(client, path)
		return &observed{DistributedQueue: q, sizes: sizes}, err
	}
	s := must.Get(queues.NewQueueSharder(client, open, path, leaderPath,
		queues.WithNewQueueThreshold(full), queues.WithThresholdCheck(time.Millisecond), queues.WithMaxQueues(2)))(t)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Start(zktest.Context(t)))
	require.Eventually(t, func() bool { return len(s.QueuePaths()) == 2 }, limit, time.Millisecond)
	getsItems := func() bool {
		seen := false
		for range 100 {
			q := must.Get(s.Queue())(t)
			seen = seen || q.Path() == first.Path()
		}
		return seen
	}
	// The check that reads a size has acted on it when a later one reads again.
	checked := func(size int) {
		for range 2 {
			for zktest.Await(t, sizes, "a check") != size { //nolint:revive // the others are of the other queue, or older
			}
		}
	}
	take := func() {
		for item, err := range first.Items(zktest.Context(t)) {
			require.NoError(t, err)
			require.Equal(t, "a", string(item.Data))
			return
		}
	}

	require.False(t, getsItems(), "it is full")
	take()
	checked(full - 1)
	require.False(t, getsItems(), "it is not yet half empty")
	take()
	checked(full / 2)
	require.True(t, getsItems(), "it is half empty")
}

// observed is a queue that tells the sizes that are read.
type observed struct {
	*queues.DistributedQueue

	sizes chan<- int
}

func (o *observed) Len(ctx context.Context) (int, error) {
	n, err := o.DistributedQueue.Len(ctx)
	select {
	case o.sizes <- n:
	case <-ctx.Done():
	}
	return n, err
}

// observedSharder returns a sharder whose queues tell the sizes that its checks read.
// A check goes on when a size was received.
func observedSharder(tb testing.TB, client *framework.Framework, opts ...queues.SharderOption) (*queues.QueueSharder[*observed], <-chan int) {
	tb.Helper()
	sizes := make(chan int)
	open := func(path string) (*observed, error) {
		q, err := queues.NewDistributedQueue(client, path)
		return &observed{DistributedQueue: q, sizes: sizes}, err
	}
	s := must.Get(queues.NewQueueSharder(client, open, path, leaderPath, append(opts, queues.WithThresholdCheck(time.Millisecond))...))(tb)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s, sizes
}

// fullQueue makes a queue that is full with one item.
func fullQueue(t *testing.T, client *framework.Framework) {
	t.Helper()
	require.NoError(t, must.Get(queues.NewDistributedQueue(client, path+shard))(t).Put(zktest.Context(t), []byte("a")))
}

func TestSharderAddsNoMoreQueuesThanItMay(t *testing.T) {
	const most = 2
	client := zktest.Client(t, zktest.NewServer(t))
	fullQueue(t, client)
	s, sizes := observedSharder(t, client, queues.WithNewQueueThreshold(1), queues.WithMaxQueues(most))
	require.NoError(t, s.Start(zktest.Context(t)))
	for len(s.QueuePaths()) < most {
		zktest.Await(t, sizes, "a check, until it leads and adds a queue")
	}
	for range 3 * most { // two whole checks, and the rest of one, that all find the first queue full
		zktest.Await(t, sizes, "a check")
	}
	require.Len(t, s.QueuePaths(), most)
}

func TestSharderLogsACheckThatFails(t *testing.T) {
	onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
		var log bytes.Buffer
		client := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, newSharder(t, client, queues.WithThresholdCheck(time.Second)).Start(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotContains(t, log.String(), "cannot check the sizes of queues")
		refuse := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetChildren2 {
				return zkserver.FailWith(-102) // NoAuth
			}
			return zkserver.Pass
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, log.String(), "cannot check the sizes of queues")
		refuse()
	})
}

// The leader here has no time to check. Another sharder finds a queue full, and adds one
// when it leads, not before.
func TestSharderThatDoesNotLeadAddsNoQueue(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	fullQueue(t, client)
	leads := newSharder(t, client, queues.WithThresholdCheck(time.Hour))
	require.NoError(t, leads.Start(zktest.Context(t)))
	awaitNames(t, client, leaderPath, 1)
	follows, sizes := observedSharder(t, zktest.Client(t, server), queues.WithNewQueueThreshold(1))
	require.NoError(t, follows.Start(zktest.Context(t)))
	for range 3 {
		zktest.Await(t, sizes, "a check")
	}
	require.Len(t, follows.QueuePaths(), 1)
	require.NoError(t, leads.Close())
	for len(follows.QueuePaths()) < 2 {
		zktest.Await(t, sizes, "a check, until it leads and adds a queue")
	}
}

// Several goroutines close a sharder while it checks. When any Close returns, the
// checks have ended. The candidate leaves.
func TestSharderIsClosedBySeveralGoroutines(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		checks := &slowChecks{begun: make(chan struct{}, 1000)}
		open := func(path string) (*slowQueue, error) {
			q, err := queues.NewDistributedQueue(client, path)
			return &slowQueue{q, checks}, err
		}
		s := must.Get(queues.NewQueueSharder(client, open, path, leaderPath, queues.WithThresholdCheck(time.Millisecond)))(t)
		require.NoError(t, s.Start(zktest.Context(t)))
		awaitNames(t, other, leaderPath, 1)
		zktest.Await(t, checks.begun, "a check")

		var closers sync.WaitGroup
		for range 8 {
			closers.Go(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if n := checks.running.Load(); n != 0 {
					t.Errorf("%d checks run after Close", n)
				}
				if _, err := s.Queue(); err == nil {
					t.Error("Queue succeeds after Close")
				}
			})
		}
		closers.Wait()
		awaitNames(t, other, leaderPath, 0)
	})
}

// A Close that overtakes a Start leaves no candidate and no check behind.
func TestSharderIsClosedWhileItStarts(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	opening, opened := make(chan struct{}), make(chan struct{})
	open := func(path string) (*queues.DistributedQueue, error) {
		close(opening)
		<-opened
		return queues.NewDistributedQueue(client, path)
	}
	s := must.Get(queues.NewQueueSharder(client, open, path, leaderPath))(t)
	started := make(chan error, 1)
	go func() { started <- s.Start(zktest.Context(t)) }()
	zktest.Await(t, opening, "the first queue")
	require.NoError(t, s.Close())
	close(opened)
	require.ErrorContains(t, zktest.Await(t, started, "the end of Start"), "closed")
	require.Nil(t, must.Get(client.Exists(zktest.Context(t), leaderPath))(t), "it has never stood for election")
}

// slowQueue is a queue whose Len takes until its context ends.
type slowQueue struct {
	*queues.DistributedQueue

	checks *slowChecks
}

type slowChecks struct {
	running atomic.Int64
	begun   chan struct{}
}

func (q *slowQueue) Len(ctx context.Context) (int, error) {
	q.checks.running.Add(1)
	defer q.checks.running.Add(-1)
	q.checks.begun <- struct{}{}
	<-ctx.Done()
	return 0, ctx.Err()
}

// A consumer of all queues ends with one whose consumption fails.
func TestSharderConsumerOfAllQueuesEndsWithAFailure(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(zktest.Context(t), path+shard, nil, framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: 1 << 2, Scheme: "world", ID: "anyone"})))(t)
	s := newSharder(t, client)
	require.NoError(t, s.Start(zktest.Context(t)))
	require.ErrorIs(t, s.Consume(zktest.Context(t), ignored), framework.ErrNoAuth)
}

func TestSharderBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(client, path) }
	for want, c := range map[string]struct {
		path, leader string
		opts         []queues.SharderOption
	}{
		`"q"`:               {"q", leaderPath, nil},
		`"l"`:               {path, "l", nil},
		"one outside":       {path, path, nil},
		"outside " + path:   {path, path + "/leader", nil},
		"a nil option":      {path, leaderPath, []queues.SharderOption{nil}},
		"threshold of 0":    {path, leaderPath, []queues.SharderOption{queues.WithNewQueueThreshold(0)}},
		"a check every 0s":  {path, leaderPath, []queues.SharderOption{queues.WithThresholdCheck(0)}},
		"at most -1 queues": {path, leaderPath, []queues.SharderOption{queues.WithMaxQueues(-1)}},
	} {
		_, err := queues.NewQueueSharder(client, open, c.path, c.leader, c.opts...)
		require.ErrorContains(t, err, want)
	}
	_, err := queues.NewQueueSharder(nil, open, path, leaderPath)
	require.ErrorContains(t, err, "client nil")
	_, err = queues.NewQueueSharder[*queues.DistributedQueue](client, nil, path, leaderPath)
	require.ErrorContains(t, err, "function nil")
	s := newSharder(t, client)
	_, err = s.Queue()
	require.ErrorContains(t, err, "not started")
	require.ErrorContains(t, s.Consume(t.Context(), nil), "function nil")
	require.ErrorContains(t, s.Consume(t.Context(), ignored), "not started")
	require.ErrorIs(t, s.Consume(nilContext, ignored), framework.ErrInvalidOption)
	failing := must.Get(queues.NewQueueSharder(client, func(string) (*queues.DistributedQueue, error) { return nil, errFailed }, path, leaderPath))(t)
	require.ErrorIs(t, failing.Start(zktest.Context(t)), errFailed)
	require.ErrorIs(t, failing.Start(nilContext), framework.ErrInvalidOption)
	require.NoError(t, failing.Close())
	require.ErrorContains(t, failing.Start(zktest.Context(t)), "closed")
	none := must.Get(queues.NewQueueSharder(client, func(string) (*queues.DistributedQueue, error) { return nil, nil }, path, leaderPath))(t)
	require.ErrorContains(t, none.Start(zktest.Context(t)), "open returned nil")
}

// A function that ends its goroutine, as a failed test does, leaves no queue without a consumer
// unnoticed.
func TestSharderConsumerThatExitsEndsConsume(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	s := newSharder(t, client)
	require.NoError(t, s.Start(zktest.Context(t)))
	q := must.Get(s.Queue())(t)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	err := s.Consume(zktest.Context(t), func(context.Context, []byte) error {
		runtime.Goexit()
		return nil
	})
	require.ErrorContains(t, err, "runtime.Goexit")
	require.ErrorContains(t, err, q.Path())
}

// asking is a queue whose code uses the sharder.
type asking struct {
	*queues.DistributedQueue
	sharder func() *queues.QueueSharder[asking]
}

func (a asking) Path() string {
	a.sharder().QueuePaths()
	return a.DistributedQueue.Path()
}

func TestSharderOfQueuesThatUseIt(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	var s *queues.QueueSharder[asking]
	open := func(path string) (asking, error) {
		q, err := queues.NewDistributedQueue(client, path)
		return asking{q, func() *queues.QueueSharder[asking] { return s }}, err
	}
	s = must.Get(queues.NewQueueSharder(client, open, path, leaderPath))(t)
	for _, name := range []string{shard, another} {
		must.Get(client.Create(zktest.Context(t), path+name, nil, framework.CreatingParentsIfNeeded()))(t)
	}
	require.NoError(t, s.Start(zktest.Context(t)))
	require.Len(t, s.QueuePaths(), 2)
	require.NoError(t, s.Close())
}
