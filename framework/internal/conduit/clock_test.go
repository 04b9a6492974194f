// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// TestClockLeaseCountsSuspensions: whoever looks at the deadline sees them at once, and
// others are told within a second.
func TestClockLeaseCountsSuspensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64
		suspended.Store(int64(time.Hour)) // before
		n := newNetwork(t)
		opened := time.Now()
		c, told := open(t, n, func(cfg *conduit.Config) {
			cfg.Suspended = func() time.Duration { return time.Duration(suspended.Load()) }
		})
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		before, over := c.Deadline()
		require.Equal(t, sessionTimeout*99/100, time.Until(before))
		require.False(t, over)

		suspended.Add(int64(time.Minute))
		after, over := c.Deadline()
		require.Equal(t, time.Minute, before.Sub(after))
		require.True(t, over)
		require.Equal(t, "resumed", <-told.told)

		time.Sleep(time.Until(opened.Add(time.Second - 500*time.Microsecond))) // right before the next look
		c.Deadline()                                                           // which asks, too
		suspended.Add(int64(time.Minute))
		began := time.Now()
		require.Equal(t, "resumed", <-told.told)
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func BenchmarkDeadline(b *testing.B) {
	c := conduit.New(conduit.Config{
		Servers: []string{"a:1"}, SessionTimeout: time.Second, ConnectTimeout: time.Second, MaxRequest: 1 << 20, MaxReply: 1 << 10,
		Dial: newNetwork(nil).dial, Events: newEvents(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, c.Start())
	b.ReportAllocs()
	for b.Loop() {
		c.Deadline()
	}
	b.StopTimer()
	_ = c.Close()
}
