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

// withOption are the calls that take an option of every call.
var withOption = map[string]func(ctx context.Context, f *framework.Framework, o framework.CallOption) error{
	"create": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Create(ctx, "/a", nil, o, framework.CreatingParentsIfNeeded())
		return err
	},
	"create protected": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Create(ctx, "/a", nil, o, framework.WithProtection())
		return err
	},
	"create idempotent": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Create(ctx, "/a", nil, o, framework.Idempotent())
		return err
	},
	"delete": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Delete(ctx, "/a", o)
	},
	"delete idempotent": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Delete(ctx, "/a", framework.Idempotent(), o)
	},
	"get": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Get(ctx, "/a", o)
		return err
	},
	"config": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Config(ctx, o)
		return err
	},
	"exists": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Exists(ctx, "/a", o)
		return err
	},
	"exists with parents": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Exists(ctx, "/a/b", o, framework.CreatingParentsIfNeeded())
		return err
	},
	"children": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Children(ctx, "/a", o)
		return err
	},
	"set": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Set(ctx, "/a", nil, o)
	},
	"set idempotent": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Set(ctx, "/a", nil, o, framework.Idempotent())
	},
	"get ACL": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.GetACL(ctx, "/a", o)
		return err
	},
	"set ACL": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll), o)
	},
	"reconfig": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Reconfig(ctx, framework.Reconfiguration{Leaving: []string{"1"}}, o)
		return err
	},
	"sync": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Sync(ctx, "/a", o)
	},
	"create containers": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.CreateContainers(ctx, "/a", o)
	},
	"ephemerals": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.Ephemerals(ctx, "/a", o)
		return err
	},
	"identities": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.WhoAmI(ctx, o)
		return err
	},
	"add watch": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		_, err := f.AddWatch(ctx, "/a", framework.WatchPersistent, o)
		return err
	},
	"retry": func(ctx context.Context, f *framework.Framework, o framework.CallOption) error {
		return f.Retry(ctx, func(ctx context.Context) error { return f.Sync(ctx, "/a") }, o)
	},
}

var errWhy = errors.New("the caller has changed its mind")

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
