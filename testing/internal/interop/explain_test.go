// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/testing/zktest"
)

// awaitReason explains a path until the first finding has the reason.
func awaitReason(t *testing.T, client *framework.Framework, path string, reason inspect.Reason, opts ...inspect.Option) inspect.Finding {
	t.Helper()
	ctx := zktest.Context(t)
	for {
		e, err := inspect.Explain(ctx, client, path, opts...)
		require.NoError(t, err)
		if e.Findings[0].Reason == reason {
			return e.Findings[0]
		}
		require.NoError(t, ctx.Err(), e)
	}
}

// TestExplainLocksOfJava: what is wrong with locks of Java's clients is told as with ours.
func TestExplainLocksOfJava(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		first, second := newActor(t, server), newActor(t, server)
		later := func(a actor, lock string) (turn func()) {
			t.Helper()
			answer := a.Begin("acquire", lock)
			return func() {
				t.Helper()
				_, err := answer(zktest.Context(t))
				require.NoError(t, err)
				a.do(t, "release", lock)
			}
		}
		for _, a := range []actor{first, second} {
			a.do(t, "mutex", "a", "/locks/a")
			a.do(t, "mutex", "b", "/locks/b")
			a.do(t, "semaphore", "s", "/locks/s", "1")
		}

		// A release that was forgotten.
		node, _ := first.acquire(t, "a")
		turn := later(second, "a")
		awaitRecipe(t, client, "/locks/a", 1)
		f := awaitReason(t, client, "/locks/a", inspect.ReasonOverstays, inspect.LongerThan(time.Millisecond))
		require.True(t, f.Trouble)
		require.Equal(t, node, f.Node)
		require.False(t, awaitReason(t, client, "/locks/a", inspect.ReasonTurn).Trouble)
		first.do(t, "release", "a")
		turn()

		// A permit that was not given back.
		node, _ = first.acquire(t, "s")
		turn = later(second, "s")
		f = awaitReason(t, client, "/locks/s", inspect.ReasonLimit)
		require.False(t, f.Trouble)
		require.Equal(t, node, f.Node)
		first.do(t, "release", "s")
		turn()

		// A znode made by hand.
		makeFolder(t, server, "/locks/a/my-lock-0000000000", "")
		turn = later(first, "a")
		f = awaitReason(t, client, "/locks/a", inspect.ReasonForeign)
		require.True(t, f.Trouble)
		require.Equal(t, "/locks/a/my-lock-0000000000", f.Node)
		require.NoError(t, client.Delete(t.Context(), f.Node))
		turn()

		// A deadlock of Java and Go.
		ours := newMutex(t, client, "/locks/b")
		lease, err := ours.Acquire(zktest.Context(t))
		require.NoError(t, err)
		first.acquire(t, "a")
		got := acquireLater(t, newMutex(t, client, "/locks/a"))
		awaitRecipe(t, client, "/locks/a", 1)
		turn = later(first, "b")
		awaitRecipe(t, client, "/locks/b", 1)
		f = awaitReason(t, client, "/locks/a", inspect.ReasonDeadlock, inspect.WithDeadlocks("/"))
		require.True(t, f.Trouble)
		require.NoError(t, lease.Release(zktest.Context(t)))
		turn()
		first.do(t, "release", "a")
		require.NoError(t, (<-got).Release(zktest.Context(t)))
		found, err := inspect.Deadlocks(t.Context(), client, "/")
		require.NoError(t, err)
		require.Empty(t, found)
	})
}
