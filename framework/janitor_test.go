// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestJanitorRefusedCleanupsKeepNobodyWaiting, however many there are. Each is in the log once,
// and is made when there is the right again.
func TestJanitorRefusedCleanupsKeepNobodyWaiting(t *testing.T) {
	const refused = 100
	inMemory(t, func(t *testing.T, n *memnet) {
		log := new(strings.Builder) // one handler writes at a time
		f, admin := n.client(t, framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), n.client(t)
		mustCreate(t, f, "/free")
		for i := range refused {
			mustCreate(t, f, fmt.Sprintf("/closed/%d", i), framework.CreatingParentsIfNeeded())
		}
		require.NoError(t, admin.SetACL(t.Context(), "/closed", zk.WorldACL(zk.PermRead|zk.PermAdmin)))
		for i := range refused {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/closed/%d", i), framework.InBackground()))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, refused, strings.Count(log.String(), "cleanup refused"))

		// They do not keep the server busy either: each is repeated every half minute.
		requests := countRequests(n.server)
		time.Sleep(time.Hour)
		synctest.Wait()
		perCleanup := float64(requests()) / refused
		require.Greater(t, perCleanup, 100.0)
		require.Less(t, perCleanup, 140.0)

		require.NoError(t, f.Delete(t.Context(), "/free", framework.InBackground()))
		synctest.Wait() // in which no time passes
		requireNone(t, admin, "/free")

		require.NoError(t, admin.SetACL(t.Context(), "/closed", zk.WorldACL(zk.PermAll)))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, must.Get(admin.Children(t.Context(), "/closed"))(t))
		require.Equal(t, refused, strings.Count(log.String(), "level=ERROR"))
	})
}

func TestJanitorCleanupIsRepeatedAfterAnErrorInsideTheServer(t *testing.T) {
	const systemError = -1
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		mustCreate(t, f, "/node")
		n.server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.FailWith(systemError)))
		require.NoError(t, f.Delete(t.Context(), "/node", framework.InBackground()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Nil(t, must.Get(f.Exists(t.Context(), "/node"))(t))
	})
}

// TestJanitorCleanupsRunTogether: deletions in the background do not wait for each other's
// round trips.
func TestJanitorCleanupsRunTogether(t *testing.T) {
	const many, roundTrip = 1500, 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		link := zktest.NewProxy(t, server)
		near, f := zktest.Client(t, server), zktest.Client(t, link)
		for i := range many {
			mustCreate(t, near, fmt.Sprintf("/folder/%d", i), framework.CreatingParentsIfNeeded())
		}
		link.Delay(roundTrip / 2)
		for i := range many {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/folder/%d", i), framework.InBackground()))
		}
		require.Equal(t, many, f.Health().PendingCleanups)
		// The window of the connection doubles with each round trip until all fit in.
		time.Sleep(5 * roundTrip)
		synctest.Wait()
		require.Zero(t, f.Health().PendingCleanups)
		require.Empty(t, must.Get(near.Children(t.Context(), "/folder"))(t))
	})
}

// TestJanitorCreationsWaitForTheCleanupsOfTheirFolder, but not for those of other folders, nor for
// those that the server refuses.
func TestJanitorCreationsWaitForTheCleanupsOfTheirFolder(t *testing.T) {
	const backlog, roundTrip = 32, 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		link := zktest.NewProxy(t, server)
		admin, f := zktest.Client(t, server), zktest.Client(t, link)
		for _, folder := range []string{"/busy", "/other", "/closed"} {
			for i := range backlog {
				mustCreate(t, admin, fmt.Sprintf("%s/%d", folder, i), framework.CreatingParentsIfNeeded())
			}
		}
		link.Delay(roundTrip / 2)
		create := func(folder string) (time.Duration, error) {
			began := time.Now()
			_, err := f.Create(t.Context(), folder+"/n-", nil, framework.WithProtection(), framework.WithMode(framework.EphemeralSequential))
			return time.Since(began), err
		}
		for i := range backlog {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/busy/%d", i), framework.InBackground()))
		}
		took := must.Get(create("/other"))(t)
		require.Equal(t, roundTrip, took)

		for i := range backlog {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/other/%d", i), framework.InBackground()))
		}
		took = must.Get(create("/other"))(t)
		require.Equal(t, 2*roundTrip, took, "a round trip of the deletions and one of its own")

		require.NoError(t, admin.SetACL(t.Context(), "/closed", zk.WorldACL(zk.PermAll&^zk.PermDelete)))
		for i := range backlog {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/closed/%d", i), framework.InBackground()))
		}
		time.Sleep(roundTrip)
		synctest.Wait()
		require.Equal(t, backlog, f.Health().PendingCleanups)
		took = must.Get(create("/closed"))(t)
		require.Equal(t, roundTrip, took)
	})
}
