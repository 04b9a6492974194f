// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	curatorFolder = "/lock"                // of the mutex
	shortSession  = 2 * time.Second        // for tests that wait for its end
	curatorTick   = 250 * time.Millisecond // of the server
	longSession   = 20 * curatorTick       // the longest that there is
	curatorTrials = 5                      // of a scenario that costs seconds, all at once
)

// curatorPeer is an actor with a mutex "m".
type curatorPeer struct {
	actor
	session int64
}

func newCuratorPeer(t *testing.T, server *zkserver.Server, timeout time.Duration) curatorPeer {
	t.Helper()
	a := actor{startJava(t).Actor("peer" + strconv.FormatInt(actors.Add(1), 10))}
	connected := a.do(t, "connect", server.Addr(), strconv.FormatInt(timeout.Milliseconds(), 10))
	t.Cleanup(func() { a.close(t) })
	session, err := strconv.ParseInt(connected[0], 10, 64)
	require.NoError(t, err)
	a.do(t, "mutex", "m", curatorFolder)
	return curatorPeer{a, session}
}

// heard returns where the time will be at which the client has been in the state, or
// somewhat later.
func (p curatorPeer) heard(t *testing.T, state framework.ConnectionState) <-chan time.Time {
	t.Helper()
	answer, at := p.Begin("await-state", state.String()), make(chan time.Time, 1)
	go func() {
		defer close(at)
		if _, err := answer(zktest.Context(t)); err != nil {
			t.Errorf("await %v: %v", state, err)
			return
		}
		at <- time.Now()
	}()
	return at
}

// try has the actor wait for the lock no longer than a second and a half.
func (p curatorPeer) try(t *testing.T) (node string, acquired bool) {
	t.Helper()
	hold := p.do(t, "acquire", "m", "1500")
	if len(hold) == 0 {
		return "", false
	}
	return hold[0], true
}

// throws has the actor obey a command, which ends with an exception.
func (p curatorPeer) throws(t *testing.T, class, command string, args ...string) {
	t.Helper()
	_, err := p.Do(zktest.Context(t), command, args...)
	var thrown *interop.JavaError
	require.ErrorAs(t, err, &thrown)
	require.Equal(t, class, thrown.Class)
}

const (
	// notHeld is what Curator throws at who releases what it does not hold.
	notHeld = "java.lang.IllegalMonitorStateException"

	connectionLoss = "org.apache.zookeeper.KeeperException$ConnectionLossException"
)

// atOnce runs the test for all cases at a time, each with a server of its own, on
// which there is the folder of the lock.
func atOnce[C any](t *testing.T, cases map[string]C, test func(t *testing.T, server *zkserver.Server, c C)) {
	t.Helper()
	needsJava(t)
	startJava(t)
	var wg sync.WaitGroup
	for name, c := range cases {
		wg.Go(func() {
			t.Run(name, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithTick(curatorTick))
				_, err := zktest.Client(t, server).Create(zktest.Context(t), curatorFolder, nil)
				require.NoError(t, err)
				test(t, server, c)
			})
		})
	}
	wg.Wait()
}

// eachTrial runs the trials all at once.
func eachTrial(t *testing.T, test func(t *testing.T, server *zkserver.Server)) {
	t.Helper()
	trials := make(map[string]struct{})
	for i := range curatorTrials {
		trials["trial "+strconv.Itoa(i)] = struct{}{}
	}
	atOnce(t, trials, func(t *testing.T, server *zkserver.Server, _ struct{}) { test(t, server) })
}

// rivalOf returns a lock of ours at the same path, with a client of its own.
func rivalOf(t *testing.T, server *zkserver.Server) *locks.InterProcessMutex {
	t.Helper()
	return newMutex(t, zktest.Client(t, server), curatorFolder)
}

// entry is how an acquisition has ended, and when.
type entry struct {
	lease *locks.Lease
	at    time.Time
}

// enterLater returns where the rival's entry will be, once it waits.
func enterLater(t *testing.T, rival *locks.InterProcessMutex) <-chan entry {
	t.Helper()
	entered := make(chan entry, 1)
	go func() {
		lease, err := rival.Acquire(zktest.Context(t))
		at := time.Now()
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		entered <- entry{lease, at}
	}()
	awaitQueue(t, rival, 2)
	return entered
}

// awaitEphemerals waits until there are no more than n ephemeral nodes.
func awaitEphemerals(t *testing.T, server *zkserver.Server, n int) {
	t.Helper()
	const many = 1 << 20
	zktest.Embedded(server).AwaitCounts(t, zktest.Counts{Ephemerals: n, Watches: many, Sessions: many}, limit)
}

// aliveAt checks that the node is there and its session, too.
func aliveAt(t *testing.T, server *zkserver.Server, node string) {
	t.Helper()
	stat, err := zktest.Client(t, server).Exists(zktest.Context(t), node)
	require.NoError(t, err)
	for _, session := range server.Sessions() {
		if session.ID == stat.EphemeralOwner {
			return
		}
	}
	t.Errorf("%s belongs to 0x%x, which is no session", node, stat.EphemeralOwner)
}

// isCreate tells whether a request creates a node of the lock.
func isCreate(r zkserver.Request) bool {
	return (r.Op == zkserver.OpCreate || r.Op == zkserver.OpCreate2) && isLockNode(r)
}

// Without a connection a release fails and leaves the node, which Curator deletes when
// it can. The mutex is free for its thread all the same: a second release is one too
// many.
func TestPeerCuratorRelease(t *testing.T) {
	t.Parallel()
	eachTrial(t, func(t *testing.T, server *zkserver.Server) {
		peer, other := newCuratorPeer(t, server, longSession), newCuratorPeer(t, server, longSession)
		peer.acquire(t, "m")
		other.throws(t, notHeld, "release", "m")
		peer.do(t, "release", "m")
		peer.throws(t, notHeld, "release", "m")

		peer.acquire(t, "m")
		peer.do(t, "retries", "1") // for the end to come sooner
		whole := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpDelete {
				return zkserver.LoseRequest
			}
			return zkserver.Pass
		})
		peer.throws(t, connectionLoss, "release", "m")
		peer.throws(t, notHeld, "release", "m")
		require.Equal(t, 1, server.Stats().Ephemerals)
		whole()
		awaitEphemerals(t, server, 0)
	})
}

// A node in the folder whose name sorts before the digits, whatever it is, is waited
// for; others are not in the way.
func TestPeerCuratorForeignChild(t *testing.T) {
	t.Parallel()
	cases := make(map[string]string)
	for _, name := range foreignNames {
		cases[name] = name
	}
	atOnce(t, cases, func(t *testing.T, server *zkserver.Server, name string) {
		_, err := zktest.Client(t, server).Create(zktest.Context(t), curatorFolder+"/"+name, nil)
		require.NoError(t, err)
		peer := newCuratorPeer(t, server, longSession)
		_, acquired := peer.try(t)
		require.Equal(t, name == "README" || name == "lock-x", acquired)
		if !acquired {
			awaitEphemerals(t, server, 0)
			_, err = rivalOf(t, server).TryAcquire(zktest.Context(t))
			require.NoError(t, err, "ours does not mind")
		}
	})
}

// notAcquired tells whether the lock was not free, and fails the test for any other
// failure.
func notAcquired(t *testing.T, rival *locks.InterProcessMutex) bool {
	t.Helper()
	_, err := rival.TryAcquire(zktest.Context(t))
	if !errors.Is(err, locks.ErrNotAcquired) {
		require.NoError(t, err)
	}
	return err != nil
}
