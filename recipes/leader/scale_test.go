// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// traffic counts what a client asks the server, and is told without having asked.
type traffic struct{ requests, notifications atomic.Int64 }

func (c *traffic) count(f zkproxy.Frame) zkproxy.Verdict {
	switch f.Kind {
	case zkproxy.Request:
		c.requests.Add(1)
	case zkproxy.Notification:
		c.notifications.Add(1)
	default: // comes with the connection
	}
	return zkproxy.Pass
}

// What a candidate costs does not depend on how many there are. A change of the
// leader wakes the next one, and the one after that, which takes its place.
func TestScaleChangeAmongManyWakesTwo(t *testing.T) {
	most := 100
	if text := os.Getenv("CURATOR_CANDIDATES"); text != "" { // in make test-long
		most = must.Get(strconv.Atoi(text))(t)
	}
	for n := 10; n <= most; n *= 10 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { changeAmong(t, n) })
		})
	}
}

func changeAmong(t *testing.T, candidates int) {
	t.Helper()
	const (
		clients    = 10
		settling   = 5 * time.Second
		requestsOf = 9        // a change; 8 are needed at most
		heapEach   = 64 << 10 // bytes, with goroutines and the server's part
	)
	// Each takes a creation, and the first ones of each client a list and watches: 5.1, 3.1 and 2.2 in all.
	requestsEach := map[int]float64{10: 5.5, 100: 3.5, 1000: 2.6}[candidates]
	server := zktest.NewServer(t, zkserver.WithoutListener())
	seen := make([]*traffic, clients)
	links := make([]*zkproxy.Proxy, clients)
	for i := range links {
		seen[i], links[i] = new(traffic), zktest.NewProxy(t, server)
		links[i].Intercept(seen[i].count)
	}
	total := func() (requests int) {
		for _, c := range seen {
			requests += int(c.requests.Load())
		}
		return requests
	}
	latches := make([]*leader.LeaderLatch, 0, candidates)
	var of []func() *leader.LeaderLatch
	for i := range clients {
		client := zktest.Client(t, links[i])
		of = append(of, func() *leader.LeaderLatch { return started(t, client) })
	}
	synctest.Wait()
	requests, heap := total(), heapInUse()
	for i := range candidates {
		latches = append(latches, of[i%clients]())
		time.Sleep(time.Millisecond) // it has joined before the next one does
	}
	time.Sleep(settling)
	each, bytesEach := float64(total()-requests)/float64(candidates), (heapInUse()-heap)/int64(candidates)
	require.True(t, latches[0].HasLeadership())
	requests = total()
	before := make([]int64, clients)
	for i, c := range seen {
		before[i] = c.notifications.Load()
	}

	require.NoError(t, latches[0].Resign(zktest.Context(t)))
	time.Sleep(settling)

	require.True(t, latches[1].HasLeadership())
	change, woken := total()-requests, 0
	for i, c := range seen {
		if i != 0 { // the leader's own
			woken += int(c.notifications.Load() - before[i])
		}
	}
	t.Logf("%d candidates: %.1f requests and %d bytes of heap each; a change takes %d requests and wakes %d",
		candidates, each, bytesEach, change, woken)
	require.LessOrEqual(t, woken, 2, "candidates woken")
	require.LessOrEqual(t, each, requestsEach, "requests for each candidate")
	require.LessOrEqual(t, change, requestsOf, "requests of a change")
	require.LessOrEqual(t, bytesEach, int64(heapEach), "bytes of heap for each candidate")
}

// heapInUse is how much there is without garbage.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
