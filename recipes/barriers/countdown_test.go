// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func newCountDown(tb testing.TB, client *framework.Framework, total int) *barriers.CountDownLatch {
	tb.Helper()
	l, err := barriers.NewCountDownLatch(client, path, total)
	require.NoError(tb, err)
	return l
}

func TestCountDownLatchOpensWithTheLastEvent(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const clients, each = 4, 5
		waiter := newCountDown(t, zktest.Client(t, server), clients*each+1)
		waits := later(func() error { return waiter.Await(zktest.Context(t)) })
		left, err := waiter.Count(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, clients*each+1, left)
		var wg sync.WaitGroup
		for range clients {
			l := newCountDown(t, zktest.Client(t, server), clients*each+1)
			wg.Go(func() {
				for range each {
					if err := l.CountDown(zktest.Context(t)); err != nil {
						t.Errorf("count down: %v", err)
					}
				}
			})
		}
		wg.Wait()
		left, err = waiter.Count(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, left)
		require.Empty(t, waits)

		require.NoError(t, waiter.CountDown(zktest.Context(t)))

		require.NoError(t, zktest.Await(t, waits, "the opening"))
		require.NoError(t, waiter.Await(zktest.Context(t)), "it stays open")
		require.NoError(t, waiter.CountDown(zktest.Context(t)), "and counts no more")
	})
}

// The process that counts the last event opens the latch in a second step. It
// may die before, or not hear that it was the last.
// A creation in doubt counts no event. The write that follows decides.
func TestCountDownLatchLostReplyToACreation(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithRetryPolicy(retry.None()))
	require.NoError(t, client.Mkdirs(zktest.Context(t), path))
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply))
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.LoseReply))
	latch, err := barriers.NewCountDownLatch(client, path, 2)
	require.NoError(t, err)

	require.NoError(t, latch.CountDown(zktest.Context(t)))

	left, err := latch.Count(zktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, 1, left)
}

func TestCountDownLatchOpensWithoutThoseThatHaveCounted(t *testing.T) {
	server := zktest.NewServer(t)
	client, counter := zktest.Client(t, server, framework.WithSessionTimeout(shortSession)), zktest.Client(t, server)
	l := newCountDown(t, counter, 2)
	require.NoError(t, l.CountDown(zktest.Context(t)))
	opening := later(func() error { return newCountDown(t, client, 2).Await(zktest.Context(t)) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpExists && e.Request.Path == path+"/count"
	})
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.LoseReply))

	require.True(t, framework.OutcomeUnknown(l.CountDown(zktest.Context(t))))

	require.NoError(t, zktest.Await(t, opening, "the opening"))
	require.NoError(t, newCountDown(t, client, 2).Await(zktest.Context(t)))
}

// Those that count at the same time do not collide.
func TestCountDownLatchCountCostsTheSameInACrowd(t *testing.T) {
	const crowd = 100
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	l := newCountDown(t, client, crowd)
	var wg sync.WaitGroup
	for range crowd {
		wg.Go(func() {
			if err := l.CountDown(zktest.Context(t)); err != nil {
				t.Errorf("count down: %v", err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Await(zktest.Context(t)))
	writes := 0
	for _, e := range server.Log() {
		if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpSetData {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 2*crowd, "one for each, and one more of those that find no znode")
}

// The last event is counted, whatever becomes of the opening: it must not be counted again.
func TestCountDownLatchLastEventCountsWithoutTheOpening(t *testing.T) {
	server := zktest.NewServer(t)
	latch := newCountDown(t, zktest.Client(t, server), 1)
	refused := false
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if refused || r.Op != zkserver.OpCreate2 || r.Path != path+"/ready" {
			return zkserver.Pass
		}
		refused = true
		return zkserver.FailWith(-102) // NoAuth
	})

	err := latch.CountDown(zktest.Context(t))

	require.ErrorIs(t, err, barriers.ErrCounted)
	require.ErrorIs(t, err, framework.ErrNoAuth)
	left, err := latch.Count(zktest.Context(t))
	require.NoError(t, err)
	require.Zero(t, left)
}

// A version has 32 bits: a latch that has been counted more often stays open.
func TestCountDownLatchThatIsCountedTooOften(t *testing.T) {
	for version, left := range map[int32]int{0: 3, 2: 1, 3: 0, math.MaxInt32: 0, math.MinInt32: 0, -1: 0} {
		server := zktest.NewServer(t)
		latch := newCountDown(t, zktest.Client(t, server), 3)
		require.NoError(t, latch.CountDown(t.Context())) // makes the znode
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path != path+"/count" {
				return zkserver.Pass
			}
			reply, err := binary.Append(nil, binary.BigEndian, struct {
				Size, Xid int32
				Zxid      int64
				Err       int32
				Stat      framework.Stat
			}{16 + 68, r.Xid, 100, 0, framework.Stat{Czxid: 1, Mzxid: 1, Version: version}})
			if err != nil {
				return zkserver.FailWith(-1)
			}
			return zkserver.RespondWith(reply)
		})

		err := latch.CountDown(t.Context())

		if version >= 0 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, path+" was counted more than 2147483647 times")
		}
		got, err := latch.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, left, got, "version %d", version)
	}
}

// Only the last event opens the latch. The end of the session ends a watch as well.
func TestCountDownLatchStaysClosedWhenASessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		latch, err := barriers.NewCountDownLatch(client, "/latch", 1)
		require.NoError(t, err)
		opened := make(chan error, 1)
		go func() { opened <- latch.Await(t.Context()) }()
		synctest.Wait()

		zktest.KillSession(t, client)

		time.Sleep(time.Minute)
		require.Empty(t, opened)
		require.NoError(t, latch.CountDown(t.Context()))
		require.NoError(t, <-opened)
	})
}
