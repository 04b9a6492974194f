// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// handlerFunc is a log handler of the worst kind: it does what it likes.
type handlerFunc func(slog.Record)

func (h handlerFunc) Enabled(context.Context, slog.Level) bool { return true }

func (h handlerFunc) Handle(_ context.Context, r slog.Record) error { h(r); return nil }

func (h handlerFunc) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handlerFunc) WithGroup(string) slog.Handler { return h }

// stuckAt returns a logger whose handler blocks at the first record with this text, until
// release is called.
func stuckAt(text string) (log *slog.Logger, release func()) {
	free := make(chan struct{})
	return slog.New(handlerFunc(func(r slog.Record) {
		if strings.Contains(r.Message, text) {
			<-free
		}
	})), func() { close(free) }
}

// TestLoggerThatBlocksCostsLogLinesOnly: contexts end in time, calls go on and end with
// their contexts, and Close is bounded.
func TestLoggerThatBlocksCostsLogLinesOnly(t *testing.T) {
	for _, text := range []string{"connection state", "suspended", "lost"} {
		t.Run(text, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				log, release := stuckAt(text)
				defer release()
				f := n.client(t, framework.WithLogger(log))
				session := f.Session()
				standard := session.Context(framework.StandardErrorPolicy)
				patient := session.Context(framework.SessionErrorPolicy)

				n.setDown(true)
				synctest.Wait() // in which no time passes
				require.Equal(t, framework.ReasonSuspended, lostReason(t, context.Cause(standard)))
				require.Equal(t, framework.Suspended, f.State())
				require.ErrorIs(t, f.Health().Err, framework.ErrNotConnected)
				deadline := session.Deadline()
				<-patient.Done()
				require.Zero(t, time.Since(deadline))
				require.Equal(t, framework.ReasonLeaseEnd, lostReason(t, context.Cause(patient)))

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := f.Get(ctx, "/")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(began))

				n.setDown(false)
				must.Get(f.Get(t.Context(), "/"))(t)
				began = time.Now()
				require.NoError(t, f.Close())
				require.LessOrEqual(t, time.Since(began), 2*time.Second)
			})
		})
	}
}

// TestLoggerWatchHookMayDoAnything: it runs on a goroutine of its own.
func TestLoggerWatchHookMayDoAnything(t *testing.T) {
	for name, hook := range map[string]func(f *framework.Framework, n *memnet){
		"close":   func(f *framework.Framework, _ *memnet) { _ = f.Close() }, // another goroutine may have begun to
		"panic":   func(*framework.Framework, *memnet) { panic("test: a hook") },
		"request": func(f *framework.Framework, _ *memnet) { _, _ = f.Exists(context.Background(), "/") },
		"block":   func(_ *framework.Framework, n *memnet) { <-n.released },
	} {
		for _, end := range []string{"event", "disconnection", "before"} {
			t.Run(name+", "+end, func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *memnet) {
					n.released = make(chan struct{})
					defer close(n.released)
					f, other := n.client(t), n.client(t)
					var w *framework.Watch
					must.Get(f.Exists(t.Context(), "/a", framework.Watched(&w)))(t)
					if end == "before" {
						mustCreate(t, other, "/a")
						<-w.Fired()
					}
					called := make(chan framework.Event, 1)
					w.OnFired(func(e framework.Event) {
						called <- e
						hook(f, n)
					})
					switch end {
					case "event":
						mustCreate(t, other, "/a")
					case "disconnection":
						n.cut()
					}
					e := <-called
					require.Equal(t, "/a", e.Path)
					if name == "close" {
						_ = f.Close() // waits for the hook's, which may have had no connection
						require.ErrorIs(t, f.BlockUntilConnected(t.Context()), framework.ErrClosed)
					} else {
						require.NoError(t, f.BlockUntilConnected(t.Context()))
					}
				})
			})
		}
	}
}

// TestEndOnDeletionIsInTheStream: the context has ended when any other goroutine can know
// of the deletion, from the answer to a later request for instance.
func TestEndOnDeletionIsInTheStream(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		for _, change := range []string{"deleted", "set", "cancelled", "deleted before"} {
			mustCreate(t, f, "/a")
			var w *framework.Watch
			must.Get(f.Get(t.Context(), "/a", framework.Watched(&w)))(t)
			ctx, end := context.WithCancelCause(t.Context())
			lost := &framework.LostError{Reason: framework.ReasonNodeDeleted}
			if change != "deleted before" {
				w.EndOnDeletion(end, lost)
			}
			switch change {
			case "set":
				require.NoError(t, f.Set(t.Context(), "/a", nil))
				require.Equal(t, zk.EventNodeDataChanged, w.Event().Type)
			case "cancelled":
				w.Cancel()
			}
			require.NoError(t, f.Delete(t.Context(), "/a"))
			if change == "deleted before" {
				w.EndOnDeletion(end, lost)
			}
			if strings.HasPrefix(change, "deleted") {
				require.Equal(t, lost, context.Cause(ctx), "%s", change)
			} else {
				require.NoError(t, ctx.Err(), "%s", change)
			}
			end(nil)
		}
	})
}
