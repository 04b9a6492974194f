// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// adopting is how long a client waits before it deletes what the process before it has left.
const adopting = 5 * time.Second

// die ends a client as the end of its process does: no server hears of it.
func (n *memnet) die(t *testing.T, client *framework.Framework) {
	t.Helper()
	n.setDown(true)
	require.Error(t, client.Close(), "no server can confirm the end of the session")
	n.setDown(false)
}

// registered is an ephemeral znode of a client.
func register(t *testing.T, client *framework.Framework, path, data string, opts ...framework.CreateOption) {
	t.Helper()
	opts = append(opts, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded())
	created, err := client.Create(t.Context(), path, []byte(data), opts...)
	require.NoError(t, err)
	require.Equal(t, path, created)
}

func statOf(t *testing.T, client *framework.Framework, path string) *framework.Stat {
	t.Helper()
	stat, err := client.Exists(t.Context(), path)
	require.NoError(t, err)
	return stat
}

// TestSessionFileKeepsTheZnodes of a program that is started again. What it creates again is never missing, and what it does not
// create again is deleted.
func TestSessionFileKeepsTheZnodes(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		observer := n.client(t)
		first := n.client(t, framework.WithSessionFile(file))
		register(t, first, "/services/a", "1")
		register(t, first, "/services/b", "1")
		session, before := first.Session().ID(), statOf(t, observer, "/services/a")
		n.die(t, first)

		second := n.client(t, framework.WithSessionFile(file))
		require.Equal(t, session, second.Session().ID())
		var stat framework.Stat
		register(t, second, "/services/a", "2", framework.StoringStatIn(&stat))
		require.Equal(t, before.Czxid, stat.Czxid)
		require.Equal(t, session, stat.EphemeralOwner)
		data, err := observer.Get(t.Context(), "/services/a")
		require.NoError(t, err)
		require.Equal(t, "2", string(data))
		_, err = second.Create(t.Context(), "/services/a", nil, framework.WithMode(framework.Ephemeral))
		require.ErrorIs(t, err, framework.ErrNodeExists, "it is this client's now")

		time.Sleep(adopting - time.Second)
		require.NotNil(t, statOf(t, observer, "/services/b"))
		time.Sleep(2 * time.Second)
		require.Nil(t, statOf(t, observer, "/services/b"))
		require.Equal(t, before.Czxid, statOf(t, observer, "/services/a").Czxid)
		require.Equal(t, session, second.Session().ID())

		n.die(t, second)
		third := n.client(t, framework.WithSessionFile(file))
		require.Equal(t, session, third.Session().ID(), "each process in turn")
		require.NoError(t, third.Close())
		require.Nil(t, statOf(t, observer, "/services/a"))
		fourth := n.client(t, framework.WithSessionFile(file))
		require.NotEqual(t, session, fourth.Session().ID(), "the session was closed")
	})
}

// TestSessionFileKeepsTheAccessControlList of a znode that is created again, as the servers hold it. The data is the new one.
func TestSessionFileKeepsTheAccessControlList(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		before := zk.WorldACL(zk.PermAll)
		first := n.client(t, framework.WithSessionFile(file))
		register(t, first, "/a", "1", framework.WithACL(before...))
		n.die(t, first)
		second := n.client(t, framework.WithSessionFile(file))
		register(t, second, "/a", "2", framework.WithACL(zk.WorldACL(zk.PermRead)...))
		acl, err := second.GetACL(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, before, acl)
		data, err := second.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "2", string(data))
	})
}

// TestSessionFileOfAProgramThatFailsAgain: a program that ends before it has adopted or deleted everything loses its place.
func TestSessionFileOfAProgramThatFailsAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		first := n.client(t, framework.WithSessionFile(file))
		register(t, first, "/a", "1")
		n.die(t, first)
		second := n.client(t, framework.WithSessionFile(file))
		require.Equal(t, first.Session().ID(), second.Session().ID())
		n.die(t, second)
		third := n.client(t, framework.WithSessionFile(file))
		require.NotEqual(t, first.Session().ID(), third.Session().ID())
	})
}

// TestSessionFileWithASessionThatHasEnded: the client begins another.
func TestSessionFileWithASessionThatHasEnded(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		first := n.client(t, framework.WithSessionFile(file))
		n.die(t, first)
		time.Sleep(2 * memSession)
		second, states := n.newClient(t, framework.WithSessionFile(file))
		require.NoError(t, second.Start())
		states.expect(t, framework.Connected)
		require.NotEqual(t, first.Session().ID(), second.Session().ID())
		time.Sleep(2 * memSession)
		states.none(t)
	})
}

// TestSessionFileIsOfOneClientAtATime: no two clients have one session, whatever is in a file.
func TestSessionFileIsOfOneClientAtATime(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, n *memnet, first *framework.Framework, file string)
		warns  string
		takes  bool // the file once it is free
	}{
		"the first client lives": {func(*testing.T, *memnet, *framework.Framework, string) {}, "another client has the file", true},
		"a copy": {func(t *testing.T, _ *memnet, _ *framework.Framework, file string) {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotEmpty(t, content)
			require.NoError(t, os.WriteFile(file+".new", content, 0o600))
			require.NoError(t, os.Rename(file+".new", file))
		}, "", false},
		"half of it was written": {func(t *testing.T, n *memnet, first *framework.Framework, file string) {
			n.die(t, first)
			require.NoError(t, os.Truncate(file, 20))
		}, "", false},
		"others may read it": {func(t *testing.T, n *memnet, first *framework.Framework, file string) {
			n.die(t, first)
			require.NoError(t, os.Chmod(file, 0o640))
		}, "expected a file of user", false},
		"a link": {func(t *testing.T, n *memnet, first *framework.Framework, file string) {
			n.die(t, first)
			require.NoError(t, os.Rename(file, file+".real"))
			require.NoError(t, os.Symlink(file+".real", file))
		}, "too many levels of symbolic links", false},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				file := filepath.Join(t.TempDir(), "session")
				first := n.client(t, framework.WithSessionFile(file))
				register(t, first, "/a", "1")
				test.change(t, n, first, file)
				var log bytes.Buffer
				second := n.client(t, framework.WithSessionFile(file), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				require.NotEqual(t, first.Session().ID(), second.Session().ID())
				_, err := second.Create(t.Context(), "/a", nil, framework.WithMode(framework.Ephemeral))
				require.ErrorIs(t, err, framework.ErrNodeExists)
				if test.takes {
					require.NoError(t, first.Close())
					time.Sleep(adopting)
					n.die(t, second)
					third := n.client(t, framework.WithSessionFile(file))
					require.Equal(t, second.Session().ID(), third.Session().ID())
				}
				_ = second.Close() // so that its log is complete
				require.Contains(t, log.String(), test.warns)
				require.Equal(t, test.warns != "", bytes.Contains(log.Bytes(), []byte("the session is not registered")))
			})
		})
	}
}

// TestSessionFileAtAnOldServer: a server that does not say what is left ends the session.
func TestSessionFileAtAnOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := zkserver.Start(zkserver.WithoutListener(), zkserver.WithVersion("3.5.10"))
		require.NoError(t, err)
		n := &memnet{server: server}
		defer func() {
			require.NoError(t, server.Close())
			n.cut()
		}()
		file := filepath.Join(t.TempDir(), "session")
		first := n.client(t, framework.WithSessionFile(file))
		register(t, first, "/a", "1")
		n.die(t, first)
		second := n.client(t, framework.WithSessionFile(file))
		require.NotEqual(t, first.Session().ID(), second.Session().ID())
		require.Nil(t, statOf(t, second, "/a"))
		require.Len(t, server.Sessions(), 1)
		require.NoError(t, second.Close())
	})
}

// TestSessionEndsWithWhatCannotBeDeleted: what the process before has left does not stay for as long as the session.
func TestSessionEndsWithWhatCannotBeDeleted(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		owner := n.client(t, framework.WithAuth("digest", []byte("a:b")))
		_, err := owner.Create(t.Context(), "/own", nil, framework.WithACL(framework.CreatorAllACL()...))
		require.NoError(t, err)
		first := n.client(t, framework.WithSessionFile(file), framework.WithAuth("digest", []byte("a:b")))
		register(t, first, "/own/a", "1")
		n.die(t, first)
		second, states := n.newClient(t, framework.WithSessionFile(file))
		require.NoError(t, second.Start())
		states.expect(t, framework.Connected)
		require.Equal(t, first.Session().ID(), second.Session().ID())
		states.expect(t, framework.Lost, framework.Reconnected)
		require.Nil(t, statOf(t, owner, "/own/a"))
		require.NotEqual(t, first.Session().ID(), second.Session().ID())
	})
}

// TestAdoptTakesWhatItAccepts of the children of a folder that were left, in their order, each once.
func TestAdoptTakesWhatItAccepts(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		observer := n.client(t)
		first := n.client(t, framework.WithSessionFile(file))
		paths := make([]string, 4)
		var err error
		for i, data := range []string{"x", "y", "x", "x"} {
			paths[i], err = first.Create(t.Context(), "/q/n-", []byte(data), framework.WithMode(framework.EphemeralSequential),
				framework.WithProtection(), framework.CreatingParentsIfNeeded())
			require.NoError(t, err)
		}
		register(t, first, "/other/x", "x")
		before := statOf(t, observer, paths[0])
		adopt := func(client *framework.Framework) (string, framework.Stat) {
			path, stat, err := client.Adopt(t.Context(), "/q", []byte("new"), func(_ string, data []byte) bool { return string(data) == "x" })
			require.NoError(t, err)
			return path, stat
		}
		path, _ := adopt(first)
		require.Empty(t, path, "a client does not adopt its own")
		n.die(t, first)

		second, _ := n.newClient(t, framework.WithSessionFile(file))
		require.NoError(t, second.Start())
		path, stat := adopt(second) // waits for the connection
		require.Equal(t, paths[0], path)
		require.Equal(t, before.Czxid, stat.Czxid)
		require.Equal(t, second.Session().ID(), stat.EphemeralOwner)
		data, err := observer.Get(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
		require.NoError(t, observer.Delete(t.Context(), paths[2]))
		path, _ = adopt(second)
		require.Equal(t, paths[3], path)
		path, _ = adopt(second)
		require.Empty(t, path)
		time.Sleep(adopting + time.Second)
		require.Nil(t, statOf(t, observer, paths[1]))
		require.NotNil(t, statOf(t, observer, paths[0]))
		require.NotNil(t, statOf(t, observer, paths[3]))
		path, _ = adopt(second)
		require.Empty(t, path)
	})
}

// TestAdoptWhoseFunctionPanics leaves nothing behind: the znode may be adopted later, and is deleted otherwise.
func TestAdoptWhoseFunctionPanics(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		file := filepath.Join(t.TempDir(), "session")
		observer := n.client(t)
		first := n.client(t, framework.WithSessionFile(file))
		register(t, first, "/q/a", "x")
		n.die(t, first)
		second := n.client(t, framework.WithSessionFile(file))
		require.PanicsWithValue(t, "no", func() {
			_, _, _ = second.Adopt(t.Context(), "/q", nil, func(string, []byte) bool { panic("no") })
		})
		require.NotNil(t, statOf(t, observer, "/q/a"))
		time.Sleep(adopting + time.Second)
		require.Nil(t, statOf(t, observer, "/q/a"))
	})
}

// TestAdoptWhileRequestsFail: what is adopted, or deleted, is so whatever happens to the requests.
func TestAdoptWhileRequestsFail(t *testing.T) {
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		for _, op := range []zkserver.OpCode{
			zkserver.OpMulti, zkserver.OpGetEphemerals, zkserver.OpGetData, zkserver.OpSetData, zkserver.OpCreate2, zkserver.OpDelete,
		} {
			t.Run(fault.String()+" "+op.String(), func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *memnet) {
					file := filepath.Join(t.TempDir(), "session")
					first := n.client(t, framework.WithSessionFile(file))
					register(t, first, "/q/a", "x")
					register(t, first, "/b", "x")
					register(t, first, "/c", "x")
					n.die(t, first)
					n.server.Intercept(zkserver.Nth(1, op, fault))
					second := n.client(t, framework.WithSessionFile(file))
					require.Equal(t, first.Session().ID(), second.Session().ID())
					path, _, err := second.Adopt(t.Context(), "/q", []byte("y"), func(string, []byte) bool { return true })
					require.NoError(t, err)
					require.Equal(t, "/q/a", path)
					register(t, second, "/b", "y", framework.Idempotent())
					require.Equal(t, first.Session().ID(), second.Session().ID())
					time.Sleep(2 * adopting)
					require.Nil(t, statOf(t, second, "/c"))
					for _, path := range []string{"/q/a", "/b"} {
						data, err := second.Get(context.Background(), path)
						require.NoError(t, err)
						require.Equal(t, "y", string(data))
					}
				})
			})
		}
	}
}
