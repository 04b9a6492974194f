// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// telling returns the figures of a server, one pair of queued and written transactions after the other.
func telling(pairs ...[2]int) (figures func(context.Context) (map[string]string, error), asked *int) {
	asked = new(int)
	return func(context.Context) (map[string]string, error) {
		pair := pairs[min(*asked, len(pairs)-1)]
		*asked++
		return map[string]string{
			"zk_sync_processor_request_queued":              fmt.Sprint(pair[0]),
			"zk_cnt_sync_processor_queue_and_flush_time_ms": fmt.Sprint(pair[1]),
		}, nil
	}, asked
}

// A server is waited for until it has written what it had queued when it was asked first, and no longer:
// under load there is always more.
func TestSyncAwaitWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		figures, asked := telling([2]int{7, 7})
		require.NoError(t, awaitWritten(t.Context(), figures))
		require.Equal(t, 1, *asked)

		figures, asked = telling([2]int{7, 3}, [2]int{9, 6}, [2]int{12, 7}, [2]int{20, 8})
		require.NoError(t, awaitWritten(t.Context(), figures))
		require.Equal(t, 3, *asked)

		ctx, cancel := context.WithTimeout(t.Context(), syncStall/2)
		defer cancel()
		figures, _ = telling([2]int{7, 3})
		err := awaitWritten(ctx, figures)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "3 of 7 transactions are written")

		// It has lost four: it is waited for as long as it catches up, and a little longer.
		start := time.Now()
		figures, asked = telling([2]int{100, 50}, [2]int{110, 70}, [2]int{120, 90}, [2]int{100, 96})
		require.NoError(t, awaitWritten(t.Context(), figures))
		require.Equal(t, 3*pollInterval+syncStall, time.Since(start))
		require.Equal(t, 4+int(syncStall/pollInterval), *asked)

		start = time.Now()
		older := map[string]string{"zk_version": "3.5.10", "zk_watch_count": "0"}
		require.NoError(t, awaitWritten(t.Context(), func(context.Context) (map[string]string, error) { return older, nil }))
		require.Zero(t, time.Since(start), "they will not come")
	})
}
