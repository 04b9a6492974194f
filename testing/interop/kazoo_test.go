package interop_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/interop"
	"github.com/gocurator/curator/testing/zktest"
)

// sharedKazoo is the Python process that the tests of this package share.
var sharedKazoo struct {
	sync.Mutex
	process *interop.Kazoo
}

// sharingKazoo ends the shared Python process after the tests.
type sharingKazoo struct{ m zktest.TestRunner }

func (s sharingKazoo) Run() int {
	code := s.m.Run()
	sharedKazoo.Lock()
	defer sharedKazoo.Unlock()
	if sharedKazoo.process != nil {
		if err := sharedKazoo.process.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

func startKazoo(tb testing.TB) *interop.Kazoo {
	tb.Helper()
	sharedKazoo.Lock()
	defer sharedKazoo.Unlock()
	if sharedKazoo.process == nil {
		process, err := interop.StartKazoo()
		require.NoError(tb, err)
		sharedKazoo.process = process
	}
	return sharedKazoo.process
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
func TestTheRecipesOfKazoo(t *testing.T) {
	outcomes := make(map[string][]string)
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		a := actor{startKazoo(t).Actor("recipes")}
		outcomes[server.Name()] = a.do(t, "recipes", server.ConnectString())
	})
	genuine := outcomes["zookeeper"]
	t.Logf("kazoo %s on ZooKeeper:\n%s", actor{startKazoo(t).Actor("recipes")}.do(t, "version"), strings.Join(genuine, "\n"))
	require.GreaterOrEqual(t, len(genuine), 19)
	require.Equal(t, genuine, outcomes["zkserver"])
	require.Equal(t, genuine, outcomes["devserver"])
}
