package framework_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// pausable makes several servers out of one, one of which may be paused: as of a
// process that is stopped, its kernel accepts connections and takes what is sent.
type pausable struct {
	n *memnet

	mu      sync.Mutex
	current string // the newest that was dialled
	paused  string
}

func (p *pausable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	p.current = address
	p.mu.Unlock()
	conn, err := p.n.dial(ctx, network, address)
	return pausableConn{conn, p, address}, err
}

// pauseCurrent pauses the server that was dialled last, and resumes the one before.
func (p *pausable) pauseCurrent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = p.current
}

func (p *pausable) isPaused(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return address == p.paused
}

type pausableConn struct {
	net.Conn
	servers *pausable
	address string
}

func (c pausableConn) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.servers.isPaused(c.address) {
			return n, err
		}
	}
}

func (c pausableConn) Write(b []byte) (int, error) {
	if c.servers.isPaused(c.address) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestAPausedServerCostsNoSession stops processes of an ensemble while the other two
// are healthy: first the one that the client is connected to, then the leader. Twenty
// pauses in a row, on a fake clock, are in TestBadServers.
func TestAPausedServerCostsNoSession(t *testing.T) {
	if testing.Short() {
		t.Log("pausing processes of ZooKeeper is left to the full run")
		return
	}
	e := zktest.NewEnsemble(t, 3, ensemble.WithSyncLimit(3))
	var current atomic.Pointer[string] // the server that was dialled last
	f := zktest.Client(t, e.ConnectString(), framework.WithSessionTimeout(8*time.Second),
		framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			current.Store(&address)
			return new(net.Dialer).DialContext(ctx, network, address)
		}))
	states := recordStates(f)
	session := f.Session()
	mustCreate(t, f, "/held", framework.WithMode(framework.Ephemeral))
	survive := func(server *ensemble.Server) {
		require.NoError(t, server.Pause())
		states.expect(t, framework.Suspended, framework.Reconnected)
		stat, err := f.Exists(inTime(t), "/held")
		require.NoError(t, err)
		require.NotNil(t, stat)
		require.NoError(t, f.Set(inTime(t), "/held", nil))
		require.NoError(t, server.Resume())
		require.Same(t, session, f.Session())
		require.NoError(t, session.Err())
	}
	own := slices.IndexFunc(e.Servers(), func(s *ensemble.Server) bool { return s.Addr() == *current.Load() })
	survive(e.Server(own))
	_, err := e.Followers(inTime(t)) // waits until all three are back
	require.NoError(t, err)
	leader, err := e.Leader(inTime(t))
	require.NoError(t, err)
	survive(leader)
}
