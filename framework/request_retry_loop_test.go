// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// countingPolicy allows some retries, without a pause, and counts how often it is
// asked.
type countingPolicy struct {
	allows int
	asked  atomic.Int64
}

func (p *countingPolicy) Next(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
	p.asked.Add(1)
	return 0, attempt < p.allows
}

// throttledServer refuses every request of these operations, as one that may be made
// again, and counts them.
func throttledServer(t *testing.T, ops ...zkserver.OpCode) (*zkserver.Server, *atomic.Int64) {
	t.Helper()
	server, refused := zktest.NewServer(t), new(atomic.Int64)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreateSession || r.Op == zkserver.OpPing || r.Op == zkserver.OpCloseSession {
			return zkserver.Pass
		}
		for _, op := range ops {
			if r.Op != op {
				continue
			}
			refused.Add(1)
			return zkserver.FailWith(throttled)
		}
		if len(ops) > 0 {
			return zkserver.Pass
		}
		refused.Add(1)
		return zkserver.FailWith(throttled)
	})
	return server, refused
}

const throttled = -127

func TestWithRetryOnEveryVerb(t *testing.T) {
	server, refused := throttledServer(t)
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.PolicyFunc(
		func(int, time.Duration, error) (time.Duration, bool) {
			t.Error("the client's policy is asked")
			return 0, false
		})))
	for name, verb := range map[string]func(ctx context.Context, o framework.CallOption) error{
		"create": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Create(ctx, "/a", nil, o, framework.CreatingParentsIfNeeded())
			return err
		},
		"create protected": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Create(ctx, "/a", nil, o, framework.WithProtection())
			return err
		},
		"create idempotent": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Create(ctx, "/a", nil, o, framework.Idempotent())
			return err
		},
		"delete": func(ctx context.Context, o framework.CallOption) error { return f.Delete(ctx, "/a", o) },
		"delete idempotent": func(ctx context.Context, o framework.CallOption) error {
			return f.Delete(ctx, "/a", framework.Idempotent(), o)
		},
		"get": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Get(ctx, "/a", o)
			return err
		},
		"config": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Config(ctx, o)
			return err
		},
		"exists": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Exists(ctx, "/a", o)
			return err
		},
		"exists with parents": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Exists(ctx, "/a/b", o, framework.CreatingParentsIfNeeded())
			return err
		},
		"children": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Children(ctx, "/a", o)
			return err
		},
		"set": func(ctx context.Context, o framework.CallOption) error { return f.Set(ctx, "/a", nil, o) },
		"set idempotent": func(ctx context.Context, o framework.CallOption) error {
			return f.Set(ctx, "/a", nil, o, framework.Idempotent())
		},
		"get ACL": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.GetACL(ctx, "/a", o)
			return err
		},
		"set ACL": func(ctx context.Context, o framework.CallOption) error {
			return f.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll), o)
		},
		"reconfig": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Reconfig(ctx, framework.Reconfiguration{Leaving: []string{"1"}}, o)
			return err
		},
		"sync":              func(ctx context.Context, o framework.CallOption) error { return f.Sync(ctx, "/a", o) },
		"create containers": func(ctx context.Context, o framework.CallOption) error { return f.CreateContainers(ctx, "/a", o) },
		"ephemerals": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.Ephemerals(ctx, "/a", o)
			return err
		},
		"identities": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.WhoAmI(ctx, o)
			return err
		},
		"add watch": func(ctx context.Context, o framework.CallOption) error {
			_, err := f.AddWatch(ctx, "/a", framework.WatchPersistent, o)
			return err
		},
		"retry": func(ctx context.Context, o framework.CallOption) error {
			return f.Retry(ctx, func(ctx context.Context) error { return f.Sync(ctx, "/a") }, o)
		},
	} {
		refused.Store(0)
		policy := &countingPolicy{allows: 3}
		require.ErrorIs(t, verb(t.Context(), framework.WithRetry(policy)), framework.ServerError(throttled), name)
		require.EqualValues(t, 4, refused.Load(), name)
		require.EqualValues(t, 4, policy.asked.Load(), name)
		require.ErrorIs(t, verb(t.Context(), framework.WithRetry(nil)), framework.ErrInvalidOption, name)
		require.ErrorIs(t, verb(t.Context(), framework.WithRetry((*retry.Budget)(nil))), framework.ErrInvalidOption, name)
	}
}

func TestWithRetryWhereItMakesNoSense(t *testing.T) {
	f, ctx, o := unstarted(t), t.Context(), framework.WithRetry(retry.None())
	require.ErrorIs(t, f.Delete(ctx, "/a", framework.InBackground(), o), framework.ErrInvalidOption)
	require.ErrorIs(t, f.Pipeline(ctx, framework.ReadData("/a", nil, o), framework.ReadChildren("/a", nil)), framework.ErrInvalidOption)
	for _, op := range []framework.Op{
		framework.CreateOp("/a", nil, o), framework.SetDataOp("/a", nil, o), framework.DeleteOp("/a", o),
	} {
		_, err := f.Transact(ctx, op)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, "WithRetry")
	}
}

// Curator: TestThreadLocalRetryLoop.testRecursingRetry, testThreadedRecursingRetry.
func TestRetryBudgetIsShared(t *testing.T) {
	server, refused := throttledServer(t, zkserver.OpGetData)
	policy := &countingPolicy{allows: 6}
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(policy))
	mustCreate(t, f, "/a")
	get := func(ctx context.Context) error {
		_, err := f.Get(ctx, "/a")
		return err
	}
	view := must.Get(f.UsingNamespace("x"))(t)
	runs := 0
	require.ErrorIs(t, f.Retry(t.Context(), func(ctx context.Context) error {
		runs++
		if err := f.Sync(ctx, "/a"); err != nil {
			return err
		}
		return view.Retry(ctx, get)
	}), framework.ServerError(throttled))
	require.EqualValues(t, 7, refused.Load(), "and not 343")
	require.Equal(t, 1, runs, "the innermost call is repeated in its place")

	refused.Store(0)
	own := &countingPolicy{allows: 2}
	err := f.Retry(t.Context(), func(ctx context.Context) error {
		require.Error(t, get(ctx))
		_, err := f.Get(ctx, "/a", framework.WithRetry(retry.None()))
		require.Error(t, err)
		return errors.New("not retryable")
	}, framework.WithRetry(own))
	require.ErrorContains(t, err, "not retryable")
	require.EqualValues(t, 3+1, refused.Load(), "a policy of its own has a budget of its own")

	// A context that outlives its loop is on its own again.
	refused.Store(0)
	kept := make(chan context.Context, 1)
	require.NoError(t, f.Retry(t.Context(), func(ctx context.Context) error { kept <- ctx; return nil }, framework.WithRetry(own)))
	require.Error(t, get(<-kept))
	require.EqualValues(t, 7, refused.Load())

	// So is another client.
	other := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.None()))
	refused.Store(0)
	require.Error(t, f.Retry(t.Context(), func(ctx context.Context) error {
		_, err := other.Get(ctx, "/a")
		return err
	}))
	require.EqualValues(t, 7, refused.Load())
}

// TestRetryBudgetOfOneCall: whatever a call does on its way, its retries are no more
// than its policy allows. What comes after the last one, once the policy has given up,
// is the search for a node in doubt, which the client does in the background.
//
// Curator: TestThreadLocalRetryLoop.testRecursingRetry, testThreadedRecursingRetry.
func TestRetryBudgetOfOneCall(t *testing.T) {
	fail := map[string][]zkserver.OpCode{
		"create protected":    {zkserver.OpCreate2, zkserver.OpGetChildren2},
		"exists with parents": {zkserver.OpExists, zkserver.OpCreate2},
		"create idempotent":   {zkserver.OpSetData, zkserver.OpGetData},
		"delete all":          {zkserver.OpGetChildren2},
	}
	for name, ops := range fail {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			policy := &countingPolicy{allows: 5}
			f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(policy))
			mustCreate(t, f, "/full")
			mustCreate(t, f, "/full/child")
			var requests atomic.Int64
			turn := map[zkserver.OpCode]int{}
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				for _, op := range ops {
					if r.Op != op || policy.asked.Load() > int64(policy.allows) {
						continue
					}
					if turn[op]++; op == zkserver.OpExists && turn[op] > 3 {
						return zkserver.Pass
					}
					requests.Add(1)
					if turn[op]%2 == 1 && op == zkserver.OpCreate2 {
						return zkserver.LoseReply // so that the next try searches
					}
					return zkserver.FailWith(throttled)
				}
				return zkserver.Pass
			})
			path := map[string]string{"exists with parents": "/x/y/z", "create protected": "/x"}[name]
			if path == "" {
				path = "/full"
			}
			require.Error(t, verbs[name](t.Context(), f, path))
			require.EqualValues(t, 6, policy.asked.Load())
			require.EqualValues(t, 6, requests.Load())
		})
	}
}

func TestRetryOfAWriteInDoubt(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(&countingPolicy{allows: 3}))
	mustCreate(t, f, "/a")
	for name, opts := range map[string][]framework.SetOption{"once": nil, "again": {framework.Idempotent()}} {
		lose := 1
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpSetData || lose == 0 {
				return zkserver.Pass
			}
			lose--
			return zkserver.LoseReply
		})
		runs := 0
		err := f.Retry(t.Context(), func(ctx context.Context) error { runs++; return f.Set(ctx, "/a", nil, opts...) })
		remove()
		require.Equal(t, 1, runs, name)
		if opts == nil {
			require.True(t, framework.OutcomeUnknown(err), name)
			continue
		}
		require.NoError(t, err, "the set itself is repeated")
	}
}

func TestRetryThatMakesNoSense(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	never := func(context.Context) error { return errors.New("it is called") }
	require.ErrorIs(t, f.Retry(t.Context(), never, nil), framework.ErrInvalidOption)
	err := f.Retry(t.Context(), nil)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	require.EqualError(t, err, "framework: retry: invalid option: op nil, expected a function")
	require.ErrorIs(t, unstarted(t).Retry(t.Context(), never), framework.ErrNotStarted)
	err = f.Retry(t.Context(), func(context.Context) error { return &backoff.PermanentError{} })
	require.ErrorContains(t, err, "a backoff.PermanentError that holds no error", "a failure is no success")
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Retry(t.Context(), never), framework.ErrClosed)
}
