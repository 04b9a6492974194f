// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// places notes what a queue listener is told.
type places struct {
	mu        sync.Mutex
	positions []int
	paths     []string
}

func (p *places) listen() locks.Option {
	return locks.WithQueueListener(func(path string, position int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paths, p.positions = append(p.paths, path), append(p.positions, position)
	})
}

func (p *places) told() ([]int, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positions, p.paths
}

// requestsWhile counts what one session sends during work.
func requestsWhile(t *testing.T, server *zkserver.Server, session int64, work func()) int {
	t.Helper()
	sent := record(server, session)
	work()
	synctest.Wait()
	return len(sent())
}

// TestQueueListenerHearsItsPlace for every kind of queue: three contenders stand ahead, and
// have the lock one after the other.
func TestQueueListenerHearsItsPlace(t *testing.T) {
	kinds := map[string]func(t *testing.T, server *zkserver.Server, opts ...locks.Option) (locks.InterProcessLock, int64){
		"mutex": func(t *testing.T, server *zkserver.Server, opts ...locks.Option) (locks.InterProcessLock, int64) {
			t.Helper()
			client := zktest.Client(t, server)
			return newMutex(t, client, "/lock", opts...), client.Session().ID()
		},
		"write lock": func(t *testing.T, server *zkserver.Server, opts ...locks.Option) (locks.InterProcessLock, int64) {
			t.Helper()
			client := zktest.Client(t, server)
			return newReadWrite(t, client, "/lock", opts...).WriteLock(), client.Session().ID()
		},
		"semaphore": func(t *testing.T, server *zkserver.Server, opts ...locks.Option) (locks.InterProcessLock, int64) {
			t.Helper()
			client := zktest.Client(t, server)
			return newSemaphore(t, client, "/lock", locks.FixedLeases(1), opts...), client.Session().ID()
		},
	}
	want := map[string][]int{"mutex": {3}, "write lock": {3}, "semaphore": {2}} // a semaphore tells of those that wait
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			requests := map[bool]int{}
			for _, listens := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zkserver.WithoutListener())
					var ahead []<-chan outcome
					for range 3 {
						lock, _ := open(t, server)
						ahead = append(ahead, acquireLater(context.Background(), lock))
						synctest.Wait()
					}
					var told places
					var opts []locks.Option
					if listens {
						opts = append(opts, told.listen())
					}
					lock, session := open(t, server, opts...)
					requests[listens] = requestsWhile(t, server, session, func() {
						ours := acquireLater(context.Background(), lock)
						for _, before := range ahead {
							time.Sleep(time.Second)
							release(t, (<-before).lease)
						}
						o := <-ours
						synctest.Wait()
						positions, paths := told.told()
						if listens {
							require.Equal(t, want[kind], positions)
						}
						if listens && kind != "semaphore" {
							require.Equal(t, o.lease.Path(), paths[0])
						}
						release(t, o.lease)
					})
				})
			}
			require.Equal(t, requests[false], requests[true], "the listener costs no request")
		})
	}
}

// TestQueueListenerHearsOfANewPlace after the session was lost, with its own path.
func TestQueueListenerHearsOfANewPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		holder, waiter := zktest.Client(t, server), zktest.Client(t, server)
		lease := acquire(t, newMutex(t, holder, "/lock"))
		var told places
		ours := acquireLater(context.Background(), newMutex(t, waiter, "/lock", told.listen()))
		time.Sleep(time.Second)
		require.True(t, server.KillSession(waiter.Session().ID()))
		time.Sleep(time.Minute)
		release(t, lease)
		release(t, (<-ours).lease)
		positions, paths := told.told()
		require.Equal(t, []int{1, 1}, positions)
		require.NotEqual(t, paths[0], paths[1])
	})
}

// TestQueueListenerHearsOfThoseWhoGiveUp right before it.
func TestQueueListenerHearsOfThoseWhoGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		lease := acquire(t, newMutex(t, zktest.Client(t, server), "/lock"))
		var giveUps []context.CancelFunc
		for range 2 {
			ctx, giveUp := context.WithCancel(context.Background())
			giveUps = append(giveUps, giveUp)
			acquireLater(ctx, newMutex(t, zktest.Client(t, server), "/lock"))
			synctest.Wait()
		}
		var told places
		ours := acquireLater(context.Background(), newMutex(t, zktest.Client(t, server), "/lock", told.listen()))
		for i := range giveUps {
			synctest.Wait()
			giveUps[len(giveUps)-1-i]()
		}
		synctest.Wait()
		release(t, lease)
		release(t, (<-ours).lease)
		synctest.Wait()
		positions, _ := told.told()
		require.Equal(t, []int{3, 2, 1}, positions)
	})
}
