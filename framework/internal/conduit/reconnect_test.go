// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

var errReset = errors.New("reset by the test")

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
