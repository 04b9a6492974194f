// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

func withReadOnly(cfg *conduit.Config) { cfg.ReadOnly = true }

// acceptReadOnly answers the connect request as a server without a quorum does.
func (p *peer) acceptReadOnly(session int64) frame {
	f := <-p.connect
	p.sendReadOnly(session)
	return f
}

func (p *peer) sendReadOnly(session int64) {
	response := append(handshake(int32(sessionTimeout.Milliseconds()), session), 1)
	binary.BigEndian.PutUint32(response, uint32(len(response)-4))
	p.send(response)
}

func session(f frame) uint64 { return binary.BigEndian.Uint64(f.raw[16:]) }

func TestReadOnlyConnectRequestSaysWhetherReadsAreEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withReadOnly)
		p := <-n.peers
		request := p.acceptReadOnly(0x61)
		require.Len(t, request.raw, 45)
		require.EqualValues(t, 1, request.raw[44])
		require.Equal(t, "connected 61 fresh=true", <-told.told)
		require.True(t, told.last.Load().ReadOnly)

		done := start(t.Context(), c, &conduit.Call{Op: 3})
		call := <-p.frames
		p.reply(call.xid, 0x1234, 0, nil)
		require.NoError(t, (<-done).err)
		c.Cut(errReset)
		require.Equal(t, "disconnected", <-told.told)
		p = <-n.peers
		request = p.accept(0x51, sessionTimeout)
		require.Zero(t, session(request), "nobody knows the session")
		require.Zero(t, binary.BigEndian.Uint64(request.raw[4:]), "nor, perhaps, what was read")
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		require.False(t, told.last.Load().ReadOnly)
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, told := open(t, n)
		p := <-n.peers
		require.Len(t, p.acceptReadOnly(0x61).raw, 44)
		<-p.ended
		require.Empty(t, told.told, "a read-only server that was not asked for")
	})
}

func TestReadOnlySessionOfTheQuorumIsNotTakenToAReadOnlyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withReadOnly)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		require.NoError(t, p.Close())
		require.Equal(t, "disconnected", <-told.told)
		deadline, _ := c.Deadline()
		for try := 0; ; try++ {
			p = <-n.peers
			asked := <-p.connect
			if session(asked) == 0 {
				p.sendReadOnly(0x61)
				break
			}
			p.sendReadOnly(0x51 * int64(try%2)) // that it is valid, or that it has expired
			select {
			case <-p.ended:
			case s := <-told.told:
				require.Fail(t, "the answer is believed", s)
			}
			later, _ := c.Deadline()
			require.Equal(t, deadline, later)
		}
		require.False(t, time.Now().Before(deadline), "a new session before the old one is certainly over")
		require.Equal(t, "connected 61 fresh=true", <-told.told)
	})
}

func TestReadOnlyServerThatTakesWritesIsPreferred(t *testing.T) {
	twoServers(t, func(t *testing.T, n *network, servers func(*conduit.Config)) {
		var asked atomic.Int64
		var takesWrites atomic.Value
		probing := atomic.Bool{}
		_, told := open(t, n, withReadOnly, servers, func(cfg *conduit.Config) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if !probing.Load() {
					return dial(ctx, network, address)
				}
				client, server := net.Pipe()
				answer := "ro"
				if asked.Add(1) > 20 {
					answer = "rw"
					takesWrites.Store(cmp.Or(conduit.Address(ctx), address))
					probing.Store(false)
				}
				go func() {
					defer server.Close()
					word := make([]byte, 4)
					// The client sees it when the word does not come.
					_, _ = io.ReadFull(server, word)
					if string(word) == "isro" {
						_, _ = io.WriteString(server, answer)
					}
				}()
				return client, nil
			}
		})
		p := <-n.peers
		p.acceptReadOnly(0x61)
		probing.Store(true)
		require.Equal(t, "connected 61 fresh=true", <-told.told)
		require.Equal(t, "disconnected", <-told.told)
		first := p.address
		p = <-n.peers
		require.Equal(t, takesWrites.Load(), p.address)
		require.NotEqual(t, first, p.address)
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
	})
}

func TestReadOnlyServerWithoutLocalSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withReadOnly)
		p := <-n.peers
		<-p.connect
		p.reply(0, 0, -119, nil)
		<-p.ended
		require.Empty(t, told.told)
		synctest.Wait()
		require.ErrorContains(t, c.LastFailure(), "localSessionsEnabled=true")
	})
}
