// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
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

// requireHeap waits until the heap is no larger: replies may be under way.
func requireHeap(t *testing.T, most int64) {
	t.Helper()
	require.Eventually(t, func() bool { return heap() <= most }, 20*time.Second, 100*time.Millisecond, "bytes: %d", most)
}

// TestWhatZnodesSayIsBounded: one with much data, long names or very many children costs the page little, and what
// is left out is said.
func TestWhatZnodesSayIsBounded(t *testing.T) {
	const most = int64(64 << 20)
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithSessionTimeout(time.Minute)) // replies of 40 MB take a busy machine long
	for i := range 40 {
		must.Get(client.Create(t.Context(), fmt.Sprintf("/large/%d/_c_0123456789abcdef0123456789abcd%02x-lock-0000000000", i, i),
			[]byte(strings.Repeat("A", 1_000_000)), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)
	}
	hold(t, client, "/locks/"+strings.Repeat("n", 100_000), locks.WithLabel("long"))
	handler := page.Handler(client, "/")
	before := heap()
	for _, target := range []string{"/", "/?lock=/large/1", "/?page=1"} {
		w := get(t, handler, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		require.Less(t, w.Body.Len(), 400_000, target)
	}
	requireHeap(t, before+most)
	require.NotContains(t, get(t, handler, "/").Body.String(), "This is a part")

	for i := range 40 { // lists of 40 MB in all, of which nothing but their replies says how long they are
		_, err := client.Create(t.Context(), fmt.Sprintf("/names/%d/%s", i, strings.Repeat("n", 1_000_000)), nil, framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
	}
	before = heap()
	w := get(t, page.Handler(client, "/"), "/")
	require.Contains(t, w.Body.String(), "This is a part")
	require.Contains(t, textOf(w.Body.String()), "41 in all", "the locks are there")
	requireHeap(t, before+most)
}

// TestChildrenThatAreNoContendersAreCounted, and the first of them are named.
func TestChildrenThatAreNoContendersAreCounted(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	hold(t, client, "/locks/report")
	var ops []framework.Op
	for i := range 100 {
		ops = append(ops, framework.CreateOp(fmt.Sprintf("/locks/report/other%02d", i), nil))
	}
	must.Get(client.Bulk(t.Context(), ops))(t)
	body := get(t, page.Handler(client, "/"), "/?lock=/locks/report").Body.String()
	require.Contains(t, body, "other18, other19, and 80 more</p>")
}
