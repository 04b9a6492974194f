// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// awaitReason explains a path until the first finding has the reason.
func awaitReason(t *testing.T, client *framework.Framework, path string, reason inspect.Reason, opts ...inspect.Option) inspect.Finding {
	t.Helper()
	ctx := zktest.Context(t)
	for {
		e := must.Get(inspect.Explain(ctx, client, path, opts...))(t)
		if e.Findings[0].Reason == reason {
			return e.Findings[0]
		}
		require.NoError(t, ctx.Err(), e)
	}
}

// TestExplainLocksOfJava: what is wrong with locks of Java's clients is told as with ours.
func TestExplainLocksOfJava(t *testing.T) {
	eachServer(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		first, second := newActor(t, server.ConnectString()), newActor(t, server.ConnectString())
		for _, a := range []actor{first, second} {
			a.do(t, "mutex", "a", "/locks/a")
			a.do(t, "mutex", "b", "/locks/b")
			a.do(t, "semaphore", "s", "/locks/s", "1")
		}

		// A release that was forgotten.
		node, _ := first.acquire(t, "a")
		turn := second.begin(t, "a")
		awaitRecipe(t, client, "/locks/a", 1)
		f := awaitReason(t, client, "/locks/a", inspect.ReasonOverstays, inspect.LongerThan(time.Millisecond))
		require.True(t, f.Trouble)
		require.Equal(t, node, f.Node)
		require.False(t, awaitReason(t, client, "/locks/a", inspect.ReasonTurn).Trouble)
		first.do(t, "release", "a")
		turn()

		// A permit that was not given back.
		node, _ = first.acquire(t, "s")
		turn = second.begin(t, "s")
		f = awaitReason(t, client, "/locks/s", inspect.ReasonLimit)
		require.False(t, f.Trouble)
		require.Equal(t, node, f.Node)
		first.do(t, "release", "s")
		turn()

		// A znode made by hand.
		put(t, client, "/locks/a/my-lock-0000000000")
		turn = first.begin(t, "a")
		f = awaitReason(t, client, "/locks/a", inspect.ReasonForeign)
		require.True(t, f.Trouble)
		require.Equal(t, "/locks/a/my-lock-0000000000", f.Node)
		require.NoError(t, client.Delete(t.Context(), f.Node))
		turn()

		// A deadlock of Java and Go: Java's znodes show no threads, so it may be one, once it has stood for longer than its holds.
		began := time.Now()
		ours := newMutex(t, client, "/locks/b")
		lease := must.Get(ours.Acquire(zktest.Context(t)))(t)
		first.acquire(t, "a")
		got := acquireLater(t, newMutex(t, client, "/locks/a"))
		awaitRecipe(t, client, "/locks/a", 1)
		turn = first.begin(t, "b")
		awaitRecipe(t, client, "/locks/b", 1)
		found := must.Get(inspect.Deadlocks(t.Context(), client, "/", inspect.LongerThan(time.Since(began)+time.Second)))(t)
		require.Len(t, found, 1)
		require.False(t, found[0].Certain)
		require.NoError(t, lease.Release(zktest.Context(t)))
		turn()
		first.do(t, "release", "a")
		require.NoError(t, (<-got).Release(zktest.Context(t)))
		found = must.Get(inspect.Deadlocks(t.Context(), client, "/"))(t)
		require.Empty(t, found)
	})
}

// TestExplainJavaThatIsGone: a holder or a leader of Java that was killed or is paused is told as with ours.
func TestExplainJavaThatIsGone(t *testing.T) {
	eachServer(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		for _, test := range []struct {
			name   string
			gone   func(proxy *zkproxy.Proxy, is bool)
			reason inspect.Reason
		}{
			{"killed", func(proxy *zkproxy.Proxy, is bool) { proxy.Refuse(is); proxy.Cut() }, inspect.ReasonLost},
			{"paused", func(proxy *zkproxy.Proxy, is bool) { proxy.Pause(is) }, inspect.ReasonSilent},
		} {
			proxy := zktest.NewProxy(t, server.Addr())
			holder, waiter := newActor(t, server.ConnectStringVia(proxy.Addr())), newActor(t, server.ConnectString())
			t.Cleanup(func() { test.gone(proxy, false) }) // or the holder could not be closed
			mutex, latch := "/locks/"+test.name, "/latches/"+test.name
			for _, a := range []actor{holder, waiter} {
				a.do(t, "mutex", "m", mutex)
				a.do(t, "latch", "l", latch, a.Name())
			}
			node, _ := holder.acquire(t, "m")
			leads, _ := holder.acquire(t, "l")
			got := waiter.Begin("acquire", "m")
			awaitRecipe(t, client, mutex, 1)
			test.gone(proxy, true)
			for path, want := range map[string]string{mutex: node, latch: leads} {
				f := awaitReason(t, client, path, test.reason)
				require.True(t, f.Trouble)
				require.Equal(t, want, f.Node)
				require.Contains(t, f.Advice[0].Command, "curatorctl lock break -yes -token ")
			}
			require.NoError(t, client.Delete(t.Context(), node)) // as the advice has it
			must.Get(got(zktest.Context(t)))(t)
		}
	})
}

// TestExplainDeadlocksOfJava: of five, and of readers and writers. The deletion of a node, as the advice has it, ends them.
func TestExplainDeadlocksOfJava(t *testing.T) {
	eachServer(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		for _, test := range []struct {
			kind        string
			n           int
			holds, asks string
		}{{"mutex", 5, "", ""}, {"read-write", 2, ".read", ".write"}} {
			path := func(i int) string { return fmt.Sprintf("/locks/%s/%d", test.kind, i%test.n) }
			began := time.Now()
			actors, nodes := make([]actor, test.n), make([]string, test.n)
			for i := range actors {
				actors[i] = newActor(t, server.ConnectString())
				for j := range test.n {
					actors[i].do(t, test.kind, strconv.Itoa(j), path(j))
				}
				nodes[i], _ = actors[i].acquire(t, strconv.Itoa(i)+test.holds)
			}
			asked := func(i int) string { return strconv.Itoa((i+1)%test.n) + test.asks }
			answers := make([]func(context.Context) ([]string, error), test.n)
			for i, a := range actors {
				answers[i] = a.Begin("acquire", asked(i))
				awaitRecipe(t, client, path(i+1), 1)
			}
			found := must.Get(inspect.Deadlocks(t.Context(), client, "/"))(t)
			require.Empty(t, found, "sessions prove none")
			found = must.Get(inspect.Deadlocks(t.Context(), client, "/", inspect.LongerThan(time.Since(began)+time.Second)))(t)
			require.Len(t, found, 1)
			require.Contains(t, found[0].String(), fmt.Sprintf("%d clients may wait for each other.", test.n))
			require.NoError(t, client.Delete(t.Context(), nodes[0]))
			for i, a := range slices.Backward(actors) {
				must.Get(answers[i](zktest.Context(t)))(t)
				a.do(t, "release", asked(i))
				a.do(t, "release", strconv.Itoa(i)+test.holds)
			}
		}
	})
}

// TestDeadlocksOfSelectorsOfJava: two processes lead one election each and wait for the other one's, in threads of their own. Without an id a
// selector has the names and the data of a mutex, so nothing is certain, and the default says nothing.
func TestDeadlocksOfSelectorsOfJava(t *testing.T) {
	eachServer(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		began := time.Now()
		actors := []actor{newActor(t, server.ConnectString()), newActor(t, server.ConnectString())}
		elections, nodes := []string{"/elections/a", "/elections/b"}, []string(nil)
		for i, a := range actors {
			a.do(t, "selector", "leads", elections[i], "")
			a.do(t, "selector", "waits", elections[1-i], "")
			nodes = append(nodes, a.do(t, "acquire", "leads")[0])
		}
		turns := make([]func(), len(actors))
		for i, a := range actors {
			turns[i] = a.begin(t, "waits")
			awaitRecipe(t, client, elections[1-i], 1)
		}
		found := must.Get(inspect.Deadlocks(t.Context(), client, "/"))(t)
		require.Empty(t, found)
		found = must.Get(inspect.Deadlocks(t.Context(), client, "/", inspect.LongerThan(time.Since(began)+time.Second)))(t)
		require.False(t, slices.ContainsFunc(found, func(d inspect.Deadlock) bool { return d.Certain }), "%v", found)
		require.NoError(t, client.Delete(t.Context(), nodes[0])) // each actor does one thing after the other
		for i, turn := range slices.Backward(turns) {
			turn()
			actors[i].do(t, "release", "leads")
		}
	})
}
