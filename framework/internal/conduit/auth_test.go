// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/secrets"
)

const (
	opAuth  = 100
	xidAuth = -4
)

func withAuth(c *conduit.Config) {
	c.Auth = []conduit.Auth{
		{Scheme: "digest", Credential: secrets.Hide("a:secret")},
		{Scheme: "other", Credential: secrets.Hide("b")},
	}
}

// authBody is the request record of a credential.
func authBody(scheme, credential string) string {
	return "\x00\x00\x00\x00" + string(rune(0)) + "\x00\x00" + string(rune(len(scheme))) + scheme +
		"\x00\x00\x00" + string(rune(len(credential))) + credential
}

// TestCredentialsComeFirst: on each connection, also that of a new session, and
// before a request that was made in the very moment of the handshake.
func TestCredentialsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withAuth)
		for session := range int64(3) {
			p := <-n.peers
			p.accept(0x50+session, sessionTimeout)
			require.Contains(t, <-told.told, "connected")
			done := start(t.Context(), c, &conduit.Call{Op: 3})
			first, second, third := <-p.frames, <-p.frames, <-p.frames
			for _, f := range []frame{first, second} {
				require.EqualValues(t, xidAuth, f.xid)
				require.EqualValues(t, opAuth, f.op)
			}
			require.Equal(t, authBody("digest", "a:secret"), string(first.body))
			require.Equal(t, authBody("other", "b"), string(second.body))
			require.EqualValues(t, 3, third.op)
			p.reply(xidAuth, 0, 0, nil)
			p.reply(xidAuth, 0, 0, nil)
			p.reply(third.xid, 1, 0, nil)
			require.NoError(t, (<-done).err)
			require.NoError(t, p.Close())
			require.Equal(t, "disconnected", <-told.told)
		}
	})
}

// TestAuthAnswersToCredentialsOutOfOrder: a server gives them while requests that it
// has received before are still under way.
func TestAuthAnswersToCredentialsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withAuth)
		p := <-n.peers
		p.silent.Store(true)
		p.accept(0x51, sessionTimeout)
		require.Contains(t, <-told.told, "connected")
		var ping frame
		for ping.op != opPing { // after the credentials
			ping = <-p.frames
		}
		p.reply(xidAuth, 0, 0, nil)
		p.reply(xidAuth, 0, 0, nil)
		p.reply(ping.xid, 0, 0, nil)
		done := start(t.Context(), c, &conduit.Call{Op: 3})
		p.reply((<-p.frames).xid, 1, 0, nil)
		require.NoError(t, (<-done).err)
	})
}

// TestAuthAnswersToCredentialsProveNothing: a server gives them without a look at the
// session.
func TestAuthAnswersToCredentialsProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withAuth)
		p := <-n.peers
		time.Sleep(time.Second) // the handshake was sent that much earlier than the credentials
		p.accept(0x51, sessionTimeout)
		require.Contains(t, <-told.told, "connected")
		before, _ := c.Deadline()
		<-p.frames
		p.reply(xidAuth, 0, 0, nil)
		synctest.Wait()
		after, over := c.Deadline()
		require.False(t, over)
		require.Equal(t, before, after)
	})
}

// TestAuthBadAnswersToCredentials: the connection is cut.
func TestAuthBadAnswersToCredentials(t *testing.T) {
	for name, answer := range map[string]func(p *peer, call frame){
		"missing":    func(p *peer, call frame) { p.reply(call.xid, 1, 0, nil) },
		"one of two": func(p *peer, call frame) { p.reply(xidAuth, 0, 0, nil); p.reply(call.xid, 1, 0, nil) },
		"one more": func(p *peer, _ frame) {
			for range 3 {
				p.reply(xidAuth, 0, 0, nil)
			}
		},
		"another error": func(p *peer, _ frame) { p.reply(xidAuth, 0, -127, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, told := open(t, n, withAuth)
				p := <-n.peers
				p.accept(0x51, sessionTimeout)
				require.Contains(t, <-told.told, "connected")
				done := start(t.Context(), c, &conduit.Call{Op: 3})
				<-p.frames
				<-p.frames
				answer(p, <-p.frames)
				require.ErrorIs(t, (<-done).err, conduit.ErrUnanswered)
				require.Equal(t, "disconnected", <-told.told)
				<-n.peers // and another is made
			})
		})
	}
}

// TestAuthRefusedCredentialIsTheEnd: no other connection is made, and Close finds
// nothing to wait for.
func TestAuthRefusedCredentialIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, withAuth)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Contains(t, <-told.told, "connected")
		done := start(t.Context(), c, &conduit.Call{Op: 3})
		for range 3 { // two credentials and the call
			<-p.frames
		}
		p.reply(xidAuth, 0, -115, nil)
		require.ErrorIs(t, (<-done).err, conduit.ErrAuthFailed)
		require.Equal(t, "auth failed", <-told.told)
		require.Equal(t, "disconnected", <-told.told)
		<-p.ended
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, n.dials.Load())
		began := time.Now()
		require.EqualError(t, c.Close(), unconfirmed)
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
	})
}
