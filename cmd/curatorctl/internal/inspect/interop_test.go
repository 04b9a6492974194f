// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// Java and Python are processes that the tests share: each is started for the first test that needs it.
var (
	java    = sync.OnceValues(func() (*interop.Java, error) { return started(interop.Start(context.Background())) })
	kazoo   = sync.OnceValues(func() (*interop.Kazoo, error) { return started(interop.StartKazoo()) })
	actors  atomic.Int64
	running struct {
		sync.Mutex
		all []io.Closer
	}
)

func started[P io.Closer](process P, err error) (P, error) {
	if err == nil {
		running.Lock()
		defer running.Unlock()
		running.all = append(running.all, process)
	}
	return process, err
}

// sharing ends the shared processes after the tests.
type sharing struct{ m *testing.M }

func (s sharing) Run() int {
	code := s.m.Run()
	for _, process := range running.all {
		if err := process.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// eachServer runs a test that needs Java on every backend, beside other tests.
func eachServer(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts Java processes")
	}
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		// A Java client expects to find the node of the chroot.
		must.Get(zktest.Client(t, server.Addr()).Create(zktest.Context(t), server.Root(), nil))(t)
		test(t, server)
	})
}

// actor is an interop.Actor whose failures fail the test.
type actor struct{ *interop.Actor }

// newActor returns a Java actor that is connected, and closed when the test ends.
func newActor(tb testing.TB, connectString string) actor {
	tb.Helper()
	process := must.Get(java())(tb)
	return connected(tb, process.Actor("java"+strconv.FormatInt(actors.Add(1), 10)), connectString)
}

// newKazoo returns such an actor in Python.
func newKazoo(tb testing.TB, connectString string) actor {
	tb.Helper()
	process := must.Get(kazoo())(tb)
	return connected(tb, process.Actor("python"+strconv.FormatInt(actors.Add(1), 10)), connectString)
}

func connected(tb testing.TB, of *interop.Actor, connectString string) actor {
	tb.Helper()
	a := actor{of}
	a.do(tb, "connect", connectString, "10000")
	tb.Cleanup(func() { a.do(tb, "close") })
	return a
}

func (a actor) do(tb testing.TB, command string, args ...string) []string {
	tb.Helper()
	results := must.Get(a.Do(zktest.Context(tb), command, args...))(tb)
	return results
}

// acquire has the actor acquire a lock, and returns the path and the czxid of its node.
func (a actor) acquire(tb testing.TB, lock string) (path string, czxid int64) {
	tb.Helper()
	held := a.do(tb, "acquire", lock)
	require.Len(tb, held, 2)
	czxid = must.Get(strconv.ParseInt(held[1], 10, 64))(tb)
	return held[0], czxid
}

// begin has the actor wait for a lock, and returns a function that awaits its turn.
func (a actor) begin(t *testing.T, lock string) (turn func()) {
	t.Helper()
	answer := a.Begin("acquire", lock)
	return func() {
		t.Helper()
		require.Len(t, must.Get(answer(zktest.Context(t)))(t), 2)
		a.do(t, "release", lock)
	}
}

func newMutex(tb testing.TB, client *framework.Framework, path string) *locks.InterProcessMutex {
	tb.Helper()
	m := must.Get(locks.NewInterProcessMutex(client, path))(tb)
	return m
}

// acquireLater returns where the lease will be, nil if none can be had.
func acquireLater(tb testing.TB, lock locks.InterProcessLock) <-chan *locks.Lease {
	tb.Helper()
	got := make(chan *locks.Lease, 1)
	go func() {
		lease, err := lock.Acquire(zktest.Context(tb))
		if err != nil {
			tb.Errorf("acquire: %v", err)
		}
		got <- lease
	}()
	return got
}
