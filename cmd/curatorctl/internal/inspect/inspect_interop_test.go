// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// awaitRecipe waits until there is one recipe at a path, with one holder and so many waiters.
func awaitRecipe(t *testing.T, client *framework.Framework, path string, waiters int) inspect.Recipe {
	t.Helper()
	return awaitRecipeThat(t, client, path, func(r inspect.Recipe) bool { return r.Holders == 1 && r.Waiters == waiters })
}

// awaitRecipeThat waits until there is one recipe at a path, and it fits.
func awaitRecipeThat(t *testing.T, client *framework.Framework, path string, fits func(inspect.Recipe) bool) inspect.Recipe {
	t.Helper()
	ctx := zktest.Context(t)
	for {
		recipes := must.Get(inspect.At(ctx, client, path))(t)
		if len(recipes) == 1 && fits(recipes[0]) {
			return recipes[0]
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("at %s: %+v, want one with other holders and waiters", path, recipes)
		}
	}
}

// clientsOf names the libraries of the participants, in the order of the queue.
func clientsOf(r inspect.Recipe) []string {
	var names []string
	for _, p := range r.Participants {
		names = append(names, inspect.Client(p))
	}
	return names
}

// TestInspectSeesTheContendersOfAllClients: what Java, kazoo and zk.Lock have really created
// is recognized, with who holds and who waits.
func TestInspectSeesTheContendersOfAllClients(t *testing.T) {
	eachServer(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		java, otherJava := newActor(t, server.ConnectString()), newActor(t, server.ConnectString())
		python, otherPython := newKazoo(t, server.ConnectString()), newKazoo(t, server.ConnectString())

		// One queue of zk.Lock, Java and this library.
		const shared = "/locks/shared"
		old := zk.NewLock(newZKConn(t, server.Addr()), server.Root()+shared, zk.WorldACL(zk.PermAll))
		require.NoError(t, old.Lock())
		java.do(t, "mutex", "m", shared)
		turn := java.begin(t, "m")
		awaitRecipe(t, client, shared, 1)
		got := acquireLater(t, newMutex(t, client, shared))
		r := awaitRecipe(t, client, shared, 2)
		require.Equal(t, inspect.Mutex, r.Kind)
		require.Equal(t, []string{"zk.Lock", "curator", "curator"}, clientsOf(r))
		require.Equal(t, []string{r.Participants[1].Path}, r.Participants[2].WaitsFor)
		require.NoError(t, old.Unlock())
		turn()
		require.NoError(t, (<-got).Release(zktest.Context(t)))

		// The other locks of Java.
		for _, actor := range []actor{java, otherJava} {
			actor.do(t, "read-write", "rw", "/locks/rw")
			actor.do(t, "semaphore", "s", "/locks/semaphore", "1")
		}
		node, token := java.acquire(t, "rw.read")
		turn = otherJava.begin(t, "rw.write")
		r = awaitRecipe(t, client, "/locks/rw", 1)
		require.Equal(t, inspect.ReadWrite, r.Kind)
		require.Equal(t, []string{"curator", "curator"}, clientsOf(r))
		require.Equal(t, node, r.Participants[0].Path)
		require.Equal(t, token, r.Participants[0].Token)
		java.do(t, "release", "rw.read")
		turn()
		node, _ = java.acquire(t, "s")
		turn = otherJava.begin(t, "s")
		// The maximum is known when the one that has its turn also waits for a permit.
		r = awaitRecipeThat(t, client, "/locks/semaphore", func(r inspect.Recipe) bool { return r.MaxLeases == 1 })
		require.Equal(t, inspect.Semaphore, r.Kind)
		require.Equal(t, node, r.Participants[0].Path)
		require.Equal(t, []int{1, 1}, []int{r.Holders, r.Waiters})
		require.Empty(t, r.Foreign)
		java.do(t, "release", "s")
		turn()

		// The contenders of kazoo.
		for _, path := range []string{"/python/lock", "/python/rw", "/python/semaphore"} { // kazoo cannot read what has no data
			must.Get(client.Create(t.Context(), path, []byte("-"), framework.CreatingParentsIfNeeded()))(t)
		}
		for _, actor := range []actor{python, otherPython} {
			actor.do(t, "lock", "m", "/python/lock")
			actor.do(t, "read-lock", "r", "/python/rw")
			actor.do(t, "write-lock", "w", "/python/rw")
			actor.do(t, "semaphore", "s", "/python/semaphore", "1")
		}
		for _, test := range []struct {
			path, holds, waits string
			kind               inspect.Kind
		}{
			{"/python/lock", "m", "m", inspect.KazooLock},
			{"/python/rw", "r", "w", inspect.KazooLock},
			{"/python/semaphore", "s", "s", inspect.KazooSemaphore},
		} {
			node, token := python.acquire(t, test.holds)
			turn := otherPython.begin(t, test.waits)
			r := awaitRecipe(t, client, test.path, 1)
			require.Equal(t, test.kind, r.Kind)
			require.Equal(t, []string{"kazoo", "kazoo"}, clientsOf(r), test.path)
			require.Equal(t, node, r.Participants[0].Path)
			require.Equal(t, token, r.Participants[0].Token)
			require.Equal(t, python.Name(), r.Participants[0].Identity)
			python.do(t, "release", test.holds)
			turn()
		}
	})
}

// newZKConn returns a connection of go-zookeeper, closed when the test ends.
func newZKConn(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(silentZK{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are done
		}
	})
	return conn
}

type silentZK struct{}

func (silentZK) Printf(string, ...any) {}
