// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// twoServers are two servers by a list, and by one name that has two addresses.
func twoServers(t *testing.T, test func(t *testing.T, n *network, servers func(*conduit.Config))) {
	t.Helper()
	for by, servers := range map[string]func(n *network) func(*conduit.Config){
		"a list": func(*network) func(*conduit.Config) {
			return func(c *conduit.Config) { c.Servers = []string{"a:1", "b:1"} }
		},
		"one name": func(n *network) func(*conduit.Config) { return byAddress(n, "10.0.0.1", "10.0.0.2") },
	} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				test(t, n, servers(n))
			})
		})
	}
}

// refusing is how servers refuse a client that authenticates by SASL.
var refusing = map[string]func(p *peer){
	"no SASL":     func(p *peer) { p.challenge("", nil) },
	"-115":        func(p *peer) { p.reply((<-p.frames).xid, 0, -115, tokenBody(nil)) },
	"-124":        func(p *peer) { p.reply((<-p.frames).xid, 0, -124, tokenBody(nil)) },
	"no token":    func(p *peer) { p.challenge("", []byte("1?")); p.challenge("1!", nil) },
	"unworthy":    func(p *peer) { p.challenge("", []byte("x?")) },
	"unsupported": func(p *peer) { p.reply((<-p.frames).xid, -1, -6, nil) },
}

// meet accepts the session of the next connection.
func (n *network) meet() *peer {
	p := <-n.peers
	p.accept(0x51, sessionTimeout)
	return p
}

// TestRefusalsOfAClientThatWasServed: it goes on within its session, and is back when a server takes it. Servers that refuse it for as long
// as a session lasts end it.
func TestRefusalsOfAClientThatWasServed(t *testing.T) {
	for how, refuse := range refusing {
		t.Run(how, func(t *testing.T) {
			twoServers(t, func(t *testing.T, n *network, servers func(*conduit.Config)) {
				c, told := open(t, n, withSASL, servers)
				p := n.meet()
				p.acceptPingPong()
				require.Contains(t, <-told.told, "connected")
				for range 3 {
					time.Sleep(time.Minute) // an earlier refusal does not count
					require.NoError(t, p.Close())
					require.Equal(t, "disconnected", <-told.told)
					for range 4 {
						refuse(n.meet())
						require.Equal(t, "refused", <-told.told)
					}
					p = n.meet()
					p.acceptPingPong()
					require.Equal(t, "connected 51 fresh=false", <-told.told)
				}

				require.NoError(t, p.Close())
				require.Equal(t, "disconnected", <-told.told)
				began := time.Now()
				for end := ""; end != "auth failed"; end = <-told.told {
					refuse(n.meet())
				}
				require.GreaterOrEqual(t, time.Since(began), sessionTimeout)
				require.Less(t, time.Since(began), sessionTimeout+2*time.Second, "the last attempt is made when the session is over")
				require.NotContains(t, c.LastFailure().Error(), "under way", "it says why")
				time.Sleep(time.Hour)
				require.Empty(t, n.peers)
			})
		})
	}
}

// TestRefusalsOfKeptCredentials do not count while the mechanism may have others, which are used at once. A mechanism that offers the
// same again is not excused forever.
func TestRefusalsOfKeptCredentials(t *testing.T) {
	keeping := func(dropped *atomic.Int32, once bool) func(*conduit.Config) {
		return func(c *conduit.Config) {
			c.SASL = &conduit.SASL{Start: func(ctx context.Context, server string, address net.Addr) (conduit.SASLStep, func(), error) {
				step, _, err := pingPong(ctx, server, address)
				if once && dropped.Load() > 0 {
					return step, nil, err
				}
				return step, func() { dropped.Add(1) }, err
			}}
		}
	}
	for how, refuse := range refusing {
		if how == "no SASL" || how == "unsupported" {
			continue // other credentials do not help
		}
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				var dropped atomic.Int32
				_, told := open(t, n, keeping(&dropped, true))
				refuse(n.meet())
				p := n.meet()
				require.EqualValues(t, 1, dropped.Load())
				began := time.Now()
				p.acceptPingPong()
				require.Equal(t, "connected 51 fresh=true", <-told.told, "and no refusal")
				require.Less(t, time.Since(began), time.Second)
			})
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				var dropped atomic.Int32
				_, told := open(t, n, keeping(&dropped, true))
				refuse(n.meet())
				refuse(n.meet())
				require.Equal(t, "auth failed", <-told.told, "of others that are refused as well")
			})
			twoServers(t, func(t *testing.T, n *network, servers func(*conduit.Config)) {
				var dropped atomic.Int32
				_, told := open(t, n, keeping(&dropped, false), servers)
				for range 2 {
					refuse(n.meet())
				}
				for _, want := range []string{"refused", "auth failed"} {
					refuse(n.meet())
					require.Equal(t, want, <-told.told)
				}
				synctest.Wait()
				require.EqualValues(t, 4, dropped.Load(), "it is told of each")
			})
		})
	}
}

// TestRefusalsOfCertificates: all servers are unfit once each has a certificate that cannot be verified.
func TestRefusalsOfCertificates(t *testing.T) {
	twoServers(t, func(t *testing.T, n *network, servers func(*conduit.Config)) {
		failures := make(chan conduit.Failure, 100)
		var dials int
		open(t, n, servers, func(c *conduit.Config) {
			c.Failed = func(f conduit.Failure) { failures <- f }
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials == 3 {
					return nil, errors.New("connection refused") // it may be started with another certificate
				}
				return nil, &tls.CertificateVerificationError{Err: errors.New("unknown authority")}
			}
		})
		for i, unfit := range []bool{false, true, false} {
			f := <-failures
			require.Equal(t, unfit, f.Unfit, i)
			require.Equal(t, 2, f.Servers)
		}
	})
}
