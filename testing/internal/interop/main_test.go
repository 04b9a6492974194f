// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) {
	zktest.Main(sharing{m})
}

// shared is a process that the tests of this package share: it is started for the first
// that needs it, and ended after the last.
type shared[P io.Closer] struct {
	mu      sync.Mutex
	process *P // nil before it is needed
}

var (
	sharedJava      shared[*interop.Java]
	sharedKazoo     shared[*interop.Kazoo]
	sharedDevserver shared[*devserver]
)

func (s *shared[P]) get(tb testing.TB, start func() (P, error)) P {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		process, err := start()
		require.NoError(tb, err)
		s.process = &process
	}
	return *s.process
}

func (s *shared[P]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return (*s.process).Close()
}

// sharing ends the shared processes after the tests.
type sharing struct{ m *testing.M }

func (s sharing) Run() int {
	code := s.m.Run()
	if err := errors.Join(sharedJava.close(), sharedKazoo.close(), sharedDevserver.close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 3 * time.Minute

// turns is how often each contender of a contest takes its turn. make test-long has more.
var turns = flag.Int("turns", 30, "how often each contender of a contest takes its turn")

// eachBackend runs a test that needs Java on every backend, beside other tests.
func eachBackend(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	needsJava(t)
	t.Parallel()
	inTurn(t, test)
}

// inTurn is eachBackend for tests that count what all clients of a server have left there.
func inTurn(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	needsJava(t)
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		makeChroot(t, server)
		test(t, server)
	})
}

// onZooKeeper is inTurn for contests, which take long: what the servers have to do with them, shorter tests compare.
func onZooKeeper(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	inTurn(t, func(t *testing.T, server zktest.Backend) {
		if server.Name() == "zookeeper" {
			test(t, server)
		}
	})
}

// makeChroot makes the node of the chroot, which a Java client expects to find.
func makeChroot(t *testing.T, server zktest.Backend) {
	t.Helper()
	_, err := zktest.Client(t, server.Addr()).Create(zktest.Context(t), server.Root(), nil)
	require.NoError(t, err)
}

func needsJava(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts Java processes")
	}
}

func startJava(tb testing.TB) *interop.Java {
	tb.Helper()
	return sharedJava.get(tb, func() (*interop.Java, error) { return interop.Start(zktest.Context(tb)) })
}

var actors atomic.Int64

// newActor returns a Java actor that is connected, and closed when the test ends.
func newActor(tb testing.TB, server zktest.Backend) actor {
	tb.Helper()
	return newActorAt(tb, server.ConnectString())
}

// newActorAt is newActor with a connection string, and credentials if there are any.
func newActorAt(tb testing.TB, connectString string, credentials ...string) actor {
	tb.Helper()
	a := actor{startJava(tb).Actor("java" + strconv.FormatInt(actors.Add(1), 10))}
	a.do(tb, "connect", append([]string{connectString, "10000"}, credentials...)...)
	tb.Cleanup(func() { a.close(tb) })
	return a
}

// actor is an interop.Actor whose failures fail the test.
type actor struct{ *interop.Actor }

func (a actor) do(tb testing.TB, command string, args ...string) []string {
	tb.Helper()
	results, err := a.Do(zktest.Context(tb), command, args...)
	require.NoError(tb, err)
	return results
}

// close closes the actor's client. It may be called more than once.
func (a actor) close(tb testing.TB) {
	tb.Helper()
	if _, err := a.Do(zktest.Context(tb), "close"); err != nil {
		tb.Errorf("%s: close: %v", a.Name(), err)
	}
}

// acquire has the actor acquire a lock, and returns the path and the czxid of its
// node.
func (a actor) acquire(tb testing.TB, lock string) (path string, czxid int64) {
	tb.Helper()
	hold := a.do(tb, "acquire", lock)
	require.Len(tb, hold, 2)
	czxid, err := strconv.ParseInt(hold[1], 10, 64)
	require.NoError(tb, err)
	return hold[0], czxid
}

func newMutex(tb testing.TB, client *framework.Framework, path string, opts ...locks.Option) *locks.InterProcessMutex {
	tb.Helper()
	m, err := locks.NewInterProcessMutex(client, path, opts...)
	require.NoError(tb, err)
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

// queue is what every lock can tell.
type queue interface {
	Participants(ctx context.Context) ([]locks.Participant, error)
}

// awaitQueue waits until the lock has n contenders, and returns them.
func awaitQueue(tb testing.TB, lock queue, n int) []locks.Participant {
	tb.Helper()
	ctx := zktest.Context(tb)
	for {
		contenders, err := lock.Participants(ctx)
		require.NoError(tb, err)
		if len(contenders) == n {
			return contenders
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			tb.Fatalf("the queue has %d contenders, want %d", len(contenders), n)
		}
	}
}
