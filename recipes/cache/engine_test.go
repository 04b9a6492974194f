// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// counter counts the requests of one client by their kind, and each read of a multiRead as one.
type counter struct{ counts map[zkserver.OpCode]int }

// countRequests counts from now on; the counts may be read when the client is at rest.
func countRequests(t *testing.T, server *zkserver.Server, client *framework.Framework) *counter {
	t.Helper()
	c := &counter{map[zkserver.OpCode]int{}}
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.SessionID != client.Session().ID():
		case r.Op == zkserver.OpMultiRead:
			c.counts[zkserver.OpGetData] += len(r.Reads)
		default:
			c.counts[r.Op]++
		}
		return zkserver.Pass
	}))
	return c
}

func (c *counter) take() map[zkserver.OpCode]int {
	counts := c.counts
	c.counts = map[zkserver.OpCode]int{}
	for _, op := range []zkserver.OpCode{
		zkserver.OpPing, zkserver.OpCreateSession, zkserver.OpAddWatch, zkserver.OpSetWatches, zkserver.OpSetWatches2,
	} {
		delete(counts, op)
	}
	return counts
}

// A fill reads each znode once and each list that has names once; a reconnect reads no data
// that has not changed, unless data is so short that to read it costs no more than to compare it.
func TestEngineRequestsOfAFillAndARefill(t *testing.T) {
	t.Run("long data", func(t *testing.T) {
		fillAndRefill(t, strings.Repeat("data ", 100), map[zkserver.OpCode]int{
			zkserver.OpSync:   1,
			zkserver.OpExists: 30, zkserver.OpGetChildren2: 4, // all stats
			zkserver.OpGetData: 1,
		})
	})
	t.Run("short data", func(t *testing.T) {
		fillAndRefill(t, "data", map[zkserver.OpCode]int{
			zkserver.OpSync:    1,
			zkserver.OpGetData: 30, zkserver.OpGetChildren2: 4,
		})
	})
}

// fillAndRefill checks the requests of a refill after one of 30 znodes with this data has changed.
func fillAndRefill(t *testing.T, data string, refill map[zkserver.OpCode]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		for folder := range 3 {
			for leaf := range 10 {
				create(t, writer, fmt.Sprintf("/tree/%d/%d", folder, leaf), data)
			}
		}
		c := newCache(t, client, "/tree")
		requests := countRequests(t, server, client)
		start(t, c)
		synctest.Wait()
		require.Equal(t, map[zkserver.OpCode]int{
			zkserver.OpSync: 1, zkserver.OpGetData: 34, zkserver.OpGetChildren2: 4,
		}, requests.take())

		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/1/5", "new")
		requests.take()
		allow()
		fresh(t, c)
		synctest.Wait()
		require.Equal(t, refill, requests.take())
		require.Equal(t, "new", picture(c)["/tree/1/5"])

		set(t, writer, "/tree/1/6", "new")
		remove(t, writer, "/tree/1/7")
		fresh(t, c)
		synctest.Wait()
		require.Equal(t, map[zkserver.OpCode]int{zkserver.OpSync: 1, zkserver.OpGetData: 2}, requests.take())
		require.NoError(t, c.Close())
	})
}

// After a gap in which most znodes have changed, data is asked for at once; where few have, the
// Stat comes first.
func TestEngineRequestsOfARefillFollowTheChanges(t *testing.T) {
	const folders, leaves, window = 10, 100, 192
	long := []byte(strings.Repeat("data ", 100))
	refills := func(t *testing.T, version string, changes func(paths []string) [][]string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
			client, writer := zktest.Client(t, server), zktest.Client(t, server)
			paths := plant(t, writer, folders, leaves, long)
			c := newCache(t, client, "/tree")
			start(t, c)
			requests := countRequests(t, server, client)
			for round, changed := range changes(paths) {
				data := string(long) + strconv.Itoa(round)
				allow := server.Refuse()
				server.Cut(client.Session().ID(), 1)
				setAll(t, writer, changed, data)
				requests.take()
				allow()
				fresh(t, c)
				synctest.Wait()
				got := requests.take()
				if len(changed) == len(paths) {
					// Two for each until the first reply, then one.
					require.LessOrEqual(t, got[zkserver.OpExists]+got[zkserver.OpGetData], len(paths)+window+2*folders, "%v", got)
				} else {
					require.Equal(t, len(changed), got[zkserver.OpGetData], "%v", got)
					require.Equal(t, len(paths), got[zkserver.OpExists], "%v", got)
				}
				shown := picture(c)
				for _, path := range changed {
					require.Equal(t, data, shown[path], path)
				}
			}
			require.NoError(t, c.Close())
		})
	}
	t.Run("3.8.0", func(t *testing.T) {
		refills(t, "3.8.0", func(paths []string) [][]string {
			var few []string
			for i := 0; i < len(paths); i += 20 {
				few = append(few, paths[i])
			}
			return [][]string{paths, nil, few}
		})
	})
	t.Run(old, func(t *testing.T) {
		refills(t, old, func(paths []string) [][]string { return [][]string{paths} })
	})
}

// Each read of a znode finds it changed once more, and there are more of these than the window
// holds. The fill still comes to all others.
func TestEngineFillEndsWhileZnodesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		paths := plant(t, writer, 1, 300, nil)
		restless, done := make(chan string, 1000), make(chan error, 1)
		go func() {
			var err error
			for path := range restless {
				err = errors.Join(err, writer.Set(context.Background(), path, nil))
			}
			done <- err
		}()
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpGetData || r.SessionID != client.Session().ID() {
				return zkserver.Pass
			}
			restless <- r.Path
			return zkserver.Delay(time.Millisecond)
		})
		c := newCache(t, client, "/tree")
		start(t, c)
		require.Equal(t, len(paths)+2, c.Size())
		remove()
		require.NoError(t, c.Close())
		synctest.Wait()
		close(restless)
		require.NoError(t, <-done)
	})
}

// On one-shot watches, the watch for an absent root is set by a request for its Stat. The cache
// must not ask for the data instead when most comparisons have found a change.
func TestEngineRootGoesAfterARefillThatFoundChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(old))
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		paths := append(plant(t, writer, 2, 2, nil), "/tree", "/tree/folder-000", "/tree/folder-001")
		c := newCache(t, client, "/tree")
		start(t, c)
		// Without the pauses, a cache that asks again and again would stop the clock.
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && (r.Op == zkserver.OpGetData || r.Op == zkserver.OpExists) {
				return zkserver.Delay(100 * time.Millisecond)
			}
			return zkserver.Pass
		}))
		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		setAll(t, writer, paths, "1")
		allow()
		fresh(t, c)
		remove(t, writer, "/tree")
		fresh(t, c)
		require.Empty(t, picture(c))
		create(t, writer, "/tree", "again")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "again"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// A folder that was created in a gap of the events has an event of its own before the sweep has
// listed it. Its children were created in the gap too, and have no event.
func TestEngineFolderOfTheGapThatChangesDuringTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a", "")
		c := newCache(t, client, "/tree")
		start(t, c)
		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		create(t, writer, "/tree/a/folder/child", "")
		release := make(chan struct{})
		held := false
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetData && r.Path == "/tree/a" && r.SessionID == client.Session().ID() {
				held = true
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		}))
		allow()
		time.Sleep(time.Minute) // it has connected
		synctest.Wait()
		require.True(t, held, "the sweep has come to the parent")
		set(t, writer, "/tree/a/folder", "changed")
		synctest.Wait()
		close(release)
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "", "/tree/a/folder": "changed", "/tree/a/folder/child": ""}, picture(c))
		require.NoError(t, c.Close())
	})
}

// A znode was read before the gap, and this is applied during the sweep: the picture did not have it
// when the sweep began. What happened to it in the gap has no event.
func TestEngineReadFromBeforeTheGapIsAppliedDuringTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/slow", "")
		storage := gated{cache.NewStandardStorage(), "/tree/slow", make(chan chan struct{}, 1)}
		c := newCache(t, client, "/tree", cache.WithStorage(storage))
		start(t, c)

		release, gate := make(chan struct{}), make(chan struct{})
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetData && r.Path == "/tree/slow" {
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		}))
		set(t, writer, "/tree/slow", "x")
		synctest.Wait()
		create(t, writer, "/tree/new", "before")
		synctest.Wait() // both are being read, each in a batch
		storage.gates <- gate
		close(release)
		synctest.Wait() // both are answered, the first is being stored

		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/new", "after")
		create(t, writer, "/tree/new/child", "")
		allow()
		time.Sleep(time.Minute) // it has connected
		close(gate)
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/slow": "x", "/tree/new": "after", "/tree/new/child": ""}, picture(c))
		require.NoError(t, c.Close())
	})
}

// On one-shot watches a lost connection is made up for in the same way: stats, and lists. The two of a path take one round trip.
func TestEngineRequestsOfTheBridgeAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(old))
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		for leaf := range 10 {
			create(t, writer, fmt.Sprintf("/tree/%d", leaf), "data")
		}
		c := newCache(t, client, "/tree")
		requests := countRequests(t, server, client)
		start(t, c)
		synctest.Wait()
		requests.take()
		var compared, together []string
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch n := len(compared); {
			case r.SessionID != client.Session().ID():
			case r.Op == zkserver.OpExists && r.Path != "/":
				compared = append(compared, r.Path)
			case r.Op == zkserver.OpGetChildren2 && n > 0 && compared[n-1] == r.Path:
				together = append(together, r.Path)
			}
			return zkserver.Pass
		})
		server.Cut(client.Session().ID(), 1)
		zktest.AwaitState(t, client, framework.Suspended)
		zktest.AwaitState(t, client, framework.Reconnected)
		fresh(t, c)
		synctest.Wait()
		got := requests.take()
		require.Zero(t, got[zkserver.OpGetData], "%v", got)
		require.Equal(t, 11, got[zkserver.OpExists], "%v", got)
		require.Len(t, together, 11)
		require.Equal(t, compared, together)
		require.NoError(t, c.Close())
	})
}

// Of all requests of a refill no more than a window is under way, so that those of others do
// not wait behind a hundred thousand.
func TestEngineWindowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, follower := zktest.Client(t, server), zktest.Client(t, server)
		var ops []framework.Op
		create(t, client, "/tree", "")
		for i := range 1000 {
			ops = append(ops, framework.CreateOp(fmt.Sprintf("/tree/%d", i), nil))
		}
		must.Get(client.Transact(t.Context(), ops...))(t)
		release, reads, inFront := make(chan struct{}), 0, 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.Path == "/other":
				inFront = reads
			case r.Op == zkserver.OpMultiRead:
				reads += len(r.Reads)
			case r.Op == zkserver.OpGetData && strings.HasPrefix(r.Path, "/tree/"):
				reads++
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		})
		c := newCache(t, follower, "/tree")
		require.NoError(t, c.Start())
		synctest.Wait()
		require.Equal(t, 1, reads, "the first one is held")
		answered := make(chan error, 1)
		go func() {
			_, err := follower.Exists(t.Context(), "/other")
			answered <- err
		}()
		synctest.Wait() // it has its place behind all that were sent

		close(release)

		require.NoError(t, <-answered)
		require.LessOrEqual(t, inFront, 192, "reads in front of it")
		fresh(t, c)
		require.Equal(t, 1001, c.Size())
	})
}

// A reply above the client's limit costs its transfer once, and its znode is left out; what
// has become small enough is there again.
func TestEngineReplyThatIsTooLarge(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		writer := zktest.Client(t, server)
		client := zktest.Client(t, server, framework.WithMaxReplySize(2000))
		create(t, writer, "/tree/large", strings.Repeat("x", 3000))
		create(t, writer, "/tree/small", "1")
		for i := range 300 {
			create(t, writer, fmt.Sprintf("/tree/list/name-%03d", i), "")
		}
		notAll := func(c *cache.CuratorCache) { // Fresh says what is left out
			err := c.Fresh(t.Context())
			require.ErrorIs(t, err, framework.ErrTooLarge)
			require.ErrorContains(t, err, "/tree/list")
		}
		c := newCache(t, client, "/tree")
		require.NoError(t, c.Start())
		notAll(c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/small": "1", "/tree/list": ""}, picture(c))
		connections := server.Stats().Connections
		require.Equal(t, 2, connections)

		set(t, writer, "/tree/small", "2")
		notAll(c)
		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/large", "now small")
		allow()
		notAll(c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/small": "2", "/tree/list": "", "/tree/large": "now small"}, picture(c))

		for i := range 299 {
			remove(t, writer, fmt.Sprintf("/tree/list/name-%03d", i))
		}
		if strings.HasSuffix(t.Name(), old) { // no one-shot watch is on the children of a folder that was not listed
			set(t, writer, "/tree/list", "")
		}
		fresh(t, c)
		require.Contains(t, picture(c), "/tree/list/name-299")
		require.Len(t, picture(c), 5)
		require.NoError(t, c.Close())
	})
}

// The servers are restored, and have other data that was written by a transaction of the same number.
func TestEngineReplyThatWasTooLargeBeforeARestore(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		another := zktest.NewServer(t, zkserver.WithoutListener())
		for server, data := range map[*zkserver.Server]string{server: strings.Repeat("x", 3000), another: "small"} {
			writer := zktest.Client(t, server)
			create(t, writer, "/tree/node", data)
			require.NoError(t, writer.Close()) // its session is in no backup
		}
		client := zktest.Client(t, server, framework.WithMaxReplySize(2000))
		c := started(t, client, "/tree")
		require.Equal(t, map[string]string{"/tree": ""}, picture(c))

		require.NoError(t, server.Stop())
		zktest.AwaitState(t, client, framework.Suspended)
		require.NoError(t, server.Restore(another.Backup(), 0))
		require.NoError(t, server.Restart())

		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/node": "small"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// The iteration is over the picture as it was when the loop began.
func TestStreamIsASnapshot(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for i := range 10 {
		create(t, client, fmt.Sprintf("/tree/%d", i), "before")
	}
	c := started(t, client, "/tree")
	seen := map[string]string{}
	for path, data := range c.Stream() {
		if len(seen) == 0 {
			for i := range 10 {
				set(t, client, fmt.Sprintf("/tree/%d", i), "after")
				create(t, client, fmt.Sprintf("/tree/new-%d", i), "")
			}
			remove(t, client, "/tree/3")
			fresh(t, c)
		}
		seen[path] = string(data.Data)
	}
	require.Len(t, seen, 11)
	for path, data := range seen {
		if path != "/tree" {
			require.Equal(t, "before", data, path)
		}
	}
	require.Equal(t, "after", picture(c)["/tree/4"])
	for range c.Stream() {
		break
	}
}

// panicky is a storage of a user's that panics.
type panicky struct{ cache.CuratorCacheStorage }

func (p panicky) Put(data *cache.ChildData) *cache.ChildData {
	for name, misbehave := range misbehaving {
		if strings.HasSuffix(data.Path, "/"+name) {
			misbehave()
		}
	}
	return p.CuratorCacheStorage.Put(data)
}

// forgetful is a storage of a user's that keeps nothing.
type forgetful struct{ cache.CuratorCacheStorage }

func (forgetful) Put(*cache.ChildData) *cache.ChildData { return nil }
func (forgetful) Remove(string) *cache.ChildData        { return nil }

// What listeners are told does not depend on what the storage has kept.
func TestEngineStorageThatForgets(t *testing.T) {
	server := zktest.NewServer(t)
	client, writer := zktest.Client(t, server), zktest.Client(t, server)
	create(t, writer, "/tree/a", "1")
	c := newCache(t, client, "/tree", cache.WithStorage(forgetful{cache.NewStandardStorage()}))
	told := listenTo(c)
	start(t, c)
	told.expect(t, "NODE_CREATED /tree +", "NODE_CREATED /tree/a +1", "INITIALIZED")
	zktest.KillSession(t, client)
	fresh(t, c)
	set(t, writer, "/tree/a", "2")
	told.expect(t, "NODE_CHANGED /tree/a +2")
	remove(t, writer, "/tree/a")
	told.expect(t, "NODE_DELETED /tree/a")
}

// Code of the user's that panics, blocks or calls back hurts only itself.
func TestEngineUserCodeThatMisbehaves(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	c := newCache(t, client, "/tree", cache.WithStorage(panicky{cache.NewStandardStorage()}))
	closed := make(chan error, 1)
	block := make(chan struct{})
	defer close(block)
	c.Listen(func(cache.Event) { panic("listener") })
	c.Listen(func(cache.Event) { <-block })
	c.Listen(func(e cache.Event) {
		if e.Path == "/tree/last" {
			_, found := c.Get(e.Path)
			if !found {
				closed <- fmt.Errorf("%s is told and not there", e.Path)
				return
			}
			closed <- c.Close()
		}
	})
	start(t, c)
	create(t, client, "/tree/panic", "1")
	create(t, client, "/tree/Goexit", "1")
	create(t, client, "/tree/good", "2")
	fresh(t, c)
	require.Equal(t, map[string]string{"/tree": "", "/tree/good": "2"}, picture(c))
	create(t, client, "/tree/last", "3")
	require.NoError(t, zktest.Await(t, closed, "the end of the cache, from its listener"))
}

// The server of a later connection refuses them: the cache goes over to one-shot watches.
func TestEnginePersistentWatchesAreRefusedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a", "1")
		c := newCache(t, client, "/tree")
		start(t, c)
		const unimplemented = -6
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpAddWatch {
				return zkserver.FailWith(unimplemented)
			}
			return zkserver.Pass
		})
		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/a", "2")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "2"}, picture(c))
		set(t, writer, "/tree/a", "3")
		create(t, writer, "/tree/a/b", "4")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "3", "/tree/a/b": "4"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// The server of a later connection has them, or has them again: the cache comes back from one-shot watches, and leaves
// none of these.
func TestEnginePersistentWatchesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a/b", "1")
		const noAuth = -102
		asked := 0
		allow := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpAddWatch {
				asked++
				return zkserver.FailWith(noAuth)
			}
			return zkserver.Pass
		})
		c := newCache(t, client, "/tree")
		start(t, c)
		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/a", "2")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "2", "/tree/a/b": "1"}, picture(c), "on one-shot watches still")
		require.Equal(t, 2, asked, "once per connection")
		allow()

		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/a", "3")
		fresh(t, c)

		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "3", "/tree/a/b": "1"}, picture(c))
		synctest.Wait()
		require.Contains(t, must.Get(server.FourLetterWord(t.Context(), "wchs"))(t), "Total watches:1\n")
		create(t, writer, "/tree/a/c", "4")
		remove(t, writer, "/tree/a/b")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "3", "/tree/a/c": "4"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// A connection of one-shot watches is lost while a read that has set one is answered and not yet applied. The next server is asked
// for persistent watches once, before that read is applied, and not again when its watch is found to have ended.
func TestEngineAsksForPersistentWatchesOncePerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/slow", "")
		create(t, writer, "/tree/node", "")
		storage := gated{cache.NewStandardStorage(), "/tree/slow", make(chan chan struct{}, 1)}
		release, gate := make(chan struct{}), make(chan struct{})
		const noAuth = -102
		asked, slow := 0, zkserver.Pass
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.Op == zkserver.OpAddWatch:
				asked++
				return zkserver.FailWith(noAuth)
			case r.Op == zkserver.OpGetData && r.Path == "/tree/slow":
				return slow
			default:
				return zkserver.Pass
			}
		})
		c := newCache(t, client, "/tree", cache.WithStorage(storage))
		start(t, c)
		synctest.Wait()
		slow = zkserver.HoldUntil(release)
		set(t, writer, "/tree/slow", "x")
		synctest.Wait()
		set(t, writer, "/tree/node", "1")
		synctest.Wait() // both are being read, each in a batch
		storage.gates <- gate
		close(release)
		synctest.Wait() // both are answered, the first is being stored

		server.Cut(client.Session().ID(), 1)
		set(t, writer, "/tree/node", "2")
		time.Sleep(time.Minute) // it has connected
		require.Equal(t, 1, asked)
		close(gate)
		fresh(t, c)
		time.Sleep(time.Minute)

		require.Equal(t, 2, asked)
		require.Equal(t, map[string]string{"/tree": "", "/tree/slow": "x", "/tree/node": "2"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// Each request of a fill, a change and a Fresh is lost once, or its reply, or refused; the
// picture is right after all of them, and nothing is left.
func TestEngineEveryFaultOnce(t *testing.T) {
	const throttled = -127
	faults := map[string]zkserver.Fault{
		"request lost": zkserver.LoseRequest, "reply lost": zkserver.LoseReply, "throttled": zkserver.FailWith(throttled),
		"never answered": zkserver.NeverAnswer, "late": zkserver.Delay(time.Second),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				for k := 1; ; k++ {
					if !oneFault(t, server, k, fault) {
						require.Greater(t, k, 5, "requests that were hit")
						break
					}
				}
			})
		})
	}
}

// oneFault hits the k-th request of a cache, and reports whether there were as many.
func oneFault(t *testing.T, server *zkserver.Server, k int, fault zkserver.Fault) bool {
	t.Helper()
	root := fmt.Sprintf("/tree-%d", k)
	writer := zktest.Client(t, server)
	client := zktest.Client(t, server)
	create(t, writer, root+"/a/x", "1")
	seen := 0
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != client.Session().ID() || r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession {
			return zkserver.Pass
		}
		if seen++; seen == k {
			return fault
		}
		return zkserver.Pass
	})
	c := newCache(t, client, root)
	start(t, c)
	create(t, writer, root+"/b", "2")
	set(t, writer, root+"/a/x", "3")
	fresh(t, c)
	require.Equal(t, map[string]string{root: "", root + "/a": "", root + "/a/x": "3", root + "/b": "2"}, picture(c))
	synctest.Wait()
	remove()
	require.NoError(t, c.Close())
	require.NoError(t, client.Close())
	require.NoError(t, writer.Close())
	return seen >= k
}

// A path changes when its read has been answered, and others of the same batch have not.
func TestEngineEventWhileAPathIsRead(t *testing.T) {
	for _, version := range []string{"3.8.0", old} {
		t.Run(version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithVersion(version))
			client, writer := zktest.Client(t, server), zktest.Client(t, server)
			create(t, writer, "/tree/a", "before")
			create(t, writer, "/tree/b", "before")
			first, release := make(chan string, 2), make(chan struct{})
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpGetData || !strings.HasPrefix(r.Path, "/tree/") || r.SessionID != client.Session().ID() {
					return zkserver.Pass
				}
				if len(first) == 0 {
					first <- r.Path
					return zkserver.Pass
				}
				if len(first) == 1 {
					first <- ""
				}
				return zkserver.HoldUntil(release)
			})
			c := newCache(t, client, "/tree")
			require.NoError(t, c.Start())
			zktest.AwaitEvent(t, server, func(zkserver.Event) bool { return len(first) == 2 })
			path := <-first
			set(t, writer, path, "after")
			close(release)
			fresh(t, c)
			require.Equal(t, "after", picture(c)[path])
		})
	}
}

// gated is a storage that does not return from storing one path until it is let.
type gated struct {
	cache.CuratorCacheStorage
	path  string
	gates chan chan struct{} // taken by each Put of the path
}

func (g gated) Put(data *cache.ChildData) *cache.ChildData {
	if data.Path == g.path {
		select {
		case gate := <-g.gates:
			<-gate
		default:
		}
	}
	return g.CuratorCacheStorage.Put(data)
}

// A one-shot watch ends when the read that has set it is answered and not yet applied. Fresh
// that begins then waits for what the watch has to say.
func TestEngineWatchEndsBeforeItsReadIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(old))
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/slow", "")
		create(t, writer, "/tree/node", "")
		storage := gated{cache.NewStandardStorage(), "/tree/slow", make(chan chan struct{}, 1)}
		c := newCache(t, client, "/tree", cache.WithStorage(storage))
		start(t, c)

		release, gate := make(chan struct{}), make(chan struct{})
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetData && r.Path == "/tree/slow" {
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		}))
		set(t, writer, "/tree/slow", "x")
		synctest.Wait()
		set(t, writer, "/tree/node", "1")
		synctest.Wait() // both are being read, each in a batch
		storage.gates <- gate
		close(release)
		synctest.Wait() // both are answered, the first is being stored
		set(t, writer, "/tree/node", "2")
		reached := make(chan error, 1)
		go func() { reached <- c.Fresh(t.Context()) }()
		synctest.Wait()
		again := make(chan struct{})
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetData && r.Path == "/tree/node" {
				return zkserver.HoldUntil(again)
			}
			return zkserver.Pass
		}))
		close(gate)
		synctest.Wait()
		require.Empty(t, reached, "the node has not been read again")
		close(again)
		require.NoError(t, <-reached)
		require.Equal(t, "2", picture(c)["/tree/node"])
		require.NoError(t, c.Close())
	})
}

// A read that is refused sets no one-shot watch. A request for the Stat does, which servers
// without persistent watches allow to all. So a root that was unreadable is found with its
// next change.
func TestEngineRootThatBecomesReadable(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		const noAuth = -102
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree", "secret")
		allow := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && (r.Op == zkserver.OpGetData || r.Op == zkserver.OpGetChildren2) {
				return zkserver.FailWith(noAuth)
			}
			return zkserver.Pass
		})
		c := newCache(t, client, "/tree")
		start(t, c)
		require.Empty(t, picture(c))

		allow()
		set(t, writer, "/tree", "told")
		create(t, writer, "/tree/child", "")
		fresh(t, c)

		require.Equal(t, map[string]string{"/tree": "told", "/tree/child": ""}, picture(c))
		require.NoError(t, c.Close())
	})
}

// Older servers list names that no request of this client may contain.
func TestEngineNameThatCannotBeAskedForIsLeftOut(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		client := zktest.Client(t, server)
		create(t, client, "/tree", "")
		create(t, client, "/tree/good", "a")
		names, stat, err := childrenOf(t, client, "/tree")
		require.NoError(t, err)
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpGetChildren2 || r.Path != "/tree" {
				return zkserver.Pass
			}
			return zkserver.RespondWith(listFrame(r.Xid, append(names, "bad\x7f"), stat))
		})

		c := started(t, client, "/tree")

		require.Equal(t, map[string]string{"/tree": "", "/tree/good": "a"}, picture(c))
		require.NoError(t, c.Close())
	})
}

func childrenOf(tb testing.TB, client *framework.Framework, path string) (names []string, stat framework.Stat, err error) {
	tb.Helper()
	names, err = client.Children(zktest.Context(tb), path, framework.StoringStatIn(&stat))
	return names, stat, err
}

// listFrame is the reply to a list of children.
func listFrame(xid int32, names []string, stat framework.Stat) []byte {
	order := binary.BigEndian
	body := order.AppendUint32(nil, uint32(xid))
	body = order.AppendUint64(body, uint64(stat.Pzxid))
	body = order.AppendUint32(body, 0) // no error
	body = order.AppendUint32(body, uint32(len(names)))
	for _, name := range names {
		body = append(order.AppendUint32(body, uint32(len(name))), name...)
	}
	body, err := binary.Append(body, order, stat)
	if err != nil {
		panic(err)
	}
	return append(order.AppendUint32(nil, uint32(len(body))), body...)
}

// TestEngineReadThatCloseEndsBlamesNoZnode: its znode stays in the picture, and no listener hears that it was deleted. The engine
// learns of the failed read and of Close together, and either may come first.
func TestEngineReadThatCloseEndsBlamesNoZnode(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client, writer := zktest.Client(t, server), zktest.Client(t, server)
			create(t, writer, "/tree/slow", "")
			create(t, writer, "/tree/node", "")
			storage := gated{cache.NewStandardStorage(), "/tree/slow", make(chan chan struct{}, 1)}
			c := started(t, client, "/tree", cache.WithStorage(storage), cache.DoNotClearOnClose())
			deleted := make(chan string, 1)
			c.Listen(func(e cache.Event) { deleted <- e.Path }, cache.For(cache.NodeDeleted))

			holds := map[string]chan struct{}{"/tree/slow": make(chan struct{}), "/tree/node": make(chan struct{})}
			t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if hold := holds[r.Path]; hold != nil && r.Op == zkserver.OpGetData {
					return zkserver.HoldUntil(hold)
				}
				return zkserver.Pass
			}))
			set(t, writer, "/tree/slow", "x")
			synctest.Wait()
			set(t, writer, "/tree/node", "x")
			synctest.Wait() // both are being read, each in a batch
			gate := make(chan struct{})
			storage.gates <- gate
			close(holds["/tree/slow"])
			synctest.Wait() // it is being stored
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			synctest.Wait() // the other read has failed
			close(gate)
			require.NoError(t, <-closed)
			close(holds["/tree/node"])

			_, kept := storage.Get("/tree/node")
			require.True(t, kept)
			synctest.Wait() // listeners run on goroutines of their own
			require.Empty(t, deleted)
		})
	}
}
