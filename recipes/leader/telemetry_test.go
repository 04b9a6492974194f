// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// An election measures the time led and the losses with the instruments of the
// locks, and its observers the time without a leader. The counters exist from
// the start.
func TestTelemetryOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			changes  = "curator.leader.changes{}"
			absences = "curator.leader.absence.duration.sum{}"
			held     = "curator.lock.held{curator.recipe=leader_latch}"
			losses   = "curator.lock.lost{curator.reason=session_expired,curator.recipe=leader_latch}"
			led      = "curator.lock.hold.duration.sum{curator.end=released,curator.recipe=leader_latch}"
		)
		reader := meters.New()
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, reader.Option)
		latch := newLatch(t, client, leader.WithID("a"))
		values := reader.Values(t)
		require.Contains(t, values, held)
		require.Contains(t, values, losses)
		ctx, stop := context.WithCancel(t.Context())
		seen := observed(ctx, t, latch)
		zktest.Await(t, seen, "no leader")
		require.Contains(t, reader.Values(t), changes)

		time.Sleep(5 * time.Second)
		require.NoError(t, latch.Start())
		zktest.Await(t, seen, "the leader")
		lease := awaitLeadership(t, latch)
		require.NoError(t, latch.Proclaim(ctx, []byte("a value is no other leader")))
		zktest.Await(t, seen, "the value")
		synctest.Wait()

		values = reader.Values(t)
		require.InDelta(t, 1, values[changes], 0)
		require.InDelta(t, 5, values[absences], 0.1)
		require.InDelta(t, 1, values[held], 0, "%v", slices.Sorted(maps.Keys(values)))
		time.Sleep(7 * time.Second)
		require.NoError(t, latch.Close())
		require.Error(t, lease.Err())
		require.InDelta(t, 7, reader.Values(t)[led], 0.1)
		stop()
	})
}

// TestTelemetryOnceRuns counts each call of Do by how it ends.
func TestTelemetryOnceRuns(t *testing.T) {
	t.Parallel()
	reader, server := meters.New(), zktest.NewServer(t)
	once := newOnce(t, zktest.Client(t, server, reader.Option))
	want := map[string]float64{}
	check := func(outcome string, n float64) {
		t.Helper()
		want["curator.once.runs{curator.outcome="+outcome+"}"] = n
		values := reader.Values(t)
		maps.DeleteFunc(values, func(name string, _ float64) bool { return !strings.HasPrefix(name, "curator.once") })
		require.Equal(t, want, values)
	}
	want["curator.once.runs{curator.outcome=marked}"], want["curator.once.runs{curator.outcome=skipped}"] = 0, 0
	check("failed", 0)
	_, err := once.Do(t.Context(), "a", func(context.Context) error { return errors.New("no") })
	require.Error(t, err)
	check("failed", 1)
	require.Panics(t, func() { _, _ = once.Do(t.Context(), "a", func(context.Context) error { panic("no") }) })
	check("failed", 2)
	for _, outcome := range []string{"marked", "skipped"} {
		must.Get(once.Do(t.Context(), "a", func(context.Context) error { return nil }))(t)
		check(outcome, 1)
	}
}
