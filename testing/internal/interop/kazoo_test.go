// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/testing/zktest"
)

func startKazoo(tb testing.TB) *interop.Kazoo {
	tb.Helper()
	return sharedKazoo.get(tb, interop.StartKazoo)
}

// newKazoo returns an actor in Python that is connected, and closed when the test
// ends.
func newKazoo(tb testing.TB, server zktest.Backend) actor {
	tb.Helper()
	a := actor{startKazoo(tb).Actor("python" + strconv.FormatInt(actors.Add(1), 10))}
	a.do(tb, "connect", server.ConnectString(), "10000")
	tb.Cleanup(func() { a.close(tb) })
	return a
}

// Each recipe of kazoo's comes out the same on the embedded server, in this process and
// as the program devserver, as on real ZooKeeper.
func TestKazooRecipes(t *testing.T) {
	outcomes := make(map[string][]string)
	recipes := func(t *testing.T, server zktest.Backend) {
		t.Helper()
		outcomes[server.Name()] = actor{startKazoo(t).Actor("recipes")}.do(t, "recipes", server.ConnectString())
	}
	inTurn(t, recipes)
	t.Run("devserver", func(t *testing.T) {
		server := onDevserver(t)
		makeChroot(t, server)
		recipes(t, server)
	})
	genuine := outcomes["zookeeper"]
	t.Logf("kazoo %s on ZooKeeper:\n%s", actor{startKazoo(t).Actor("recipes")}.do(t, "version"), strings.Join(genuine, "\n"))
	require.GreaterOrEqual(t, len(genuine), 19)
	require.Equal(t, genuine, outcomes["zkserver"])
	require.Equal(t, genuine, outcomes["devserver"])
}
