// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// spread is due each interval, at an offset of its own.
type spread struct{ every, offset time.Duration }

func (s spread) Next(t time.Time) time.Time {
	return schedule.Every(s.every).Next(t.Add(-s.offset)).Add(s.offset)
}

// TestScaleOfAThousandJobs measures what the table in doc.go says, with the size in CURATOR_SCHEDULE_JOBS and on a ZooKeeper
// server. The number of requests is checked in any case.
func TestScaleOfAThousandJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs for several seconds")
	}
	jobs, replicas, every := 50, 2, 2*time.Second
	open := func(t *testing.T) string { t.Helper(); return zktest.NewServer(t).Addr() }
	if size := os.Getenv("CURATOR_SCHEDULE_JOBS"); size != "" {
		jobs = must.Get(strconv.Atoi(size))(t)
		replicas, every = 10, 10*time.Second
		open = func(t *testing.T) string { t.Helper(); return zktest.NewEnsemble(t, 1).ConnectString() }
	}
	for name, offset := range map[string]time.Duration{"spread": every / time.Duration(jobs), "all at once": 0} {
		t.Run(name, func(t *testing.T) { measure(t, open(t), jobs, replicas, every, offset) })
	}
}

func measure(t *testing.T, server string, jobs, replicas int, every, offset time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var late []time.Duration
	var links []*zkproxy.Proxy
	before := heap()
	for range replicas {
		link := zktest.NewProxy(t, server)
		links = append(links, link)
		client := zktest.Client(t, link)
		var list []schedule.Job
		for i := range jobs {
			list = append(list, schedule.Job{
				Name: fmt.Sprintf("job-%04d", i), Schedule: spread{every, time.Duration(i) * offset},
				Run: func(_ context.Context, tick schedule.Tick) error {
					mu.Lock()
					defer mu.Unlock()
					late = append(late, time.Since(tick.Time))
					return nil
				},
			})
		}
		s := must.Get(schedule.New(client, root, list...))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
	}
	requests := func() (n int) {
		for _, link := range links {
			n += link.Requests()
		}
		return n
	}
	time.Sleep(3 * every) // the jobs are divided
	used := heap() - before
	mu.Lock()
	late = nil
	mu.Unlock()
	begin := requests()
	time.Sleep(2 * every)
	made := requests() - begin
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	ticks := len(late)
	require.InDelta(t, 2*jobs, ticks, float64(jobs)/2)
	perTick := float64(made) / float64(ticks)
	t.Logf("%d jobs, %d replicas, one tick in %v: %d ticks, %.2f requests for a tick, late by %v (median) and %v (p99), %.2f MB of heap for a replica",
		jobs, replicas, every, ticks, perTick, late[ticks/2].Round(100*time.Microsecond), late[ticks*99/100].Round(100*time.Microsecond),
		float64(used)/float64(replicas)/1e6)
	require.Less(t, perTick, 3.0)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
