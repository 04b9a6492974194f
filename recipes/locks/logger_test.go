// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// misbehaving is a log handler that does something at each record.
type misbehaving struct{ do func(slog.Record) }

func (m misbehaving) Enabled(context.Context, slog.Level) bool { return true }

func (m misbehaving) Handle(_ context.Context, r slog.Record) error { m.do(r); return nil }

func (m misbehaving) WithAttrs([]slog.Attr) slog.Handler { return m }

func (m misbehaving) WithGroup(string) slog.Handler { return m }

// TestLeaseHolderKnowsFirstWhateverItsLoggerDoes: a rival that gets the lock finds the
// holder's context ended, although the logger of the holder's client blocks, panics or
// calls the client at the very record of the loss.
func TestLeaseHolderKnowsFirstWhateverItsLoggerDoes(t *testing.T) {
	for name, do := range map[string]func(f *framework.Framework, free <-chan struct{}){
		"blocks":       func(_ *framework.Framework, free <-chan struct{}) { <-free },
		"panics":       func(*framework.Framework, <-chan struct{}) { panic("test: a handler") },
		"calls State":  func(f *framework.Framework, _ <-chan struct{}) { _ = f.State() },
		"calls Health": func(f *framework.Framework, _ <-chan struct{}) { _ = f.Health() },
		"calls Close":  func(f *framework.Framework, _ <-chan struct{}) { _ = f.Close() }, // in an outage
	} {
		for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zkserver.WithoutListener())
					free := make(chan struct{})
					defer close(free)
					var holder *framework.Framework
					log := slog.New(misbehaving{func(r slog.Record) {
						if strings.Contains(r.Message, "suspended") || strings.Contains(r.Message, "lost") {
							do(holder, free)
						}
					}})
					holder = zktest.Client(t, server, framework.WithLogger(log))
					lease := acquire(t, newMutex(t, holder, "/lock", locks.WithErrorPolicy(policy)))
					work := lease.Context(context.Background())
					rival := newMutex(t, zktest.Client(t, server), "/lock")
					told := make(chan error, 1)
					waiting := make(chan outcome, 1)
					go func() {
						next, err := rival.Acquire(context.Background())
						told <- context.Cause(work) // at once, on the rival's own goroutine
						waiting <- outcome{next, err}
					}()
					time.Sleep(time.Second)
					heal := server.Blackhole(holder.Session().ID(), zkserver.Both)
					defer heal()
					require.ErrorAs(t, <-told, new(*locks.LostError))
					next := <-waiting
					require.NoError(t, next.err)
					release(t, next.lease)
				})
			})
		}
	}
}
