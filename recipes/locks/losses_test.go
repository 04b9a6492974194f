// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// lineLog collects the lines of a logger.
type lineLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *lineLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

// with returns the lines that have the text.
func (l *lineLog) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (l *lineLog) option() framework.Option {
	return framework.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// TestLeaseOneInterruptionIsTwoLinesOfTheLog, however many locks it costs.
func TestLeaseOneInterruptionIsTwoLinesOfTheLog(t *testing.T) {
	const many = 100
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		var log lineLog
		client := zktest.Client(t, server, log.option())
		for round := 1; round <= 2; round++ {
			for i := range many {
				lease := acquire(t, newMutex(t, client, fmt.Sprintf("/locks/%d", i)))
				t.Cleanup(func() { _ = lease.Release(context.Background()) }) // it is lost
			}
			require.Equal(t, 1, server.Cut(client.Session().ID(), 1))
			zktest.AwaitState(t, client, framework.Reconnected)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Len(t, log.with("lock lost while held"), round)
			require.Contains(t, log.with("lock lost while held")[0], "curator.path=/locks/")
			require.Len(t, log.with("more locks lost while held"), round)
			require.Contains(t, log.with("more locks lost while held")[0], fmt.Sprint("count=", many-1))
		}
	})
}

// TestLeaseUnreadableHoldIsAskedForEverMoreRarely, and is in the log once.
func TestLeaseUnreadableHoldIsAskedForEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		var log lineLog
		admin, client := zktest.Client(t, server), zktest.Client(t, server, log.option())
		lease := acquire(t, newMutex(t, client, "/lock"))
		hide(t, admin, lease.Path())
		requests := countRequests(t, server).of
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, lease.Err())
		require.Less(t, requests(zkserver.OpGetData), 140)
		require.Greater(t, requests(zkserver.OpGetData), 100)
		require.Len(t, log.with("cannot be read"), 1)

		// What is seen late is seen all the same.
		require.NoError(t, admin.Delete(t.Context(), lease.Path()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorAs(t, lease.Err(), new(*locks.LostError))
		require.Error(t, lease.Release(context.Background()))
	})
}

// TestLeaseDropsAreTwoLinesOfTheLog, or two for each collection of garbage, however many leases are dropped.
func TestLeaseDropsAreTwoLinesOfTheLog(t *testing.T) {
	const many = 200
	var log lineLog
	client := zktest.Client(t, zktest.NewServer(t).Addr(), log.option())
	for i := range many {
		acquire(t, newMutex(t, client, fmt.Sprintf("/locks/%d", i)))
	}
	told := func() (n int) {
		for _, line := range log.with("more leases were dropped") {
			_, after, _ := strings.Cut(line, "count=")
			more := must.Get(strconv.Atoi(after))(t)
			n += more
		}
		return n + len(log.with("a lease was dropped"))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return told() == many
	}, limit, 10*time.Millisecond)
	require.Less(t, len(log.with("dropped")), 20)
	require.Contains(t, log.with("a lease was dropped before its release")[0], "curator.path=/locks/")
}

// TestLeaseDroppedAfterItsLossIsNotReported: its lock does not stay held.
func TestLeaseDroppedAfterItsLossIsNotReported(t *testing.T) {
	server := zktest.NewServer(t)
	var log lineLog
	client := zktest.Client(t, server.Addr(), log.option())
	collected := make(chan struct{})
	func() {
		lease := acquire(t, newMutex(t, client, "/lock"))
		runtime.AddCleanup(lease, func(done chan struct{}) { close(done) }, collected)
		require.NoError(t, client.Close())
		awaitDone(t, lease.Done(), "the end of the lease")
	}()
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		require.Less(t, time.Now(), deadline, "the lease is not garbage")
		if len(log.with("lock lost while held")) == 0 {
			continue // it has not been abandoned yet
		}
		runtime.GC()
		select {
		case <-collected:
		default:
			continue
		}
		break
	}
	runtime.GC() // queues no cleanup of the lease any more
	require.Empty(t, log.with("dropped"))
}
