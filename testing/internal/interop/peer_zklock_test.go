// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// zkFolder is the folder of the lock.
const zkFolder = "/lock"

// zkPeer is a client of go-zookeeper, and what it has been told of its session.
type zkPeer struct {
	*zk.Conn
	mu    sync.Mutex
	heard []zk.State
}

// newZKPeer returns a client that is connected, and closed when the test ends. It
// knows three servers, as usual, which are all the same one: with a single one
// go-zookeeper fails the calls that wait while it reconnects.
func newZKPeer(t *testing.T, server *zkserver.Server) *zkPeer {
	t.Helper()
	p := new(zkPeer)
	connected := make(chan struct{})
	var once sync.Once
	conn, events, err := zk.Connect([]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, 10*time.Second,
		zk.WithLogger(silentZK{}),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			return server.Dial(context.Background(), network, addr)
		}),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type != zk.EventSession {
				return
			}
			p.mu.Lock()
			p.heard = append(p.heard, e.State)
			p.mu.Unlock()
			if e.State == zk.StateHasSession {
				once.Do(func() { close(connected) })
			}
		}))
	require.NoError(t, err)
	p.Conn = conn
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are done
		}
	})
	zktest.Await(t, connected, "the session of go-zookeeper")
	p.forget()
	return p
}

// forget begins anew to note what is heard.
func (p *zkPeer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = nil
}

// states is what has been heard, of whatever kind.
func (p *zkPeer) states() []zk.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

func (p *zkPeer) newLock() *zk.Lock { return zk.NewLock(p.Conn, zkFolder, zk.WorldACL(zk.PermAll)) }

// holding returns a lock that is held.
func (p *zkPeer) holding(t *testing.T) *zk.Lock {
	t.Helper()
	l := p.newLock()
	require.NoError(t, l.Lock())
	return l
}

// children are the names in the folder, in no order.
func (p *zkPeer) children(t *testing.T) []string {
	t.Helper()
	names, _, err := p.Children(zkFolder)
	require.NoError(t, err)
	return names
}

// silentZK keeps go-zookeeper from writing to the standard logger.
type silentZK struct{}

func (silentZK) Printf(string, ...any) {}

// zkTrials runs a test twenty times with a server of its own, in a bubble of
// testing/synctest, where waiting takes no time.
func zkTrials(t *testing.T, test func(t *testing.T, server *zkserver.Server, trial int)) {
	t.Helper()
	for trial := range peerTrials {
		synctest.Test(t, func(t *testing.T) {
			test(t, zktest.NewServer(t, zkserver.WithoutListener()), trial)
		})
		if t.Failed() {
			return
		}
	}
}

// lockLater returns where the result of Lock will be.
func lockLater(l *zk.Lock) <-chan error {
	result := make(chan error, 1)
	go func() { result <- l.Lock() }()
	return result
}

// awaitWatch waits until a session has the data of its predecessor, and watches it.
// It returns the path.
func awaitWatch(t *testing.T, server *zkserver.Server, session int64) string {
	t.Helper()
	path := zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Err == 0 && e.Request.Op == zkserver.OpGetData && e.SessionID == session
	}).Request.Path
	synctest.Wait() // the reply has arrived
	return path
}

// staysOut checks that who waits for the lock still waits after ten minutes of the
// fake clock.
func staysOut(t *testing.T, result <-chan error) {
	t.Helper()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	require.Empty(t, result)
}
