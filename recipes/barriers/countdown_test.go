package barriers_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func newCountDown(tb testing.TB, client *framework.Framework, total int) *barriers.CountDownLatch {
	tb.Helper()
	l, err := barriers.NewCountDownLatch(client, path, total)
	require.NoError(tb, err)
	return l
}

func TestALatchOpensWithTheLastEvent(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const clients, each = 4, 5
		waiter := newCountDown(t, zktest.Client(t, server), clients*each+1)
		waits := later(func() error { return waiter.Await(withLimit(t)) })
		left, err := waiter.Count(withLimit(t))
		require.NoError(t, err)
		require.Equal(t, clients*each+1, left)
		var wg sync.WaitGroup
		for range clients {
			l := newCountDown(t, zktest.Client(t, server), clients*each+1)
			wg.Go(func() {
				for range each {
					if err := l.CountDown(withLimit(t)); err != nil {
						t.Errorf("count down: %v", err)
					}
				}
			})
		}
		wg.Wait()
		left, err = waiter.Count(withLimit(t))
		require.NoError(t, err)
		require.Equal(t, 1, left)
		require.Empty(t, waits)

		require.NoError(t, waiter.CountDown(withLimit(t)))

		require.NoError(t, zktest.Await(t, waits, "the opening"))
		require.NoError(t, waiter.Await(withLimit(t)), "it stays open")
		require.NoError(t, waiter.CountDown(withLimit(t)), "and counts no more")
	})
}

func TestALostReplyToACount(t *testing.T) {
	server := zktest.NewServer(t)
	l := newCountDown(t, zktest.Client(t, server), 2)
	server.Intercept(zkserver.Nth(1, zkserver.OpMulti, zkserver.LoseReply))

	err := l.CountDown(withLimit(t))

	require.True(t, framework.OutcomeUnknown(err), "%v", err)
	left, err := l.Count(withLimit(t))
	require.NoError(t, err)
	require.Equal(t, 1, left, "counted once")
}

func TestForeignDataOfALatchIsRefused(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	_, err := client.Create(withLimit(t), path+"/count", []byte("many"), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	l := newCountDown(t, client, 2)

	require.ErrorContains(t, l.CountDown(withLimit(t)), `"many", expected a number from 0 to 2`)
}

func TestAwaitOfALatchEndsWithItsContext(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	l := newCountDown(t, zktest.Client(t, server), 2)
	ctx, cancel := context.WithCancel(t.Context())
	result := later(func() error { return l.Await(ctx) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpExists })

	cancel()

	require.ErrorIs(t, zktest.Await(t, result, "the end"), context.Canceled)
}
