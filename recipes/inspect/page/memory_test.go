// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

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

// TestWhatZnodesSayIsBounded: one with much data, long names or very many children costs the page little, and what
// is left out is said.
func TestWhatZnodesSayIsBounded(t *testing.T) {
	const most = 64 << 20
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for i := range 40 {
		_, err := client.Create(t.Context(), fmt.Sprintf("/large/%d/_c_0123456789abcdef0123456789abcd%02x-lock-0000000000", i, i),
			[]byte(strings.Repeat("A", 1_000_000)), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral))
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
