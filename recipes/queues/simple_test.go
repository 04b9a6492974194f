// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"fmt"
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

func newSimple(tb testing.TB, client *framework.Framework) *queues.SimpleDistributedQueue {
	tb.Helper()
	q := must.Get(queues.NewSimpleDistributedQueue(client, path))(tb)
	return q
}

// taken returns the item for which a Take waits, once it waits.
func taken(ctx context.Context, tb testing.TB, server *zkserver.Server, q *queues.SimpleDistributedQueue) <-chan string {
	tb.Helper()
	items := make(chan string, 1)
	before := len(server.Log())
	go func() {
		data, err := q.Take(ctx)
		if err != nil {
			items <- err.Error()
			return
		}
		items <- string(data)
	}()
	zktest.AwaitEvent(tb, server, func(e zkserver.Event) bool {
		before--
		return before < 0 && e.Kind == zkserver.Served && (e.Request.Op == zkserver.OpExists || e.Request.Op == zkserver.OpGetChildren2)
	})
	return items
}

// Of Curator's producers the folder is a container, which the server deletes when it has been empty
// for a while. A consumer that waits must see the next one.
//
// CURATOR-308: a queue hangs when its container is deleted.
func TestSimpleQueueTakeSurvivesThatItsFolderIsDeleted(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		q := newSimple(t, client)
		require.NoError(t, q.Offer(zktest.Context(t), []byte("a")))
		must.Get(q.Poll(zktest.Context(t)))(t)
		before := server.Counts(t).Watches
		items := make(chan string, 1)
		go func() {
			data, err := q.Take(zktest.Context(t))
			items <- string(data) + fmt.Sprint(err)
		}()
		waits := func() bool { return server.Counts(t).Watches == before+1 }
		require.Eventually(t, waits, limit, 10*time.Millisecond)

		require.NoError(t, client.Delete(zktest.Context(t), path, framework.Idempotent())) // unless the server was faster
		require.Eventually(t, func() bool { return waits() || len(items) > 0 }, limit, 10*time.Millisecond, "for the folder, or no more")
		require.NoError(t, newSimple(t, zktest.Client(t, server)).Offer(zktest.Context(t), []byte("b")))

		require.Equal(t, "b<nil>", zktest.Await(t, items, "the item"))
	})
}

func TestSimpleQueueTakeSurvivesItsSession(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	items := taken(zktest.Context(t), t, server, newSimple(t, client))

	zktest.KillSession(t, client)
	require.NoError(t, newSimple(t, zktest.Client(t, server)).Offer(zktest.Context(t), []byte("a")))

	require.Equal(t, "a", zktest.Await(t, items, "the item"))
}

// The cause of a context may match what an empty queue returns.
func TestSimpleQueueTakeEndsWithAContextWhoseCauseIsAnEmptyQueue(t *testing.T) {
	q := newSimple(t, zktest.Client(t, zktest.NewServer(t)))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("nothing to do: %w", queues.ErrEmpty))

	_, err := q.Take(ctx)

	require.ErrorIs(t, err, context.Canceled)
}

func TestSimpleQueueLostReplyToATake(t *testing.T) {
	for _, c := range []struct {
		fault   zkserver.Fault
		unknown bool
	}{{zkserver.LoseRequest, false}, {zkserver.LoseReply, true}} {
		t.Run(c.fault.String(), func(t *testing.T) {
			server := zktest.NewServer(t)
			q := newSimple(t, zktest.Client(t, server))
			require.NoError(t, q.Offer(zktest.Context(t), []byte("a")))
			server.Intercept(zkserver.Nth(1, zkserver.OpDelete, c.fault))

			data, err := q.Take(zktest.Context(t))

			require.Equal(t, "a", string(data), "also when it may be another's")
			require.Equal(t, c.unknown, framework.OutcomeUnknown(err), "%v", err)
			_, err = q.Poll(zktest.Context(t))
			require.ErrorIs(t, err, queues.ErrEmpty)
		})
	}
}

// When a reply is lost and the container is deleted before the repetition, the
// numbers begin again. The item that then has the name is another one.
func TestSimpleQueueRepeatedTakeSparesALaterItemOfTheSameName(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	q := newSimple(t, client)
	require.NoError(t, q.Offer(zktest.Context(t), []byte("a")))
	server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.LoseReply))
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpExists, zkserver.HoldUntil(release)))
	items := make(chan error, 1)
	go func() {
		_, err := q.Take(zktest.Context(t))
		items <- err
	}()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Request.Op == zkserver.OpExists })
	require.NoError(t, other.Delete(zktest.Context(t), path))
	require.NoError(t, newSimple(t, other).Offer(zktest.Context(t), []byte("b")))
	close(release)
	require.True(t, framework.OutcomeUnknown(zktest.Await(t, items, "the take")))

	require.Equal(t, "b", string(must.Get(q.Poll(zktest.Context(t)))(t)))
}

// A consumer lists the items once, and takes what it has listed: two requests an item.
func TestSimpleQueueListsRarely(t *testing.T) {
	server := zktest.NewServer(t)
	q := newSimple(t, zktest.Client(t, server))
	const items = 50
	for i := range items {
		require.NoError(t, q.Offer(zktest.Context(t), fmt.Append(nil, i)))
	}
	lists := countLists(server)
	for i := range items {
		require.Equal(t, fmt.Append(nil, i), must.Get(q.Poll(zktest.Context(t)))(t))
	}
	require.EqualValues(t, 1, lists.Load())
	_, err := q.Poll(zktest.Context(t))
	require.ErrorIs(t, err, queues.ErrEmpty)
	require.EqualValues(t, 2, lists.Load(), "only a new list shows that there is none")
}

// countLists counts the lists of children that the server is asked for.
func countLists(server *zkserver.Server) *atomic.Int64 {
	lists := new(atomic.Int64)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetChildren2 {
			lists.Add(1)
		}
		return zkserver.Pass
	})
	return lists
}

// What a consumer has listed is no longer the beginning of the queue when the folder was
// deleted and its numbers have begun again.
func TestSimpleQueueOfANewFolderIsListedAgain(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server)
		q, other := newSimple(t, client), newSimple(t, zktest.Client(t, server))
		for _, item := range []string{"a", "b", "c"} {
			require.NoError(t, q.Offer(ctx, []byte(item)))
		}
		data := must.Get(q.Poll(ctx))(t)
		require.Equal(t, "a", string(data))
		for range 2 {
			must.Get(other.Poll(ctx))(t)
		}
		require.NoError(t, client.Delete(ctx, path, framework.Idempotent())) // unless the server was faster
		for _, item := range []string{"d", "e", "f"} {
			require.NoError(t, other.Offer(ctx, []byte(item)))
		}
		data = must.Get(q.Peek(ctx))(t)
		require.Equal(t, "d", string(data))
		for _, want := range []string{"d", "e", "f"} {
			require.Equal(t, want, string(must.Get(q.Poll(ctx))(t)))
		}
	})
}

// An item that could not be read stays the first.
func TestSimpleQueueFailedPollLeavesTheOrder(t *testing.T) {
	server := zktest.NewServer(t)
	q := newSimple(t, zktest.Client(t, server))
	for _, item := range []string{"a", "b"} {
		require.NoError(t, q.Offer(zktest.Context(t), []byte(item)))
	}
	refuse := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetData {
			return zkserver.FailWith(-102)
		}
		return zkserver.Pass
	})
	_, err := q.Poll(zktest.Context(t))
	require.ErrorIs(t, err, framework.ErrNoAuth)
	refuse()
	for _, want := range []string{"a", "b"} {
		require.Equal(t, want, string(must.Get(q.Poll(zktest.Context(t)))(t)))
	}
}

// A consumer that has read an item, and deletes it late, does not delete one that was offered
// when the queue had been empty for as long as servers keep empty containers.
func TestSimpleQueueLateDeletionDeletesNoOtherItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithContainerCheckInterval(time.Second))
		slow, fast := zktest.Client(t, server), zktest.Client(t, server)
		first, second := newSimple(t, slow), newSimple(t, fast)
		require.NoError(t, second.Offer(t.Context(), []byte("a")))
		release := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpDelete && r.SessionID == slow.Session().ID() {
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		})
		got := make(chan string, 1)
		go func() {
			data, err := first.Poll(t.Context())
			got <- fmt.Sprint(string(data), err)
		}()
		synctest.Wait()

		require.Equal(t, "a", string(must.Get(second.Poll(t.Context()))(t)))
		time.Sleep(2 * time.Second) // an empty container is gone then, and the session is not
		require.NoError(t, second.Offer(t.Context(), []byte("b")))
		close(release)
		require.Equal(t, "b<nil>", zktest.Await(t, got, "the item"))
	})
}

// A znode that is no item is neither taken nor in the way.
func TestSimpleQueueLeavesForeignZnodes(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	q := newSimple(t, client)
	must.Get(client.Create(zktest.Context(t), q.Path()+"/qn-config", nil, framework.CreatingParentsIfNeeded()))(t)
	_, err := q.Poll(zktest.Context(t))
	require.ErrorIs(t, err, queues.ErrEmpty)
	require.NoError(t, q.Offer(zktest.Context(t), []byte("a")))
	require.Equal(t, "a", string(must.Get(q.Take(zktest.Context(t)))(t)))
	require.Equal(t, []string{"qn-config"}, awaitNames(t, client, q.Path(), 1))
}
