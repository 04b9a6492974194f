// SPDX-License-Identifier: Apache-2.0

package logqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/logqueue"
)

const everything = slog.Level(math.MinInt)

// gate is a handler that does something before it writes.
type gate struct {
	slog.Handler
	before func(slog.Record)
}

func (g gate) Handle(ctx context.Context, r slog.Record) error {
	g.before(r)
	return g.Handler.Handle(ctx, r)
}

func (g gate) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gate{g.Handler.WithAttrs(attrs), g.before}
}

func (g gate) WithGroup(name string) slog.Handler { return gate{g.Handler.WithGroup(name), g.before} }

// queueTo returns a queue that calls before with each record and then writes it to a buffer.
func queueTo(before func(slog.Record)) (*logqueue.Queue, *bytes.Buffer) {
	var out bytes.Buffer
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return logqueue.New(func() slog.Handler { return gate{text, before} }), &out
}

func TestQueueRecordsAreWrittenInOrderAsTheHandlerItselfWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, out := queueTo(func(slog.Record) {})
		log := slog.New(queue.Handler(everything))
		for i := range 3 {
			log.With("client", "a").WithGroup("g").Info("said", "n", i)
		}
		log.Debug("below the handler's level")
		log.Warn("last")
		queue.Flush(time.Second)
		require.Equal(t, `level=INFO msg=said client=a g.n=0
level=INFO msg=said client=a g.n=1
level=INFO msg=said client=a g.n=2
level=WARN msg=last
`, out.String())
	})
}

func TestQueueKeepsALevel(t *testing.T) {
	queue, out := queueTo(func(slog.Record) {})
	log := slog.New(queue.Handler(slog.LevelWarn))
	require.False(t, log.Enabled(t.Context(), slog.LevelInfo))
	log.Info("no")
	log.Warn("yes")
	queue.Flush(time.Minute)
	require.Equal(t, "level=WARN msg=yes\n", out.String())
}

// TestQueueHandlerThatBlocksHoldsUpNoCaller and loses what does not fit, the newest, with a
// record of how many those were.
func TestQueueHandlerThatBlocksHoldsUpNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		queue, out := queueTo(func(slog.Record) { <-release })
		log := slog.New(queue.Handler(everything))
		log.Info("first") // with which the handler blocks
		synctest.Wait()
		began := time.Now()
		for i := range 2000 {
			log.Info("more", "n", i)
		}
		require.Zero(t, time.Since(began))
		queue.Flush(3 * time.Second)
		require.Equal(t, 3*time.Second, time.Since(began), "Flush waits for as long as it is told")
		require.Empty(t, out.String())

		close(release)
		queue.Flush(time.Second)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 1+1024+1)
		require.Contains(t, lines[1024], "n=1023", "what has waited longest is written")
		require.Contains(t, lines[1025], "log records lost")
		require.Contains(t, lines[1025], fmt.Sprintf("records=%d", 2000-1024))
		log.Info("again")
		queue.Flush(time.Second)
		require.True(t, strings.HasSuffix(out.String(), "msg=again\n"))
		require.Equal(t, 1, strings.Count(out.String(), "log records lost"), "it is reported once")
	})
}

// TestQueueHandlerThatAlwaysPanicsKeepsNothingBusy: its report of lost records panics as well.
func TestQueueHandlerThatAlwaysPanicsKeepsNothingBusy(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("test: a handler") },
		"exit":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, broken := 0, true
				queue, out := queueTo(func(slog.Record) {
					if calls++; broken {
						end()
					}
				})
				log := slog.New(queue.Handler(everything))
				log.Info("one")
				synctest.Wait()
				log.Info("two")
				synctest.Wait()
				require.LessOrEqual(t, calls, 5)
				broken = false
				log.Info("three")
				queue.Flush(time.Second)
				require.Regexp(t, `records=2\nlevel=INFO msg=three\n$`, out.String())
			})
		})
	}
}
