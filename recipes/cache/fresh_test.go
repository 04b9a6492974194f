// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// freshEnv names the environment variable with the number of writes of TestFreshOverTwoServers.
const freshEnv = "CURATOR_FRESH_WRITES"

// One client writes at one server of an ensemble. After each write, Fresh of a cache at another
// server shows it.
func TestFreshOverTwoServers(t *testing.T) {
	text := os.Getenv(freshEnv)
	if text == "" {
		t.Skip("three real servers: in a long run; TestFreshAtAServerThatLags has it on fake time")
	}
	writes, err := strconv.Atoi(text)
	require.NoError(t, err, freshEnv)
	servers := zktest.NewEnsemble(t, 3)
	followers := must.Get(servers.Followers(t.Context()))(t)
	require.Len(t, followers, 2)
	writer, reader := zktest.Client(t, followers[0].Addr()), zktest.Client(t, followers[1].Addr())
	const nodes = 10
	create(t, writer, "/tree", "")
	for i := range nodes {
		create(t, writer, fmt.Sprintf("/tree/%d", i), "")
	}
	c := started(t, reader, "/tree")
	ctx, stale := t.Context(), 0
	for i := range writes {
		var stat framework.Stat
		path := fmt.Sprintf("/tree/%d", i%nodes)
		require.NoError(t, writer.Set(ctx, path, strconv.AppendInt(nil, int64(i), 10), framework.StoringStatIn(&stat)))
		require.NoError(t, c.Fresh(ctx))
		data, found := c.Get(path)
		if !found || data.Stat.Mzxid < stat.Mzxid {
			stale++
		}
	}
	t.Logf("%d writes, each followed by Fresh and a read at another server: %d stale", writes, stale)
	require.Zero(t, stale)
}

// A server that lags behind shows what was committed only after a sync. So Fresh sends one.
func TestFreshAtAServerThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, version := range []string{"3.8.0", old} {
			server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
			writer, follower := zktest.Client(t, server), zktest.Client(t, server)
			create(t, writer, "/tree", "1")
			c := started(t, follower, "/tree")
			thaw := server.FreezeReads(follower.Session().ID())
			stop := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpSync && r.SessionID == follower.Session().ID() {
					thaw()
				}
				return zkserver.Pass
			})
			set(t, writer, "/tree", "2")

			require.NoError(t, c.Fresh(t.Context()))

			require.Equal(t, map[string]string{"/tree": "2"}, picture(c), version)
			stop()
			require.NoError(t, c.Close())
		}
	})
}

// On one-shot watches, each read of a new branch finds the next znode of it. Fresh waits for all.
func TestFreshWaitsForReadsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(old))
		writer, follower := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree", "")
		c := started(t, follower, "/tree")
		stop := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == follower.Session().ID() && (r.Op == zkserver.OpGetData || r.Op == zkserver.OpGetChildren2) {
				return zkserver.Delay(time.Second)
			}
			return zkserver.Pass
		})
		want := map[string]string{"/tree": ""}
		for _, path := range []string{"/tree/a", "/tree/a/b", "/tree/a/b/c", "/tree/a/b/c/d"} {
			create(t, writer, path, path)
			want[path] = path
		}

		require.NoError(t, c.Fresh(t.Context()))

		require.Equal(t, want, picture(c))
		stop()
		require.NoError(t, c.Close())
	})
}

// After an error inside the server no event says that the znode can be read again.
func TestFreshErrorInsideTheServerIsNoStateOfAZnode(t *testing.T) {
	const systemError = -1
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		client := zktest.Client(t, server)
		create(t, client, "/tree", "old")
		c := started(t, client, "/tree")
		heard := listenTo(c)
		failures := 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if failures == 3 || r.Op != zkserver.OpGetData && r.Op != zkserver.OpMultiRead {
				return zkserver.Pass
			}
			failures++
			return zkserver.FailWith(systemError)
		})
		set(t, client, "/tree", "new")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]string{"/tree": "new"}, picture(c))
		require.Equal(t, 3, failures)
		heard.expect(t, "NODE_CHANGED /tree -old +new")
	})
}

// slowReads delays the reads of a client.
func slowReads(server *zkserver.Server, client *framework.Framework, by time.Duration) {
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID == client.Session().ID() && (r.Op == zkserver.OpGetData || r.Op == zkserver.OpMultiRead) {
			return zkserver.Delay(by)
		}
		return zkserver.Pass
	})
}

func TestLagCountsFromTheEventToTheRead(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		writer, client := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a", "1")
		c := started(t, client, "/tree")
		require.Zero(t, c.Lag())
		slowReads(server, client, 3*time.Second)
		set(t, writer, "/tree/a", "2")
		time.Sleep(2 * time.Second)
		require.Equal(t, 2*time.Second, c.Lag())
		time.Sleep(2 * time.Second)
		require.Zero(t, c.Lag())
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "2"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// A change comes each two seconds, and a read takes three: the cache always has one to read, and none for long.
func TestLagIsOfTheOldestChangeThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		writer, client := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a", "1")
		c := started(t, client, "/tree")
		slowReads(server, client, 3*time.Second)
		for n := range 20 {
			set(t, writer, "/tree/a", fmt.Sprint(n))
			time.Sleep(2 * time.Second)
			require.GreaterOrEqual(t, c.Lag(), time.Second)
			require.LessOrEqual(t, c.Lag(), 6*time.Second)
		}
		require.NoError(t, c.Close())
	})
}

// A znode that changes again while it waits for its read keeps its place: callers of Fresh from
// before the later change wait for it, too.
func TestFreshWaitsForWhatHasChangedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		writer, follower := zktest.Client(t, server), zktest.Client(t, server)
		const znodes, atOnce = 400, 192 // of which so many are read before others
		write := func(from int) {
			for i := from; i < znodes; i++ {
				set(t, writer, fmt.Sprintf("/tree/%d", i), "new")
			}
			synctest.Wait()
		}
		create(t, writer, "/tree", "")
		for i := range znodes {
			create(t, writer, fmt.Sprintf("/tree/%d", i), "")
		}
		c := started(t, follower, "/tree")
		require.NoError(t, c.Fresh(t.Context()))
		// The reads from before the sync of Fresh, those that follow them, and the rest.
		first, second, rest := make(chan struct{}), make(chan struct{}), make(chan struct{})
		synced, reads := false, 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.SessionID != follower.Session().ID():
			case r.Op == zkserver.OpSync:
				synced = true
			case r.Op != zkserver.OpGetData && r.Op != zkserver.OpMultiRead:
			case !synced:
				return zkserver.HoldUntil(first)
			default:
				if reads++; reads > 3 {
					return zkserver.HoldUntil(rest)
				}
				return zkserver.HoldUntil(second)
			}
			return zkserver.Pass
		})
		write(0)
		fresh := make(chan error, 1)
		go func() { fresh <- c.Fresh(t.Context()) }()
		synctest.Wait()
		close(first)
		synctest.Wait()
		write(atOnce)
		close(second)
		synctest.Wait()

		require.Empty(t, fresh, "znodes are not read that have changed before the call")
		close(rest)
		require.NoError(t, <-fresh)
		require.NoError(t, c.Close())
	})
}
