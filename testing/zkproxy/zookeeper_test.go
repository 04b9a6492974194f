// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
)

// TestZooKeeper has real clients meet a real server through a proxy.
func TestZooKeeper(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts Java processes")
	}
	e := must.Get(ensemble.Start(t.Context()))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for name, test := range map[string]func(t *testing.T, e *ensemble.Ensemble, p *zkproxy.Proxy){
		"lost reply to a create": lostCreateReply,
		"duplicated create":      duplicatedCreate,
		"session and blackhole":  sessionSurvivesBlackhole,
		"notifications are seen": notificationsAreSeen,
		"four-letter words":      fourLetterWords,
	} {
		t.Run(name, func(t *testing.T) { test(t, e, start(t, e.ConnectString())) })
	}
}

// session returns a go-zookeeper client and its session states in order, from which the first StateHasSession has been taken.
func session(t *testing.T, addr string) (*zk.Conn, <-chan zk.State) {
	t.Helper()
	states := make(chan zk.State, 1000)
	conn, _, err := zk.Connect([]string{addr}, 24*time.Second, zk.WithLogger(silent{}), zk.WithEventCallback(func(e zk.Event) {
		if e.Type == zk.EventSession {
			states <- e.State
		}
	}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	awaitState(t, states, zk.StateHasSession)
	return conn, states
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func awaitState(t *testing.T, states <-chan zk.State, want zk.State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case state := <-states:
			if state == want {
				return
			}
		case <-deadline:
			require.FailNow(t, "state not reached", "%v", want)
		}
	}
}

func lostCreateReply(t *testing.T, e *ensemble.Ensemble, p *zkproxy.Proxy) {
	direct, _ := session(t, e.ConnectString())
	acl := zk.WorldACL(zk.PermAll)
	for name, c := range map[string]struct {
		direction zkproxy.Direction
		verdict   zkproxy.Verdict
		applied   bool
	}{
		"/request-lost":    {zkproxy.ToServer, zkproxy.CutBefore, false},
		"/reply-lost":      {zkproxy.ToClient, zkproxy.CutBefore, true},
		"/applied-and-cut": {zkproxy.ToServer, zkproxy.CutAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, states := session(t, p.Addr())
			before := conn.SessionID()
			remove := p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
				if f.Op == zkproxy.OpCreate && f.Path == name && f.Direction == c.direction {
					return c.verdict
				}
				return zkproxy.Pass
			})
			defer remove()
			_, err := conn.Create(name, nil, 0, acl)
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			exists, _, err := direct.Exists(name)
			require.NoError(t, err)
			require.Equal(t, c.applied, exists, "log: %v", p.Log())
			awaitState(t, states, zk.StateHasSession)
			require.Equal(t, before, conn.SessionID())
		})
	}
}

func duplicatedCreate(t *testing.T, _ *ensemble.Ensemble, p *zkproxy.Proxy) {
	conn, _ := session(t, p.Addr())
	p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Op == zkproxy.OpCreate && f.Direction == zkproxy.ToServer {
			return zkproxy.Duplicate
		}
		return zkproxy.Pass
	})
	must.Get(conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)))(t)
	const nodeExists = -110
	second := awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Frame.Kind == zkproxy.Reply && e.Frame.Err != 0 })
	require.Equal(t, int32(nodeExists), second.Frame.Err)
	require.Equal(t, "/a", second.Frame.Path)
}

func sessionSurvivesBlackhole(t *testing.T, _ *ensemble.Ensemble, p *zkproxy.Proxy) {
	conn, states := session(t, p.Addr())
	before := conn.SessionID()
	p.Blackhole(zkproxy.Both)
	awaitState(t, states, zk.StateDisconnected)
	p.Heal()
	awaitState(t, states, zk.StateHasSession)
	require.Equal(t, before, conn.SessionID())
}

func notificationsAreSeen(t *testing.T, _ *ensemble.Ensemble, p *zkproxy.Proxy) {
	conn, _ := session(t, p.Addr())
	_, _, events, err := conn.ExistsW("/noted")
	require.NoError(t, err)
	must.Get(conn.Create("/noted", nil, 0, zk.WorldACL(zk.PermAll)))(t)
	require.Equal(t, zk.EventNodeCreated, (<-events).Type)
	e := awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Frame.Kind == zkproxy.Notification })
	require.Equal(t, "/noted", e.Frame.Path)
}

func fourLetterWords(t *testing.T, _ *ensemble.Ensemble, p *zkproxy.Proxy) {
	c := dial(t, p.Addr())
	must.Get(c.conn.Write([]byte("ruok")))(t)
	answer := make([]byte, 5)
	require.Equal(t, "imok", string(answer[:must.Get(c.conn.Read(answer))(t)]))
}
