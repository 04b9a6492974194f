// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestSessionFailedKeepsACallInItsSession: a call that began in a session which has ended
// fails, and nothing is sent in the next session.
func TestSessionFailedKeepsACallInItsSession(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, f *framework.Framework) error{
		"get": func(ctx context.Context, f *framework.Framework) error { _, err := f.Get(ctx, "/a"); return err },
		"set": func(ctx context.Context, f *framework.Framework) error {
			return f.Set(ctx, "/a", nil, framework.Idempotent())
		},
		"retry": func(ctx context.Context, f *framework.Framework) error {
			return f.Retry(ctx, func(ctx context.Context) error { _, err := f.Get(ctx, "/a"); return err })
		},
		"several calls": func(ctx context.Context, f *framework.Framework) error {
			return f.Retry(ctx, func(ctx context.Context) error {
				if _, err := f.Exists(ctx, "/b"); err != nil {
					return err
				}
				_, err := f.Get(ctx, "/a")
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f, states := n.newClient(t, framework.WithRetryPolicy(retry.SessionFailed(retry.Forever(time.Second))))
				require.NoError(t, f.Start())
				states.expect(t, framework.Connected)
				mustCreate(t, f, "/a")
				before := f.Session()
				inTheNext := 0
				n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					switch {
					case r.Op != zkserver.OpGetData && r.Op != zkserver.OpSetData && r.Op != zkserver.OpMulti:
						return zkserver.Pass
					case r.SessionID != before.ID():
						inTheNext++
						return zkserver.Pass
					default:
						require.True(t, n.server.KillSession(before.ID()))
						return zkserver.LoseRequest
					}
				})
				err := call(t.Context(), f)
				require.ErrorIs(t, err, framework.ErrSessionExpired)
				states.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
				require.Zero(t, inTheNext)

				_, err = f.Get(t.Context(), "/a")
				require.NoError(t, err, "a new call begins in the new session")
			})
		})
	}
}

// TestInSessionBindsEveryVerb: with a session or a history that has ended, none is sent.
func TestInSessionBindsEveryVerb(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		mustCreate(t, f, "/a")
		ended, history := f.Session(), f.History()
		require.True(t, n.server.KillSession(ended.ID()))
		states.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
		calls := maps.Clone(withOption)
		for _, name := range []string{"pipeline", "transact"} {
			calls[name] = func(ctx context.Context, f *framework.Framework, in framework.CallOption) error {
				return f.Retry(ctx, func(ctx context.Context) error { return verbs[name](ctx, f, "/a") }, in)
			}
		}
		requests := countRequests(n.server)
		for _, in := range []framework.CallOption{framework.InSession(ended), framework.InHistory(history)} {
			for name, call := range calls {
				err := call(t.Context(), f, in)
				require.ErrorIs(t, err, framework.ErrSessionEnded, name)
				require.False(t, framework.Retryable(err), name)
			}
		}
		require.Zero(t, requests())
		for _, in := range []framework.CallOption{framework.InSession(f.Session()), framework.InHistory(f.History())} {
			for name, call := range calls {
				require.NotErrorIs(t, call(t.Context(), f, in), framework.ErrSessionEnded, name)
			}
		}
	})
}
