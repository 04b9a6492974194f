// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zktest"
)

// measured returns the metrics of queues, without their common prefix, and without attributes.
func measured(t *testing.T, reader *meters.Reader) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for name, value := range reader.Values(t) {
		if name, ok := strings.CutPrefix(name, "curator.queues."); ok {
			values[strings.TrimSuffix(name, "{}")] = value
		}
	}
	return values
}

// What is left out is counted each time, also when it has changed and still cannot be read.
func TestTelemetryLeftOutItemsAreCounted(t *testing.T) {
	t.Parallel()
	for suffix, opts := range map[string][]framework.Option{"": nil, "{curator.path=" + path + "}": {framework.WithPathAttribute()}} {
		reader, server := meters.New(), zktest.NewServer(t)
		producer := zktest.Client(t, server)
		client := zktest.Client(t, server, append(opts, reader.Option)...)
		items := consumed(t, newQueue(t, client))
		require.Contains(t, measured(t, reader), "left_out"+suffix, "it exists from the start")
		for n := range int64(2) {
			bad := framework.JoinPath(path, "queue-0000000000")
			if n == 0 {
				must.Get(producer.Create(zktest.Context(t), bad, []byte("no envelope"), framework.CreatingParentsIfNeeded()))(t)
			} else {
				require.NoError(t, producer.Set(zktest.Context(t), bad, []byte("none either")))
			}
			require.NoError(t, newQueue(t, producer).Put(zktest.Context(t), []byte("good")))
			require.Equal(t, []string{"good"}, awaitItems(t, items, 1))
			require.InDelta(t, n+1, measured(t, reader)["left_out"+suffix], 0)
		}
	}
}

// Each item counts when it is put, each time that it fails, and when it is consumed or dead.
func TestTelemetryItemsAreCounted(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]queues.Option{
		"locked": {withLock, queues.WithMaxAttempts(2, "/queues/dead")},
		"late":   {queues.WithLateRemoval()},
		"early":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := meters.New()
			q := newQueue(t, zktest.Client(t, zktest.NewServer(t), reader.Option), opts...)
			require.Equal(t, map[string]float64{"put": 0, "consumed": 0, "failed": 0, "dead": 0, "left_out": 0}, measured(t, reader))
			require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b")))
			require.NoError(t, q.Put(zktest.Context(t), []byte("bad")))
			require.NoError(t, q.Put(zktest.Context(t), []byte("c")))
			tries := 0
			start(t, q, func(_ context.Context, item []byte) error {
				if string(item) == "bad" && tries < 2 {
					tries++
					return errors.New("no")
				}
				return nil
			})
			want := map[string]float64{"put": 4, "consumed": 3, "failed": 1, "dead": 0, "left_out": 0, "waiting": 0}
			switch name {
			case "locked":
				want["failed"], want["dead"] = 2, 1
			case "late":
				want["failed"], want["consumed"] = 2, 4
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, measured(t, reader)) }, limit, time.Millisecond)
		})
	}
}

// A simple queue counts what is offered and what is taken.
func TestTelemetrySimpleQueueCounts(t *testing.T) {
	t.Parallel()
	reader := meters.New()
	q := must.Get(queues.NewSimpleDistributedQueue(zktest.Client(t, zktest.NewServer(t), reader.Option), path))(t)
	require.NoError(t, q.Offer(t.Context(), []byte("a")))
	require.NoError(t, q.Offer(t.Context(), []byte("b")))
	must.Get(q.Peek(t.Context()))(t)
	must.Get(q.Poll(t.Context()))(t)
	values := measured(t, reader)
	require.InDelta(t, 2, values["put"], 0)
	require.InDelta(t, 1, values["consumed"], 0)
}

// A producer with a limit measures the depth where no consumer runs.
func TestTelemetryDepthWithoutConsumers(t *testing.T) {
	t.Parallel()
	reader := meters.New()
	q := newQueue(t, zktest.Client(t, zktest.NewServer(t), reader.Option), queues.WithMaxItems(10))
	for range 3 {
		require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	}
	require.InDelta(t, 2, measured(t, reader)["waiting"], 0, "before the last one")
}
