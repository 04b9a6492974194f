// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Every kind of lock that has one holder at a time, in a namespace: ten goroutines
// with one lock and two clients are inside one at a time, and nothing is left.
func TestExclusiveLockExcludes(t *testing.T) {
	for name, create := range exclusive {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				before := server.Counts(t)
				inside, turns := 0, 0
				var wg sync.WaitGroup
				for range 2 {
					client := must.Get(zktest.Client(t, server.ConnectString()).UsingNamespace("orders"))(t)
					before.Sessions++
					lock := create(t, client, "/locks/one")
					for range 5 {
						wg.Go(func() {
							for range 3 {
								err := lock.Do(zktest.Context(t), func(context.Context) error {
									// Unprotected on purpose: the race detector is one more witness.
									if inside++; inside != 1 {
										t.Errorf("%d inside at once", inside)
									}
									turns++
									inside--
									return nil
								})
								if err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				wg.Wait()
				require.Equal(t, 30, turns)
				server.AwaitCounts(t, before, limit)
			})
		})
	}
}

// The folder has been made, and is removed before the node is in it: it is made again, and
// nobody is told. Each trial does so to every folder of the lock.
//
// See CURATOR-180 and CURATOR-436.
func TestExclusiveLockFolderGoesBeforeTheNodeIsThere(t *testing.T) {
	for name, create := range exclusive {
		t.Run(name, func(t *testing.T) {
			runTrials(t, func(t *testing.T, _ int) { folderGoes(t, create) })
		})
	}
}

func folderGoes(t *testing.T, create func(*testing.T, *framework.Framework, string, ...locks.Option) doer) {
	t.Helper()
	server := zktest.NewServer(t)
	admin, client := zktest.Client(t, server.Addr()), zktest.Client(t, server.Addr())
	ours := client.Session().ID()
	created, deleted := make(map[string]int), make(chan error, 10)
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != ours || r.Op != zkserver.OpCreate2 {
			return zkserver.Pass
		}
		folder, _ := framework.SplitPath(r.Path)
		if created[folder]++; created[folder] != 2 { // the first finds no folder, and the second comes after it was made
			return zkserver.Pass
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			deleted <- admin.Delete(zktest.Context(t), folder)
		}()
		return zkserver.HoldUntil(gone)
	})
	defer remove()
	require.NoError(t, create(t, client, "/locks/reaped").Do(zktest.Context(t), func(context.Context) error { return nil }))
	require.NotEmpty(t, deleted, "no folder was there when its node was to be created")
	for len(deleted) > 0 {
		require.NoError(t, <-deleted)
	}
}

// While its holder is away, a lock node is deleted and one of the same name created:
// it is not the holder's.
func TestExclusiveLockNodeOfTheSameNameIsNotTheHolders(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		server.Requires(t, ensemble.ResumedSessions)
		client, link := zktest.ClientViaProxy(t, server)
		admin := zktest.Client(t, server.ConnectString())
		lease := acquire(t, newMutex(t, client, path, locks.WithErrorPolicy(framework.SessionErrorPolicy)))
		link.Refuse(true)
		link.Cut()
		require.NoError(t, admin.Delete(zktest.Context(t), lease.Path()))
		must.Get(admin.Create(zktest.Context(t), lease.Path(), nil, framework.CreatingParentsIfNeeded(),
			framework.WithMode(framework.Ephemeral)))(t)
		link.Refuse(false)
		awaitDone(t, lease.Done(), "the loss")
		require.Equal(t, framework.ReasonNodeDeleted, must.As[*locks.LostError](t, lease.Err()).Reason)
	})
}

// exclusive makes locks of every kind that has one holder at a time.
var exclusive = map[string]func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer{
	"mutex": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		return newMutex(t, client, path, opts...)
	},
	"writer": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		return newReadWrite(t, client, path, opts...).WriteLock()
	},
	"first semaphore": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		s := must.Get(locks.NewInterProcessSemaphore(client, path, locks.FixedLeases(1), opts...))(t)
		return s
	},
	"semaphore": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		return newSemaphore(t, client, path, locks.FixedLeases(1), opts...)
	},
	"semaphore mutex": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		m := must.Get(locks.NewInterProcessSemaphoreMutex(client, path, opts...))(t)
		return m
	},
	"multi-lock": func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) doer {
		t.Helper()
		return newMulti(t, newMutex(t, client, path+"/b", opts...), newReadWrite(t, client, path+"/a", opts...).WriteLock())
	},
}

type doer interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// pause is for what can only be asked for again and again.
func pause() { <-time.After(time.Millisecond) }
