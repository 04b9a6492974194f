// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestKeeperIsSentNothingThatItLacks: it would hang up, and end the session. Parents are persistent, and other requests fail.
func TestKeeperIsSentNothingThatItLacks(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithKeeper())
	f := zktest.Client(t, server)
	session := f.Session()
	var stat *framework.Stat
	made := new(framework.Stat)
	must.Get(f.Create(t.Context(), "/a/b/c", []byte("data"), framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.StoringStatIn(made)))(t)
	require.EqualValues(t, 4, made.DataLength, "the server has said 0")
	require.NoError(t, f.CreateContainers(t.Context(), "/d/e"))
	require.NoError(t, f.Pipeline(t.Context(), framework.ReadStat("/d/e", &stat)))
	require.Zero(t, stat.EphemeralOwner)
	container, ttl := framework.WithMode(framework.Container), framework.WithMode(framework.PersistentWithTTL)
	for name, call := range map[string]func(context.Context) error{
		"create container": func(ctx context.Context) error { _, err := f.Create(ctx, "/x", nil, container); return err },
		"create ttl": func(ctx context.Context) error {
			_, err := f.Create(ctx, "/x", nil, ttl, framework.WithTTL(time.Hour))
			return err
		},
		"transact container": func(ctx context.Context) error {
			_, err := f.Transact(ctx, framework.CreateOp("/x", nil, container))
			return err
		},
		"transact ttl": func(ctx context.Context) error {
			_, err := f.Transact(ctx, framework.CreateOp("/x", nil, ttl, framework.WithTTL(time.Hour)))
			return err
		},
		"ephemerals": func(ctx context.Context) error { _, err := f.Ephemerals(ctx, "/"); return err },
		"identities": func(ctx context.Context) error { _, err := f.WhoAmI(ctx); return err },
	} {
		err := call(t.Context())
		require.ErrorIs(t, err, framework.ErrUnsupported, name)
		require.ErrorContains(t, err, "is ClickHouse Keeper v26.2.1.1", name)
		require.False(t, framework.OutcomeUnknown(err), name)
	}
	require.Same(t, session, f.Session(), "the server has never hung up")
}

// TestKeeperThatDoesNotSayWhatItIs, or says it too late, loses no session: its numbers of sessions are those of no ZooKeeper.
func TestKeeperThatDoesNotSayWhatItIs(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithKeeper())
	f := zktest.Client(t, server, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &answeringConn{Conn: conn}, err
	}))
	session := f.Session()
	require.NoError(t, f.CreateContainers(t.Context(), "/d/e"))
	for name, call := range map[string]func(context.Context) error{
		"container": func(ctx context.Context) error {
			_, err := f.Create(ctx, "/x", nil, framework.WithMode(framework.Container))
			return err
		},
		"ttl": func(ctx context.Context) error {
			_, err := f.Create(ctx, "/x", nil, framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(time.Hour))
			return err
		},
		"ephemerals": func(ctx context.Context) error { _, err := f.Ephemerals(ctx, "/"); return err },
	} {
		err := call(t.Context())
		require.ErrorIs(t, err, framework.ErrUnsupported, name)
		require.ErrorContains(t, err, "does not say what it is", name)
	}
	require.Same(t, session, f.Session(), "the server has never hung up")
}

// TestKeeperLetsNoOtherEndASession: EndSession says so, and its own session does not stay.
func TestKeeperLetsNoOtherEndASession(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithKeeper())
	session := zktest.Client(t, server).Session()
	err := framework.EndSession(zktest.Context(t), server.Addr(), session.ID(), session.Password())
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.NoError(t, session.Err())
	require.Equal(t, 1, server.Stats().Sessions)
}

// TestKeeperWithoutCreate2: one hang-up, and then an error that says what it takes.
func TestKeeperWithoutCreate2(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		defer n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreate2 {
				return zkserver.LoseRequest
			}
			return zkserver.Pass
		})()
		f := n.client(t, answering(n, "ClickHouse Keeper version: v25.8.1.5101-lts"), framework.WithRetryPolicy(retry.Forever(time.Second)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := f.Create(ctx, "/a", nil, framework.Idempotent())
		require.ErrorIs(t, err, framework.ErrUnsupported)
		require.ErrorContains(t, err, "ClickHouse Keeper 25.12 or later")
		require.ErrorContains(t, err, "is ClickHouse Keeper v25.8.1")
	})
}

// TestRequireZooKeeper: a server that says nothing counts as ZooKeeper by the numbers of its sessions.
func TestRequireZooKeeper(t *testing.T) {
	for said, other := range map[string]string{
		"Zookeeper version: 3.9.3, built on":                "",
		"srvr is not executed":                              "",
		"ClickHouse Keeper version: v26.8.1.1-lts":          "ClickHouse Keeper v26.8.1.1-lts",
		"Other version: 1\nZookeeper version: 3.9.3, built": "Other 1",
	} {
		inMemory(t, func(t *testing.T, n *memnet) {
			err := n.client(t, answering(n, said)).RequireZooKeeper(t.Context())
			if other == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, framework.ErrUnsupported)
			require.ErrorContains(t, err, "it takes ZooKeeper, a:1 is "+other)
		})
	}
}

// answering has the server answer srvr with a text.
func answering(n *memnet, text string) framework.Option {
	return framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := n.server.Dial(ctx, network, address)
		return &answeringConn{Conn: conn, text: text}, err
	})
}

type answeringConn struct {
	net.Conn
	text   string
	answer *strings.Reader // nil for a connection that does not ask
}

func (c *answeringConn) Write(b []byte) (int, error) {
	if string(b) == "srvr" { // without a text it is not answered, and hung up
		c.answer = strings.NewReader(c.text)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *answeringConn) Read(b []byte) (int, error) {
	if c.answer != nil {
		return c.answer.Read(b)
	}
	return c.Conn.Read(b)
}
