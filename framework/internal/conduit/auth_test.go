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
