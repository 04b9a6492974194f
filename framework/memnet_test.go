// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// memnet connects clients to an embedded server in memory, so that a whole test
// can run on synctest's fake clock.
type memnet struct {
	server *zkserver.Server

	mu    sync.Mutex
	down  bool // dials fail
	hole  bool // whatever is sent is lost
	conns []net.Conn

	released chan struct{} // for tests that block something
}

// inMemory runs a test on a fake clock, with a server of its own. Nothing that it
// starts may be left running.
func inMemory(t *testing.T, test func(t *testing.T, n *memnet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := must.Get(zkserver.Start(zkserver.WithoutListener()))(t)
		n := &memnet{server: server}
		t.Cleanup(func() {
			require.NoError(t, server.Close())
			n.cut()
		})
		test(t, n)
	})
}

func (n *memnet) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.New("the network is down")
	}
	client, clientEnd := net.Pipe()
	server, serverEnd := net.Pipe()
	n.conns = append(n.conns, clientEnd, serverEnd)
	go n.relay(clientEnd, serverEnd)
	go n.relay(serverEnd, clientEnd)
	n.server.ServeConn(server)
	return client, nil
}

// relay passes on what comes from one side until that ends, and ends the other.
func (n *memnet) relay(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		k, err := from.Read(b)
		if n.isHole() {
			if err != nil {
				return
			}
			continue
		}
		if err == nil {
			_, err = to.Write(b[:k])
		}
		if err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
	}
}

func (n *memnet) isHole() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hole
}

// cut ends all connections.
func (n *memnet) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// setDown makes dials fail, and ends the connections that there are.
func (n *memnet) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.cut()
	}
}

// setHole makes the network silent, or heals it, which costs all connections.
func (n *memnet) setHole(hole bool) {
	n.mu.Lock()
	n.hole = hole
	n.mu.Unlock()
	if !hole {
		n.cut()
	}
}

// newClient makes a client that is not started, with its states recorded.
func (n *memnet) newClient(t *testing.T, opts ...framework.Option) (*framework.Framework, *stateLog) {
	t.Helper()
	opts = append([]framework.Option{
		framework.WithDialer(n.dial), framework.WithSessionTimeout(memSession),
	}, opts...)
	f := must.Get(framework.New("a:1", opts...))(t)
	states := recordStates(f)
	t.Cleanup(func() {
		// The network may be down by now.
		_ = f.Close()
	})
	return f, states
}

// memSession is the session timeout of clients in memory: long, since the clock
// is fake. It is within what a server grants that ticks every half second.
const memSession = 9 * time.Second

// client returns a client that is connected.
func (n *memnet) client(t *testing.T, opts ...framework.Option) *framework.Framework {
	t.Helper()
	f, states := n.newClient(t, opts...)
	require.NoError(t, f.Start())
	states.expect(t, framework.Connected)
	return f
}

// stateLog is what a listener has been told.
type stateLog struct {
	told chan framework.ConnectionState
}

func recordStates(f *framework.Framework) *stateLog {
	_ = f.State() // waits until the change that is being told now has been told to those before
	l := &stateLog{told: make(chan framework.ConnectionState, 1000)}
	f.OnConnectionState(func(s framework.ConnectionState) { l.told <- s })
	return l
}

// expect waits for the next states and compares them.
func (l *stateLog) expect(t *testing.T, want ...framework.ConnectionState) {
	t.Helper()
	for i, w := range want {
		select {
		case got := <-l.told:
			require.Equal(t, w.String(), got.String(), "state %d of %v", i, want)
		case <-time.After(patience):
			require.FailNow(t, "no state", "state %d of %v has not come within %v", i, want, patience)
		}
	}
}

// none checks that the listener has been told no more.
func (l *stateLog) none(t *testing.T) {
	t.Helper()
	select {
	case s := <-l.told:
		require.FailNow(t, "a state too many", "%v", s)
	default:
	}
}

// patience is how long tests wait for what must happen at some time.
const patience = 2 * time.Minute
