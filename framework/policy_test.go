// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestPolicyElapsedIncludesTheFirstTry, for verbs as for Retry, whatever the policy is made of.
func TestPolicyElapsedIncludesTheFirstTry(t *testing.T) {
	exponential := func() backoff.BackOff {
		return backoff.WithMaxRetries(backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Millisecond),
			backoff.WithMaxElapsedTime(time.Second), backoff.WithRandomizationFactor(0)), 1000)
	}
	passOn := func(p retry.Policy, attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
		return p.Next(attempt, elapsed, err)
	}
	for name, policy := range map[string]retry.Policy{
		"until elapsed":         retry.UntilElapsed(time.Second, time.Millisecond),
		"backoff":               retry.FromBackOff(exponential),
		"backoff, wrapped":      retry.Wrap(retry.FromBackOff(exponential), passOn),
		"backoff, session":      retry.SessionFailed(retry.FromBackOff(exponential)),
		"until elapsed, nested": retry.Wrap(retry.SessionFailed(retry.UntilElapsed(time.Second, time.Millisecond)), nil),
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f := n.client(t, framework.WithRetryPolicy(policy), framework.WithConnectionTimeout(2*time.Second))
				n.setDown(true)
				synctest.Wait()
				began := time.Now()
				_, err := f.Get(t.Context(), "/")
				require.ErrorIs(t, err, framework.ErrNotConnected)
				require.Equal(t, 2*time.Second, time.Since(began), "the first try has used the time up")
				began = time.Now()
				err = f.Retry(t.Context(), func(ctx context.Context) error { _, err := f.Get(ctx, "/"); return err })
				require.ErrorIs(t, err, framework.ErrNotConnected)
				require.Equal(t, 2*time.Second, time.Since(began))
			})
		})
	}
}

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
		calls := func(in framework.CallOption) map[string]func() error {
			return map[string]func() error{
				"create":     func() error { _, err := f.Create(t.Context(), "/b", nil, in); return err },
				"delete":     func() error { return f.Delete(t.Context(), "/none", in, framework.Quietly()) },
				"get":        func() error { _, err := f.Get(t.Context(), "/a", in); return err },
				"exists":     func() error { _, err := f.Exists(t.Context(), "/a", in); return err },
				"children":   func() error { _, err := f.Children(t.Context(), "/a", in); return err },
				"set":        func() error { return f.Set(t.Context(), "/a", nil, in) },
				"get ACL":    func() error { _, err := f.GetACL(t.Context(), "/a", in); return err },
				"set ACL":    func() error { return f.SetACL(t.Context(), "/a", zk.WorldACL(zk.PermAll), in) },
				"sync":       func() error { return f.Sync(t.Context(), "/a", in) },
				"containers": func() error { return f.CreateContainers(t.Context(), "/c", in) },
				"pipeline": func() error {
					return f.Retry(t.Context(), func(ctx context.Context) error {
						return f.Pipeline(ctx, framework.ReadData("/a", nil), framework.ReadData("/a", nil))
					}, in)
				},
				"transact": func() error {
					return f.Retry(t.Context(), func(ctx context.Context) error {
						_, err := f.Transact(ctx, framework.CheckOp("/a", framework.AnyVersion))
						return err
					}, in)
				},
			}
		}
		requests := countRequests(n.server)
		for _, in := range []framework.CallOption{framework.InSession(ended), framework.InHistory(history)} {
			for name, call := range calls(in) {
				err := call()
				require.ErrorIs(t, err, framework.ErrSessionEnded, name)
				require.False(t, framework.Retryable(err), name)
			}
		}
		require.Zero(t, requests())
		now := f.History()
		for name, call := range calls(framework.InSession(f.Session())) {
			require.NoError(t, call(), name)
		}
		require.NoError(t, f.Delete(t.Context(), "/b", framework.InHistory(now)))
		for name, call := range calls(framework.InHistory(now)) {
			require.NoError(t, call(), name)
		}
	})
}

// breaker is a circuit breaker as a program writes it: it gives up at once while the last
// calls have all failed.
type breaker struct {
	retry.Policy

	mu     sync.Mutex
	failed int
}

func (b *breaker) Next(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed >= 3 {
		return 0, false
	}
	return b.Policy.Next(attempt, elapsed, err)
}

func (b *breaker) Done(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed++; err == nil {
		b.failed = 0
	}
}

// AllowRetry also repeats what is refused for want of a permission.
func (b *breaker) AllowRetry(err error, retryable bool) bool {
	return retryable || errors.Is(err, framework.ErrNoAuth)
}

// TestPolicyHearsHowCallsEndAndMayRepeatMore: what a circuit breaker needs.
func TestPolicyHearsHowCallsEndAndMayRepeatMore(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		b := &breaker{Policy: retry.NTimes(2, time.Millisecond)}
		f := n.client(t, framework.WithRetryPolicy(b))
		admin := n.client(t)
		mustCreate(t, admin, "/a")
		for range 10 { // single failures between successes open nothing
			_, err := f.Get(t.Context(), "/none")
			require.ErrorIs(t, err, framework.ErrNoNode)
			must.Get(f.Get(t.Context(), "/a"))(t)
		}
		require.Zero(t, b.failed)

		require.NoError(t, admin.SetACL(t.Context(), "/a", zk.WorldACL(zk.PermAdmin)))
		for i, tries := range []int{3, 3, 3, 1} {
			requests := countRequests(n.server)
			_, err := f.Get(t.Context(), "/a")
			require.ErrorIs(t, err, framework.ErrNoAuth)
			require.Equal(t, tries, requests(), "call %d", i)
		}
		require.NoError(t, admin.SetACL(t.Context(), "/a", zk.WorldACL(zk.PermAll)))
		require.NoError(t, f.Retry(t.Context(), func(ctx context.Context) error { _, err := f.Get(ctx, "/a"); return err }))
		require.Zero(t, b.failed, "a success closes it again")
		require.Panics(t, func() { _ = f.Retry(t.Context(), func(context.Context) error { panic("the caller's") }) })
		require.Equal(t, 1, b.failed)
	})
}
