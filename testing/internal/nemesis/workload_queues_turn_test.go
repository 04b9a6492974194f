// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// newTestWorker returns a worker at a recipe of a server, and what it writes down.
func newTestWorker(t *testing.T, server *zkserver.Server, spec lockSpec) (w *worker, history string) {
	t.Helper()
	history = filepath.Join(t.TempDir(), "c1.1.jsonl")
	h, err := createHistory(history, "c1.1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.close()) })
	c := &client{
		cfg: clientConfig{Name: "c1.1"}, framework: zktest.Client(t, server), history: h, ctx: t.Context(), stopping: make(chan struct{}),
	}
	w = &worker{client: c, spec: spec, kind: workloadOf(spec), name: "c1.1/" + spec.Name + ".0", random: rand.New(rand.NewPCG(1, 2))}
	return w, history
}

// newTestQueuing returns a worker at two queues of a server of its own, and what it writes down.
func newTestQueuing(t *testing.T) (q *queuing, history string) {
	t.Helper()
	w, history := newTestWorker(t, zktest.NewServer(t), lockSpec{Name: "queue-s", Workload: "queue"})
	q, err := newQueuing(w)
	require.NoError(t, err)
	return q, history
}

// fill puts items into a queue until it has so many.
func (q *queuing) fill(t *testing.T, s *stock, n int) {
	t.Helper()
	require.NoError(t, q.count(t.Context()))
	for i := s.waiting; i < n; i++ {
		data := fmt.Appendf(nil, "item:filled/%d;", i)
		if s.path == q.locked.Path() {
			require.NoError(t, q.locked.Put(t.Context(), data))
		} else {
			require.NoError(t, q.simple.Offer(t.Context(), data))
		}
	}
}

// times is how many events of a kind a history has.
func times(t *testing.T, history string, kind eventKind) (n int) {
	t.Helper()
	events, err := readEvents(history)
	require.NoError(t, err)
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// While either queue is full a worker only consumes; while there is room it also puts.
func TestWorkloadQueuesTurnFullQueueGetsNoMore(t *testing.T) {
	t.Parallel()
	for i, name := range []string{lockedItems, simpleItems} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const turns = 12
			q, history := newTestQueuing(t)
			for range turns {
				q.fill(t, q.stocks[i], fullQueue)
				q.fill(t, q.stocks[1-i], someItems+1) // so that no turn waits for an item
				require.NoError(t, q.count(t.Context()))
				q.putOrConsume(t.Context(), nil)
			}
			require.Zero(t, times(t, history, offered))
			require.Positive(t, times(t, history, consumed))

			q, history = newTestQueuing(t)
			for range turns {
				q.fill(t, q.stocks[0], someItems+1)
				q.fill(t, q.stocks[1], someItems+1)
				q.turn(t.Context())
			}
			require.Positive(t, times(t, history, offered))
		})
	}
}

// The last turn leaves both queues empty, or says how many items are left.
func TestWorkloadQueuesTurnLastTurnEmptiesTheQueues(t *testing.T) {
	t.Parallel()
	q, history := newTestQueuing(t)
	q.last = true
	for _, s := range q.stocks {
		q.fill(t, s, 3*someItems)
	}
	q.turn(t.Context())
	require.Empty(t, q.client.stuck)
	require.NoError(t, q.count(t.Context()))
	require.Zero(t, q.waiting())
	require.Positive(t, times(t, history, offered), "it has put items itself")

	q.fill(t, q.stocks[1], 7)
	require.NoError(t, q.count(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	q.drain(over)
	require.Equal(t, []string{"queue-s"}, q.client.stuck)
	events, err := readEvents(history)
	require.NoError(t, err)
	require.Contains(t, events[len(events)-1].Error, "7 items were left when they were counted last: ")
	require.Contains(t, events[len(events)-1].Error, context.Canceled.Error())
}

// A turn that has consumed nothing although there was something gives the next one more time.
func TestWorkloadQueuesTurnThatConsumesNothingGivesTheNextMoreTime(t *testing.T) {
	t.Parallel()
	took := 0
	s := &stock{during: consumeTime, consume: func(ctx context.Context, n int) int {
		require.Equal(t, someItems, n)
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		return took
	}}
	after := func(turns int) time.Duration {
		for range turns {
			s.take(t.Context(), someItems)
		}
		return s.during
	}
	require.Equal(t, consumeTime, after(3), "of an empty queue")
	s.waiting = 1
	require.Equal(t, 2*consumeTime, after(1))
	require.Equal(t, 4*consumeTime, after(1))
	require.Equal(t, longestTime, after(10))
	took = 1
	require.Equal(t, longestTime/2, after(1))
	require.Equal(t, consumeTime, after(10))
}
