// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// doKey runs a key that has nothing to do. It begins no purge.
func doKey(t *testing.T, once *leader.Once, key string) {
	t.Helper()
	must.Get(once.NotDue().Do(zktest.Context(t), key, func(context.Context) error { return nil }))(t)
}

// createMarkers creates n markers without a run.
func createMarkers(t *testing.T, client *framework.Framework, n int) {
	t.Helper()
	ops := make([]framework.Op, n)
	for i := range ops {
		ops[i] = framework.CreateOp(fmt.Sprintf("/jobs/report/done/key-%d", i), []byte("1"), framework.CreatingParentsIfNeeded())
	}
	must.Get(client.Bulk(zktest.Context(t), ops))(t)
}

// holdFirstDeletion holds the first transaction that deletes markers.
func holdFirstDeletion(server *zkserver.Server) (arrived <-chan struct{}, release func()) {
	held, released := make(chan struct{}), make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpMulti {
			return zkserver.Pass
		}
		select {
		case <-held:
			return zkserver.Pass
		default:
			close(held)
			return zkserver.HoldUntil(released)
		}
	})
	return held, func() { close(released) }
}

func childrenOf(t *testing.T, client *framework.Framework, path string) []string {
	t.Helper()
	names, err := client.Children(zktest.Context(t), path, framework.WithReplyLimit(1<<20))
	if !errors.Is(err, framework.ErrNoNode) { // the server removes a container that is empty
		require.NoError(t, err)
	}
	return names
}

func TestPurgeOldMarkersAreRemoved(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		once := newOnce(t, client)
		doKey(t, once, "a")
		doKey(t, once, "b")

		require.NoError(t, once.PurgeOlderThan(zktest.Context(t), time.Hour))
		require.Len(t, childrenOf(t, client, "/jobs/report/done"), 2, "they are not that old")
		require.NoError(t, once.PurgeOlderThan(zktest.Context(t), -time.Hour))

		require.Empty(t, childrenOf(t, client, "/jobs/report/done"))
		require.Empty(t, childrenOf(t, client, "/jobs/report/purge"), "the lock is released")
	})
}

// The client is in a bubble, 25 years behind the server: by its clock no marker would be old.
func TestPurgeAgeOfAMarkerIsTakenFromTheServersClock(t *testing.T) {
	server := zktest.NewServer(t)
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, server)
		once := newOnce(t, client)
		doKey(t, once, "a")

		require.NoError(t, once.PurgeOlderThan(zktest.Context(t), -time.Hour))

		require.Empty(t, childrenOf(t, client, "/jobs/report/done"))
	})
}

// A run begins the purge and does not wait for it.
func TestPurgeRunDoesNotWaitForThePurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		doKey(t, newOnce(t, client), "old")
		time.Sleep(2 * time.Minute)
		release := make(chan struct{})
		server.Intercept(zkserver.Nth(1, zkserver.OpMulti, zkserver.Pass)) // the marker
		server.Intercept(zkserver.Nth(2, zkserver.OpMulti, zkserver.HoldUntil(release)))
		once := newOnce(t, client, leader.WithRetention(time.Minute))

		ran, err := once.Do(zktest.Context(t), "a", func(context.Context) error { return nil })

		require.NoError(t, err)
		require.True(t, ran)
		synctest.Wait()
		close(release)
		require.NoError(t, once.Purge(zktest.Context(t)), "the one that has begun")
		require.Equal(t, []string{"a"}, childrenOf(t, client, "/jobs/report/done"))
	})
}

// One transaction deletes many markers, so that a round trip is paid for all of them. The
// names do not fit one request of this client.
func TestPurgeDeletesInBatches(t *testing.T) {
	for limit, most := range map[int]int64{1 << 20: 20, 2000: 160} {
		server := zktest.NewServer(t)
		client := zktest.Client(t, server, framework.WithMaxRequestSize(limit))
		createMarkers(t, client, 2000)
		var deletions atomic.Int64
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti || r.Op == zkserver.OpDelete {
				deletions.Add(1)
			}
			return zkserver.Pass
		})

		require.NoError(t, newOnce(t, client).PurgeOlderThan(zktest.Context(t), -time.Hour))

		require.LessOrEqual(t, deletions.Load(), most+1, "and one for the lock")
		require.Empty(t, childrenOf(t, client, "/jobs/report/done"))
	}
}

// The list of the markers has outgrown the client's limit for replies.
func TestPurgeOfAListThatIsTooLong(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithMaxReplySize(1024))
	createMarkers(t, client, 300)
	_, err := client.Children(zktest.Context(t), "/jobs/report/done")
	require.ErrorIs(t, err, framework.ErrTooLarge)

	require.NoError(t, newOnce(t, client).PurgeOlderThan(zktest.Context(t), -time.Hour))

	require.Empty(t, childrenOf(t, client, "/jobs/report/done"))
}

// What cannot be deleted, or has gone meanwhile, keeps nothing else from being deleted.
func TestPurgeGoesPastWhatItCannotDelete(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	createMarkers(t, client, 10)
	create := func(path string) {
		must.Get(client.Create(zktest.Context(t), path, nil))(t)
	}
	create("/jobs/report/done/key-3/child")
	arrived, release := holdFirstDeletion(server)
	result := make(chan error, 1)
	purger, log := logging(t, server)
	once := newOnce(t, purger)
	go func() { result <- once.PurgeOlderThan(t.Context(), -time.Hour) }()
	zktest.Await(t, arrived, "the deletion")
	create("/jobs/report/done/key-4/child")
	require.NoError(t, client.Delete(zktest.Context(t), "/jobs/report/done/key-5"))
	release()

	require.NoError(t, zktest.Await(t, result, "the purge"))
	require.ElementsMatch(t, []string{"key-3", "key-4"}, childrenOf(t, client, "/jobs/report/done"))
	require.Contains(t, log(), "curator.path=/jobs/report/done/key-3 markers=1")
}

// Without containers no server deletes the folders of the locks.
func TestPurgeDeletesTheFoldersOfLocks(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t), framework.WithoutContainerParents())
	once := newOnce(t, client)
	doKey(t, once, "a")
	require.Equal(t, []string{"a"}, childrenOf(t, client, "/jobs/report/run"))
	ran := must.Get(once.Do(zktest.Context(t), "b", func(ctx context.Context) error {
		defer once.NotDue()
		return once.PurgeOlderThan(ctx, -time.Hour) // its own lock is held
	}))(t)
	require.True(t, ran)
	require.Equal(t, []string{"b"}, childrenOf(t, client, "/jobs/report/run"))
	require.Equal(t, []string{"b"}, childrenOf(t, client, "/jobs/report/done"))
}

// A purger that has lost its lock does not delete a marker that was written since it looked.
func TestPurgeOnePurgerAtATime(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	createMarkers(t, client, 1)
	arrived, release := holdFirstDeletion(server)
	result := make(chan error, 1)
	once := newOnce(t, client)
	go func() { result <- once.PurgeOlderThan(t.Context(), -time.Hour) }()
	zktest.Await(t, arrived, "the deletion")

	require.NoError(t, newOnce(t, other).PurgeOlderThan(zktest.Context(t), -time.Hour), "another one purges")
	require.Len(t, childrenOf(t, other, "/jobs/report/done"), 1)
	lock := childrenOf(t, other, "/jobs/report/purge")
	require.Len(t, lock, 1)
	require.NoError(t, other.Delete(zktest.Context(t), "/jobs/report/purge/"+lock[0]))
	release()

	require.Error(t, zktest.Await(t, result, "the purge"))
	require.Len(t, childrenOf(t, other, "/jobs/report/done"), 1)
}

// A server may ask for READ before it shows the age of a marker.
func TestPurgeMarkersThatCannotBeReadEndNoPurge(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	purger, log := logging(t, server)
	once := newOnce(t, purger)
	createMarkers(t, client, 250)
	for _, i := range []int{0, 100, 249} {
		require.NoError(t, client.SetACL(zktest.Context(t), fmt.Sprintf("/jobs/report/done/key-%d", i), framework.DigestACL(zk.PermAll, "admin", "x")))
	}

	require.NoError(t, once.PurgeOlderThan(zktest.Context(t), -time.Hour))

	require.ElementsMatch(t, []string{"key-0", "key-100", "key-249"}, childrenOf(t, client, "/jobs/report/done"))
	text := log()
	require.Contains(t, text, "markers=3")
	require.NotContains(t, text, "old markers stay", "this purge has not failed")
}

// Only a permission is of one marker. Another failure ends the purge, as the next one may succeed.
func TestPurgeAReadThatFailsEndsThePurge(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	purger, log := logging(t, server)
	once := newOnce(t, purger)
	createMarkers(t, client, 3)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpExists && r.Path == "/jobs/report/done/key-1" {
			return zkserver.FailWith(-1)
		}
		return zkserver.Pass
	})

	require.Error(t, once.PurgeOlderThan(zktest.Context(t), -time.Hour))

	require.Len(t, childrenOf(t, client, "/jobs/report/done"), 3)
	require.Contains(t, log(), "old markers stay until the next purge")
}

func TestPurgeAgeOfAMarkerIsTheTimeSinceItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		once := newOnce(t, client)
		doKey(t, once, "a")
		time.Sleep(2 * time.Hour)
		require.NoError(t, client.Set(zktest.Context(t), "/jobs/report/done/a", []byte("changed by hand")))

		require.NoError(t, once.PurgeOlderThan(zktest.Context(t), time.Hour))

		require.Empty(t, childrenOf(t, client, "/jobs/report/done"))
	})
}

// A purge that has lost its lock says so, and deletes nothing.
func TestPurgeWithoutItsLockFails(t *testing.T) {
	server := zktest.NewServer(t)
	client, operator := zktest.Client(t, server), zktest.Client(t, server)
	once := newOnce(t, client)
	createMarkers(t, client, 3)
	arrived, release := holdFirstDeletion(server)
	purged := make(chan error, 1)
	go func() { purged <- once.PurgeOlderThan(zktest.Context(t), -time.Hour) }()
	zktest.Await(t, arrived, "the deletion")
	for _, name := range childrenOf(t, operator, "/jobs/report/purge") {
		require.NoError(t, operator.Delete(zktest.Context(t), "/jobs/report/purge/"+name))
	}

	release()

	require.Error(t, zktest.Await(t, purged, "the end of the purge"))
	require.Len(t, childrenOf(t, client, "/jobs/report/done"), 3)
}

// A purge costs a list of all markers, so it comes once in a sixteenth of the retention. One that
// was refused is no reason to ask earlier.
func TestPurgeComesOnceInASixteenthOfTheRetention(t *testing.T) {
	for name, acl := range map[string][]framework.ACL{
		"purged":  framework.OpenACL(),
		"refused": {{Perms: framework.PermCreate | framework.PermDelete | framework.PermWrite, Scheme: "world", ID: "anyone"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server)
				must.Get(client.Create(t.Context(), "/jobs/report/done", nil, framework.CreatingParentsIfNeeded(), framework.WithACL(acl...)))(t)
				var lists atomic.Int32
				server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpGetChildren2 && r.Path == "/jobs/report/done" {
						lists.Add(1)
					}
					return zkserver.Pass
				})
				once := newOnce(t, client, leader.WithRetention(16*time.Hour))
				for i, want := range []int32{1, 1, 1, 2, 2} { // after 0, 25, 50, 75 and 100 minutes
					require.True(t, must.Get(once.Do(t.Context(), fmt.Sprint(i), func(context.Context) error { return nil }))(t))
					synctest.Wait()
					require.Equal(t, want, lists.Load(), "run %d", i)
					time.Sleep(25 * time.Minute)
				}
			})
		})
	}
}
