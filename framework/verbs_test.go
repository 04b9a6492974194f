// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

var quickReaper = zkserver.WithContainerCheckInterval(50 * time.Millisecond)

// unstarted returns a client that is not started.
func unstarted(t *testing.T, opts ...framework.Option) *framework.Framework {
	t.Helper()
	f := must.Get(framework.New("127.0.0.1:1", opts...))(t)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// TestTransactionOpCanBeUsedAgain: an Op is a value without state.
func TestTransactionOpCanBeUsedAgain(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	create, remove := framework.CreateOp("/a", nil), framework.DeleteOp("/a")
	for range 3 {
		must.Get(f.Transact(t.Context(), create, remove))(t)
	}
}

// verbs are all verbs, on a path.
var verbs = map[string]func(ctx context.Context, f *framework.Framework, path string) error{
	"create": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path, nil)
		return err
	},
	"create protected": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path, nil, framework.WithProtection(), framework.CreatingParentsIfNeeded())
		return err
	},
	"get": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Get(ctx, path)
		return err
	},
	"exists": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Exists(ctx, path)
		return err
	},
	"children": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Children(ctx, path)
		return err
	},
	"set":    func(ctx context.Context, f *framework.Framework, path string) error { return f.Set(ctx, path, nil) },
	"sync":   func(ctx context.Context, f *framework.Framework, path string) error { return f.Sync(ctx, path) },
	"delete": func(ctx context.Context, f *framework.Framework, path string) error { return f.Delete(ctx, path) },
	"delete guaranteed": func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Delete(ctx, path, framework.Guaranteed())
	},
	"exists with parents": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Exists(ctx, path, framework.CreatingParentsIfNeeded())
		return err
	},
	"create idempotent": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path, nil, framework.Idempotent(), framework.OrSetData())
		return err
	},
	"set idempotent": func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Set(ctx, path, nil, framework.Idempotent())
	},
	"delete all": func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Delete(ctx, path, framework.DeletingChildrenIfNeeded(), framework.Idempotent())
	},
	"get ACL": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.GetACL(ctx, path)
		return err
	},
	"set ACL": func(ctx context.Context, f *framework.Framework, path string) error {
		return f.SetACL(ctx, path, zk.WorldACL(zk.PermAll))
	},
	"ephemerals": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Ephemerals(ctx, path)
		return err
	},
	"pipeline": func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Pipeline(ctx, framework.ReadData(path, nil), framework.ReadChildren(path, nil))
	},
	"transact": func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Transact(ctx, framework.CheckOp(path, framework.AnyVersion))
		return err
	},
}

// Curator: TestBlockUntilConnected, all six.
func TestVerbsBeforeStartAndAfterClose(t *testing.T) {
	f := must.Get(framework.New("127.0.0.1:1"))(t)
	for name, verb := range verbs {
		require.ErrorIs(t, verb(t.Context(), f, "/a"), framework.ErrNotStarted, name)
	}
	require.ErrorIs(t, f.Delete(t.Context(), "/a", framework.InBackground()), framework.ErrNotStarted)
	require.ErrorIs(t, f.BlockUntilConnected(t.Context()), framework.ErrNotStarted)
	require.NoError(t, f.Close())
	for name, verb := range verbs {
		err := verb(t.Context(), f, "/a")
		require.ErrorIs(t, err, framework.ErrClosed, name)
		require.False(t, framework.OutcomeUnknown(err), name)
		require.False(t, framework.Retryable(err), name)
	}
	require.ErrorIs(t, f.Delete(t.Context(), "/a", framework.InBackground()), framework.ErrClosed)
	require.ErrorIs(t, f.BlockUntilConnected(t.Context()), framework.ErrClosed)
	require.ErrorIs(t, f.Start(), framework.ErrClosed)
	require.NoError(t, f.Close())
}

var errWhy = errors.New("the caller has changed its mind")

// Curator: TestBlockUntilConnected, all six.
func TestVerbsWithAContextThatHasEnded(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	requests := countRequests(server)
	for name, verb := range verbs {
		if name == "delete guaranteed" {
			continue
		}
		err := verb(ctx, f, "/a")
		require.ErrorIs(t, err, errWhy, name)
		require.False(t, framework.OutcomeUnknown(err), name)
	}
	require.ErrorIs(t, f.BlockUntilConnected(ctx), errWhy)
	require.Zero(t, requests())

	err := f.Delete(ctx, "/a", framework.Guaranteed())
	require.ErrorIs(t, err, errWhy)
	require.ErrorIs(t, err, framework.ErrCleanupPending, "the context bounds only how long the caller waits")
}

// countRequests counts the requests of clients, pings and handshakes excepted,
// until the function that it returns is called, which tells how many there were.
func countRequests(server *zkserver.Server) func() int {
	var mu sync.Mutex
	count := 0
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Op != zkserver.OpPing && r.Op != zkserver.OpCreateSession {
			count++
		}
		return zkserver.Pass
	})
	return func() int {
		remove()
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// TestVerbsCutShort ends the context of each verb, and then the client, while the
// request is under way.
//
// Curator: TestFramework.testBackgroundCreateWithConcurrentClose and the like.
func TestVerbsCutShort(t *testing.T) {
	writes := map[string]bool{
		"create": true, "create protected": true, "set": true, "delete": true, "delete guaranteed": true, "transact": true,
		"create idempotent": true, "set idempotent": true, "delete all": true, "set ACL": true,
	}
	for name, verb := range verbs {
		for _, closing := range []bool{false, true} {
			inMemory(t, func(t *testing.T, n *memnet) {
				f := n.client(t)
				arrived := make(chan struct{}, 100)
				n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpPing || r.Op == zkserver.OpCloseSession {
						return zkserver.Pass
					}
					arrived <- struct{}{}
					return zkserver.NeverAnswer
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() { done <- verb(ctx, f, "/a") }()
				<-arrived
				want := errWhy
				if closing {
					want = framework.ErrClosed
					require.NoError(t, ignore(f.Close()))
				} else {
					cancel(errWhy)
				}
				err := <-done
				require.ErrorIs(t, err, want, "%s, closing %t", name, closing)
				require.Equal(t, writes[name], framework.OutcomeUnknown(err), "%s, closing %t: %v", name, closing, err)
				require.False(t, framework.Retryable(err), "%s, closing %t: %v", name, closing, err)
			})
		}
	}
}

// ignore is for a Close that no server confirms, where that is not what is tested.
func ignore(error) error { return nil }
