// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect/page"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// heap returns how much is in use, without garbage.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is no such number
}

var locksThere = flag.Int("locks", 5_000, "so `many` locks are viewed")

// TestAHundredViewersShareOnePicture: all that the page keeps for a hundred viewers that follow changes and read the
// list, filtered and sorted in their own ways, is bounded. The server is in this process: what it notes of each request
// counts, too, and is most of it with many locks.
func TestAHundredViewersShareOnePicture(t *testing.T) {
	const viewers, fixed, eachLock = 100, 50 << 20, (150 << 20) / 100_000
	locksThere := *locksThere
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	fill(t, client, locksThere)
	handler := page.Handler(client, "/")
	before := heap()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var streams sync.WaitGroup
	for range viewers {
		streams.Go(func() {
			handler.ServeHTTP(&discarded{header: make(http.Header)}, request(ctx, http.MethodGet, "/?events"))
		})
	}
	peak := int64(0)
	for n := range 4 { // the last picture and the next are there at the same time
		require.NoError(t, client.Set(t.Context(), fmt.Sprintf("/locks/%06d", n), []byte("changed")))
		var wg sync.WaitGroup
		for i := range viewers {
			target := []string{"/", "/?sort=waited", "/?sort=waiters&page=7", "/?sort=path&q=worker-1", "/?format=json"}[i%5]
			wg.Go(func() {
				w := &discarded{header: make(http.Header)}
				handler.ServeHTTP(w, request(ctx, http.MethodGet, target))
				if w.status != 0 && w.status != http.StatusOK && w.status != http.StatusServiceUnavailable { // no more than 32 at a time
					t.Errorf("%s: %d", target, w.status)
				}
			})
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			wg.Wait()
		}()
		for isDone := false; !isDone; {
			peak = max(peak, heap()-before)
			select {
			case <-answered:
				isDone = true
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	body := get(t, handler, "/").Body.String()
	require.Contains(t, textOf(body), fmt.Sprintf("%d in all, %[1]d held, %[1]d with waiters", locksThere))
	require.NotContains(t, body, "This is a part")
	t.Logf("%d MB for %d viewers of %d locks, %d MB of it between requests", peak>>20, viewers, locksThere, (heap()-before)>>20)
	require.Less(t, peak, int64(fixed+eachLock*locksThere))
	leave()
	streams.Wait()
}

// discarded is a viewer that keeps nothing.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Flush()                      {}
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return io.Discard.Write(p) }

// fill creates locks with a holder and a waiter.
func fill(t *testing.T, client *framework.Framework, n int) {
	t.Helper()
	for from := 0; from < n; from += 10_000 {
		var ops []framework.Op
		for i := from; i < min(from+10_000, n); i++ {
			for k := range 2 {
				path := fmt.Sprintf("/locks/%06d/_c_%08x-5bf2-4c4b-8f0e-3c9a5d1f7b2%d-lock-%010d", i, i, k, k)
				ops = append(ops, framework.CreateOp(path, fmt.Appendf(nil, "worker-%d.internal.example/%d nightly %d", i%40, 1000+i, i), framework.CreatingParentsIfNeeded()))
			}
		}
		_, err := client.Bulk(t.Context(), ops)
		require.NoError(t, err)
	}
}

// TestWhatZnodesSayIsBounded: one with much data, long names or very many children costs the page little, and what
// is left out is said.
func TestWhatZnodesSayIsBounded(t *testing.T) {
	const most = 64 << 20
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for i := range 40 {
		_, err := client.Create(t.Context(), fmt.Sprintf("/large/%d/_c_0123456789abcdef0123456789abcd%02x-lock-0000000000", i, i),
			[]byte(strings.Repeat("A", 1_000_000)), framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
	}
	hold(t, client, "/locks/"+strings.Repeat("n", 100_000), locks.WithLabel("long"))
	handler := page.Handler(client, "/")
	before := heap()
	for _, target := range []string{"/", "/?lock=/large/1", "/?format=json"} {
		w := get(t, handler, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		require.Less(t, w.Body.Len(), 400_000, target)
	}
	require.Less(t, heap()-before, int64(most))
}
