// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// TestCutOff is what makes a lease that counts on acknowledged pings dangerous.
func TestCutOff(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, holder, rival *rawClient) {
		holder.must(t, 1, createBody("/lock", "mine", 1))
		rival.must(t, 4, body{}.str("/lock").flag(true))
		began := time.Now()
		rejoin := srv.CutOff(holder.session)
		for time.Since(began) < 10*time.Second {
			holder.must(t, 11, body{})
			rival.must(t, 11, body{})
			time.Sleep(time.Second)
		}
		require.Equal(t, rawEvent{2, "/lock"}, waitForEvent(t, rival))
		require.LessOrEqual(t, time.Since(began), 10*time.Second+500*time.Millisecond)
		rival.must(t, 1, createBody("/lock", "mine now", 1))
		require.Len(t, srv.Sessions(), 1)

		for range 5 {
			require.Empty(t, holder.events(t), "its pings are still acknowledged")
			read := holder.must(t, 4, body{}.str("/lock").flag(false))
			require.Equal(t, `data "mine"`, data(nil, &read.fields))
			time.Sleep(time.Second)
		}
		_, err := holder.send(5, body{}.str("/lock").str("x").int(-1))
		require.NoError(t, err)
		_, err = holder.send(11, body{})
		require.NoError(t, err)
		holder.silent(t, 5*time.Second) // an unanswered write holds back the pings after it

		again := dialed(t, srv, connection{session: holder.session, password: holder.password})
		require.Zero(t, again.session, "the leader's side knows better")
		rejoin()
		rejoin()
		holder.hungUp(t)
		read := rival.must(t, 4, body{}.str("/lock").flag(false))
		require.Equal(t, `data "mine now"`, data(nil, &read.fields))
	})
}

func TestCutOffSessionThatMoves(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, _ *rawClient) {
		rejoin := srv.CutOff(a.session)
		again := dialed(t, srv, connection{session: a.session, password: a.password, timeoutMs: 10_000})
		require.Equal(t, a.session, again.session)
		again.must(t, 1, createBody("/new", "", 1))
		a.must(t, 11, body{}) // nobody has told its server
		require.EqualValues(t, -101, a.code(t, 3, body{}.str("/new").flag(true)))
		for _, stuck := range []func(c *rawClient) error{
			func(c *rawClient) error { _, err := c.send(9, body{}.str("/")); return err },
			func(c *rawClient) error { _, err := c.send(3, body{}.str("/").flag(false)); return err },
		} {
			require.NoError(t, stuck(a))
		}
		a.silent(t, time.Second)
		var log []string
		for _, e := range srv.Log() {
			if e.Kind == zkserver.Stuck {
				log = append(log, e.Request.Op.String())
			}
		}
		require.Equal(t, []string{"sync", "exists"}, log)
		rejoin()
		a.hungUp(t)
		again.must(t, 11, body{})
		srv.CutOff(12345)() // of no such session
	})
}
