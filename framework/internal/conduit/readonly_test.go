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
