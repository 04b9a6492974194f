// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

var errReset = errors.New("reset by the test")

// Curator: TestConnectionStateManager.testConnectionStateRecoversFromUnexpectedExpiredConnection.
func TestReconnectExpiredSessionIsFollowedByANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		done := start(t.Context(), c, &conduit.Call{Op: 3})
		request := <-p.frames
		p.reply(request.xid, 0x1234, 0, nil)
		<-done
		require.NoError(t, p.Close())
		require.Equal(t, "disconnected", <-told.told)

		p = <-n.peers
		p.accept(0, 0)
		require.Equal(t, "expired", <-told.told)
		<-p.ended // go-zookeeper does not close it, the conduit does

		p = <-n.peers
		request = p.accept(0x52, sessionTimeout)
		require.Zero(t, binary.BigEndian.Uint64(request.raw[16:]), "session")
		require.Zero(t, binary.BigEndian.Uint64(request.raw[4:]), "zxid: the servers may have been restored")
		require.Equal(t, "connected 52 fresh=true", <-told.told)

		c.Cut(errReset)
		p = <-n.peers
		request = p.accept(0x52, sessionTimeout)
		require.EqualValues(t, 0x52, binary.BigEndian.Uint64(request.raw[16:]), "session")
		require.Zero(t, binary.BigEndian.Uint64(request.raw[4:]), "zxid: none was seen in this session")
	})
}

func TestReconnectDeadlineMovesOnWithPingsAndCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		const lease = sessionTimeout * 99 / 100
		deadline, _ := c.Deadline()
		require.Equal(t, lease, time.Until(deadline))

		time.Sleep(sessionTimeout/3 - time.Second)
		p.reply(-1, -1, 0, []byte{0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'a'})
		require.Equal(t, "notified EventNodeDataChanged /a", <-told.told)
		later, _ := c.Deadline()
		require.Equal(t, deadline, later, "a notification proves nothing")

		time.Sleep(2 * time.Second) // across a ping
		later, _ = c.Deadline()
		require.Equal(t, sessionTimeout/3, later.Sub(deadline))

		done := start(t.Context(), c, &conduit.Call{Op: 3})
		sent := time.Now()
		request := <-p.frames
		time.Sleep(time.Second)
		p.reply(request.xid, 0, 0, nil)
		require.NoError(t, (<-done).err)
		later, _ = c.Deadline()
		require.Equal(t, lease, later.Sub(sent), "counted from the sending")

		done = start(t.Context(), c, &conduit.Call{Op: 3})
		request = <-p.frames
		p.reply(request.xid, 0, -112, nil)
		require.NoError(t, (<-done).err)
		after, _ := c.Deadline()
		require.Equal(t, later, after, "\"session expired\" proves nothing")
	})
}

// TestReconnectNoStormOfConnections: go-zookeeper by itself makes thousands of
// connections a second to servers that hang up after the handshake.
func TestReconnectNoStormOfConnections(t *testing.T) {
	for name, meet := range map[string]func(p *peer){
		"hangs up after the handshake": func(p *peer) { p.accept(0x51, sessionTimeout) },
		"hangs up before":              func(*peer) {},
		"always says expired":          func(p *peer) { p.accept(0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, _ := open(t, n, func(cfg *conduit.Config) { cfg.Servers = []string{"a:1", "b:1", "c:1"} })
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case p := <-n.peers:
							meet(p)
							hangUp(p)
						case <-stop:
							return
						}
					}
				}()
				time.Sleep(10 * time.Second)
				dials := n.dials.Load()
				require.LessOrEqual(t, dials, int64(40))
				require.GreaterOrEqual(t, dials, int64(10), "it goes on trying")
				require.NoError(t, ignoreUnconfirmed(c.Close()))
				close(stop)
			})
		})
	}
}

// hangUp hangs up once the client had time to read what was sent.
func hangUp(p *peer) {
	select {
	case <-time.After(time.Millisecond):
	case <-p.ended:
	}
	_ = p.Close()
}

// ignoreUnconfirmed is for servers that cannot confirm the end of a session.
func ignoreUnconfirmed(err error) error {
	if err != nil && err.Error() == unconfirmed {
		return nil
	}
	return err
}

const unconfirmed = "no server has confirmed the end of the session: the servers keep it until it times out"
