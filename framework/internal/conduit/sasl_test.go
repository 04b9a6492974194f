// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

const opSASL = 102

// pingPong is a mechanism that answers "1?" by "1!", "2?" by "2!" and needs no more.
func pingPong(context.Context, string, net.Addr) (conduit.SASLStep, func(), error) {
	expected := []string{"", "1?", "2?"}
	return func(_ context.Context, challenge []byte) ([]byte, bool, error) {
		if string(challenge) != expected[0] {
			return nil, false, conduit.Refuse(errors.New("another challenge"))
		}
		if expected = expected[1:]; len(expected) == 2 {
			return []byte{}, false, nil
		}
		return []byte(string(challenge[0]) + "!"), len(expected) == 0, nil
	}, nil, nil
}

func withSASL(c *conduit.Config) {
	c.SASL = &conduit.SASL{Mechanism: "PING-PONG", Start: pingPong}
}

// tokenBody is the record of a token; nil is null.
func tokenBody(token []byte) []byte {
	n := int32(len(token))
	if token == nil {
		n = -1
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), token...)
}

// challenge answers the next request of the exchange and checks the token in it.
func (p *peer) challenge(answer string, challenge []byte) {
	p.t.Helper()
	f := <-p.frames
	require.EqualValues(p.t, opSASL, f.op)
	require.Equal(p.t, tokenBody([]byte(answer)), f.body)
	p.reply(f.xid, 0, 0, tokenBody(challenge))
}

func (p *peer) acceptPingPong() {
	p.challenge("", []byte("1?"))
	p.challenge("1!", []byte("2?"))
	p.challenge("2!", nil)
}

// TestSASLExchangeComesFirst: on each connection, before the credentials and all calls.
func TestSASLExchangeComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withAuth, withSASL)
		for session := range int64(3) {
			p := <-n.peers
			p.accept(0x50+session, sessionTimeout)
			synctest.Wait()
			require.Empty(t, told.told, "not connected yet")
			early := &conduit.Call{Op: 3}
			require.ErrorIs(t, c.Send(early), conduit.ErrNotSent)
			p.acceptPingPong()
			require.Contains(t, <-told.told, "connected")
			done := start(t.Context(), c, &conduit.Call{Op: 3})
			require.EqualValues(t, opAuth, (<-p.frames).op)
			require.EqualValues(t, opAuth, (<-p.frames).op)
			call := <-p.frames
			require.EqualValues(t, 3, call.op)
			p.reply(xidAuth, 0, 0, nil)
			p.reply(xidAuth, 0, 0, nil)
			p.reply(call.xid, 1, 0, nil)
			require.NoError(t, (<-done).err)
			require.NoError(t, p.Close())
			require.Equal(t, "disconnected", <-told.told)
		}
	})
}

// TestSASLExchangeProvesNothing: servers answer it without a look at the session.
func TestSASLExchangeProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withSASL)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		synctest.Wait()
		before, _ := c.Deadline()
		time.Sleep(time.Second)
		p.acceptPingPong()
		require.Contains(t, <-told.told, "connected")
		after, over := c.Deadline()
		require.False(t, over)
		require.Equal(t, before, after)
	})
}

// TestSASLServerThatTakesNoPingBeforeTheExchange: the first ping costs the connection, and no later one does.
func TestSASLServerThatTakesNoPingBeforeTheExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withSASL)
		p := <-n.peers
		p.silent.Store(true)
		p.accept(0x51, sessionTimeout)
		require.EqualValues(t, opSASL, (<-p.frames).op)
		ping := <-p.frames
		p.reply(ping.xid, 0, -124, nil)
		<-p.ended
		synctest.Wait()
		require.ErrorContains(t, c.LastFailure(), "takes no ping")

		p = <-n.peers
		p.silent.Store(true)
		p.accept(0x51, sessionTimeout)
		time.Sleep(sessionTimeout / 2) // longer than go-zookeeper waits before a ping
		p.acceptPingPong()
		require.Contains(t, <-told.told, "connected")
		ping = <-p.frames
		require.EqualValues(t, opPing, ping.op, "which was held back")
		p.reply(ping.xid, 0, 0, nil)
		synctest.Wait()
		deadline, over := c.Deadline()
		require.False(t, over)
		require.Greater(t, time.Until(deadline), sessionTimeout*9/10)
	})
}

// TestSASLMessagesOfAnExchange: each of them lost, cut short, repeated, too long or malformed. The connection is cut,
// no refusal is reported, and another is made.
func TestSASLMessagesOfAnExchange(t *testing.T) {
	frameOf := func(xid int32, body []byte) []byte { return reply(xid, 0, 0, body) }
	faults := map[string]func(p *peer, f frame, challenge []byte){
		"lost": func(*peer, frame, []byte) {},
		"cut short": func(p *peer, f frame, challenge []byte) {
			whole := frameOf(f.xid, tokenBody(challenge))
			p.send(whole[:len(whole)-1])
			_ = p.Close()
		},
		"repeated": func(p *peer, f frame, challenge []byte) {
			p.reply(f.xid, 0, 0, tokenBody(challenge))
			p.reply(f.xid, 0, 0, tokenBody(challenge))
		},
		"oversized": func(p *peer, f frame, _ []byte) {
			p.reply(f.xid, 0, 0, tokenBody(make([]byte, 65<<10)))
		},
		"longer than it says": func(p *peer, f frame, challenge []byte) {
			p.reply(f.xid, 0, 0, append(tokenBody(challenge), 0))
		},
		"shorter than it says": func(p *peer, f frame, _ []byte) {
			p.reply(f.xid, 0, 0, []byte{0, 0, 0, 9, 1})
		},
		"without a token":     func(p *peer, f frame, _ []byte) { p.reply(f.xid, 0, 0, nil) },
		"for another request": func(p *peer, f frame, challenge []byte) { p.reply(f.xid-1, 0, 0, tokenBody(challenge)) },
		"another error":       func(p *peer, f frame, _ []byte) { p.reply(f.xid, 0, -127, nil) },
	}
	challenges := [][]byte{[]byte("1?"), []byte("2?"), nil}
	for name, fault := range faults {
		for i := range challenges {
			if name == "repeated" && i == len(challenges)-1 {
				continue // it comes when all is done, as a reply to nothing
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork(t)
					c, told := open(t, n, withSASL, func(c *conduit.Config) { c.MaxReply = 1 << 20 })
					p := <-n.peers
					p.accept(0x51, sessionTimeout)
					for _, before := range challenges[:i] {
						f := <-p.frames
						p.reply(f.xid, 0, 0, tokenBody(before))
					}
					fault(p, <-p.frames, challenges[i])
					<-p.ended
					synctest.Wait()
					require.Empty(t, told.told)
					require.ErrorContains(t, c.LastFailure(), "authentication at a:1")
					next := <-n.peers
					next.accept(0x51, sessionTimeout)
					next.acceptPingPong()
					require.Contains(t, <-told.told, "connected")
				})
			})
		}
	}
}

// TestSASLClientWithoutSASLWhereItIsDemanded: the call says so, and the client ends if it is so at all servers.
func TestSASLClientWithoutSASLWhereItIsDemanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		done := start(t.Context(), c, &conduit.Call{Op: 3})
		p.reply((<-p.frames).xid, 0, -124, nil)
		outcome := <-done
		require.NoError(t, outcome.err, "it was answered")
		require.EqualValues(t, -124, outcome.reply.Code)
		require.Equal(t, "auth failed", <-told.told)
		require.Equal(t, "disconnected", <-told.told)
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, func(c *conduit.Config) { c.Servers = []string{"a:1", "b:1"} })
		refused := make(map[string]bool)
		for {
			p := <-n.peers
			p.accept(0x51, sessionTimeout)
			require.Contains(t, <-told.told, "connected")
			done := start(t.Context(), c, &conduit.Call{Op: 3})
			p.reply((<-p.frames).xid, 0, -124, nil)
			<-done
			if refused[p.address] = true; len(refused) == 2 {
				require.Equal(t, "auth failed", <-told.told)
				return
			}
			require.Equal(t, "refused", <-told.told)
			require.Equal(t, "disconnected", <-told.told)
		}
	})
}

// TestSASLMechanismThatBlocks: it costs the connection its part of the session, and there is one exchange at a time.
func TestSASLMechanismThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		release := make(chan struct{})
		var started atomic.Int32
		_, told := open(t, n, func(c *conduit.Config) {
			c.SASL = &conduit.SASL{Start: func(ctx context.Context, server string, address net.Addr) (conduit.SASLStep, func(), error) {
				if started.Add(1) == 1 {
					<-release // whatever the context says
				}
				return pingPong(ctx, server, address)
			}}
		})
		for range 2 {
			p := <-n.peers
			p.accept(0x51, sessionTimeout)
			<-p.ended
			require.EqualValues(t, 1, started.Load())
		}
		close(release)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		p.acceptPingPong()
		require.Contains(t, <-told.told, "connected")
	})
}

// FuzzExchange: whatever a server sends instead of a challenge, there is a clear error or a connection, and
// nothing is left behind.
func FuzzExchange(f *testing.F) {
	f.Add([]byte("1?"), []byte("2?"))
	f.Add([]byte{}, []byte{0xff})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			c, told := open(t, n, withSASL)
			p := <-n.peers
			p.accept(0x51, sessionTimeout)
			for _, body := range [][]byte{first, second} {
				select {
				case f := <-p.frames:
					p.reply(f.xid, 0, 0, body)
				case <-p.ended:
				}
			}
			select {
			case f := <-p.frames:
				require.True(t, bytes.Equal(first, tokenBody([]byte("1?"))) && bytes.Equal(second, tokenBody([]byte("2?"))))
				p.reply(f.xid, 0, 0, tokenBody(nil))
				require.Contains(t, <-told.told, "connected")
			case <-p.ended:
				synctest.Wait()
				require.Error(t, c.LastFailure())
			}
		})
	})
}
