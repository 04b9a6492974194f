// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

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

// begin has fn run in another goroutine while the lock is held.
func begin(t *testing.T, lock doer, fn func(context.Context) error) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	ctx := zktest.Context(t)
	go func() { ended <- lock.Do(ctx, fn) }()
	return ended
}

// The server is stopped and started again while every kind of lock is held and
// waited for: holders and waiters get through.
func TestOutageServerRestartsUnderTheLocks(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		holder, waiter := w.holder, w.waiter
		restarted := make(chan struct{})
		var wg sync.WaitGroup
		var holding sync.WaitGroup
		holding.Add(len(exclusive)) // at once, as some wait while others are still being started
		for name, create := range exclusive {
			held, waited := create(t, holder, "/locks/"+name), create(t, waiter, "/locks/"+name)
			wg.Go(func() {
				err := held.Do(zktest.Context(t), func(ctx context.Context) error {
					holding.Done()
					awaitDone(t, ctx.Done(), "the loss")
					<-restarted
					return nil
				})
				var lost *locks.LostError
				if !errors.As(err, &lost) {
					t.Errorf("%s: the holder's hold ended with %v", name, err)
				}
				if err := held.Do(zktest.Context(t), func(context.Context) error { return nil }); err != nil {
					t.Errorf("%s: the holder, again: %v", name, err)
				}
			})
			wg.Go(func() {
				holding.Wait()
				if err := waited.Do(zktest.Context(t), func(context.Context) error { return nil }); err != nil {
					t.Errorf("%s: the waiter: %v", name, err)
				}
			})
		}
		holding.Wait()
		require.NoError(t, w.server.Stop())
		require.NoError(t, w.server.Restart())
		close(restarted)
		wg.Wait()
	})
}

// Under SessionErrorPolicy a restart that is over in time costs neither holder nor
// waiter anything, whatever the lock.
func TestOutageThatIsShortCostsNothing(t *testing.T) {
	t.Parallel()
	outage := func(t *testing.T, addr string, stop, restart func() error) {
		t.Helper()
		holder, waiter := zktest.Client(t, addr), zktest.Client(t, addr)
		inside, goOn := make(chan struct{}), make(chan struct{})
		waiting := make(map[string]<-chan error)
		held := make(map[string]<-chan error)
		for name, create := range exclusive {
			path := "/locks/" + name
			policy := locks.WithErrorPolicy(framework.SessionErrorPolicy)
			held[name] = begin(t, create(t, holder, path, policy), func(ctx context.Context) error {
				inside <- struct{}{}
				<-goOn
				return ctx.Err()
			})
			<-inside
			waiting[name] = begin(t, create(t, waiter, path, policy), func(context.Context) error { return nil })
		}
		require.NoError(t, stop())
		require.NoError(t, restart())
		require.NoError(t, holder.Sync(zktest.Context(t), "/"))
		require.NoError(t, waiter.Sync(zktest.Context(t), "/"))
		for name := range exclusive {
			require.Empty(t, waiting[name], name)
		}
		close(goOn)
		for name := range exclusive {
			require.NoError(t, <-held[name], name)
			require.NoError(t, <-waiting[name], name)
		}
	}
	t.Run("zkserver", func(t *testing.T) {
		server := zktest.NewServer(t)
		outage(t, server.Addr(), server.Stop, server.Restart)
	})
	if testing.Short() {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		server := zktest.NewEnsemble(t, 1).Server(0)
		outage(t, server.Addr(), server.Stop, func() error { return server.Restart(zktest.Context(t)) })
	})
}

// pause is for what can only be asked for again and again.
func pause() { <-time.After(time.Millisecond) }
