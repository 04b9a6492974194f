// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/wire"
)

const opRead, opWrite = 4, 5 // getData, setData

// exchange takes n requests with replies of a length through the window, as many at a
// time as it admits, each answered after the latency. It returns how many were
// outstanding at most.
func exchange(w *window, op int32, n, length int, now *time.Time, latency time.Duration) (most int) {
	var out []pendingRequest
	for n > 0 || len(out) > 0 {
		for n > 0 {
			cost := w.cost(op, 100, *now)
			var oldest time.Time
			if len(out) > 0 {
				oldest = out[0].sent
			}
			if w.held = !w.admits(cost, oldest, *now); w.held {
				break
			}
			w.used += cost
			out = append(out, pendingRequest{op: op, sent: *now, cost: cost})
			n--
		}
		most = max(most, len(out))
		*now = now.Add(latency)
		for _, r := range out {
			w.learn(op, length, *now)
			w.answered(r.cost, r.sent, *now)
		}
		out = out[:0]
	}
	return most
}

func TestWindowOpensForSmallRepliesAndClosesForLongOnes(t *testing.T) {
	const timeout = 6 * time.Second
	w, now := newWindow(timeout), at(0)
	require.LessOrEqual(t, exchange(&w, opRead, 8, 1<<20, &now, 10*time.Millisecond), 4,
		"nothing is known of the replies yet")
	require.Equal(t, 1, exchange(&w, opRead, 8, 1<<20, &now, 10*time.Millisecond))
	exchange(&w, opRead, 100, 100, &now, 10*time.Millisecond)
	require.Greater(t, exchange(&w, opRead, 10_000, 100, &now, 10*time.Millisecond), 500)
	now = now.Add(2 * staleAfter)
	require.LessOrEqual(t, exchange(&w, opRead, 8, 1<<20, &now, 10*time.Millisecond), 4,
		"after a pause, what comes may be of another kind")
}

func TestWindowLateRepliesCloseTheWindow(t *testing.T) {
	const timeout = 6 * time.Second
	w, now := newWindow(timeout), at(0)
	fast := exchange(&w, opWrite, 10_000, 20, &now, time.Millisecond)
	exchange(&w, opWrite, 10_000, 20, &now, timeout/patienceShare+time.Millisecond)
	slow := exchange(&w, opWrite, 10_000, 20, &now, timeout/patienceShare+time.Millisecond)
	require.Greater(t, fast, 500)
	require.LessOrEqual(t, slow, minWindow/minCost)
	require.Zero(t, w.used)
}

func TestWindowNothingFollowsARequestThatIsNotAnsweredInTime(t *testing.T) {
	const timeout = 6 * time.Second
	w := newWindow(timeout)
	w.used = minCost
	require.True(t, w.admits(minCost, at(0), at(0.9)))
	require.False(t, w.admits(minCost, at(0), at(1.1)))
	w.used = 0
	require.True(t, w.admits(maxWindow, at(0), at(100)), "or it would wait forever")
}

// As many reads share a request as their data lets fit into a reply, and such a request takes the
// window for all of them.
func TestWindowReadsTogetherFollowTheLengthsOfReplies(t *testing.T) {
	w, now := newWindow(6*time.Second), at(0)
	require.Equal(t, 1, w.together(opRead, now), "nothing is known of the replies yet")
	exchange(&w, opRead, 100, 1<<10, &now, time.Millisecond)
	require.Equal(t, 32, w.together(opRead, now))
	require.Equal(t, 32<<10, w.costJoined(opRead, 32, 100, now))
	w.learn(opRead, 8<<10, now)
	require.Equal(t, 4, w.together(opRead, now))
	require.Equal(t, 8<<10, w.cost(opRead, 100, now))
	exchange(&w, opRead, 100, 10, &now, time.Millisecond)
	require.Equal(t, maxTogether, w.together(opRead, now), "however short they are")
	now = now.Add(2 * staleAfter)
	require.Equal(t, 1, w.together(opRead, now), "after a pause, what comes may be of another kind")
}

// An exists is made as a read of data only while the data is known to be short.
func TestWindowExistsTogetherFollowTheLengthsOfData(t *testing.T) {
	w, now := newWindow(6*time.Second), at(0)
	exchange(&w, opRead, 100, 10, &now, time.Millisecond)
	exchange(&w, wire.OpExists, 100, 84, &now, time.Millisecond)
	require.Equal(t, 1, w.together(wire.OpExists, now), "data of others and Stats say nothing")
	for range 20 {
		w.learn(existsAsData, maxUnasked, now)
	}
	require.Equal(t, unaskedTogether, w.together(wire.OpExists, now))
	require.Equal(t, unaskedTogether*maxUnasked, w.costJoined(wire.OpExists, unaskedTogether, 100, now))
	require.Equal(t, minCost, w.cost(wire.OpExists, 100, now))
	w.learn(existsAsData, maxUnasked+1, now)
	require.Equal(t, 1, w.together(wire.OpExists, now))
	require.Equal(t, maxTogether, w.together(opRead, now))
}
