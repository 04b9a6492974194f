// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestLoseQuorum follows a session of the quorum, and one of the server alone, through the time without a quorum.
func TestLoseQuorum(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, holder, rival *rawClient) {
		before := holder.must(t, 1, createBody("/lock", "mine", 1)).zxid
		rival.must(t, 1, createBody("/container", "", 0))
		require.False(t, holder.readOnly)
		regain := srv.LoseQuorum()
		srv.LoseQuorum()
		holder.hungUp(t)
		rival.hungUp(t)
		requireMode(t, srv, "ro", "read-only")

		hungUpOn(t, srv, connection{})
		hungUpOn(t, srv, connection{noReadOnly: true})
		hungUpOn(t, srv, connection{readOnly: true, session: holder.session, password: holder.password})
		require.Zero(t, dialed(t, srv, connection{readOnly: true, session: holder.session + 1000}).session)
		reader := dialed(t, srv, connection{readOnly: true, timeoutMs: 10_000})
		require.True(t, reader.readOnly)
		require.NotZero(t, reader.session)
		read := reader.must(t, 4, body{}.str("/lock").flag(true))
		require.Equal(t, before+1, read.zxid, "no session of the server alone is a transaction")
		for op, write := range map[int32]body{
			1: createBody("/new", "", 0), 2: body{}.str("/lock").int(-1), 5: body{}.str("/lock").str("x").int(-1),
			9: body{}.str("/"), 14: multiOf(2, body{}.str("/lock").int(-1)), 15: createBody("/new", "", 1),
		} {
			require.EqualValues(t, -119, reader.code(t, op, write), "request %d", op)
		}
		again := dialed(t, srv, connection{readOnly: true, session: reader.session, password: reader.password, timeoutMs: 10_000})
		require.Equal(t, reader.session, again.session, "a session of the server alone can come back")

		time.Sleep(time.Minute)
		again.hungUp(t) // it has expired; those of the quorum have not
		reader = dialed(t, srv, connection{readOnly: true, timeoutMs: 10_000})
		require.Equal(t, 3, srv.Stats().Sessions)
		reader.must(t, 3, body{}.str("/lock").flag(false))
		reader.must(t, -11, body{})
		reader = dialed(t, srv, connection{readOnly: true, timeoutMs: 10_000})

		regain()
		regain()
		reader.hungUp(t)
		requireMode(t, srv, "rw", "standalone")
		require.Zero(t, dialed(t, srv, connection{readOnly: true, session: reader.session, password: reader.password}).session)
		back := dialed(t, srv, connection{session: holder.session, password: holder.password, timeoutMs: 10_000})
		require.Equal(t, holder.session, back.session)
		require.False(t, back.readOnly)
		require.Equal(t, before+2, back.must(t, 5, body{}.str("/lock").str("x").int(-1)).zxid)
		time.Sleep(11 * time.Second)
		require.Zero(t, srv.Stats().Sessions, "they expire as ever")
	})
}

// hungUpOn checks that a connect request gets no answer.
func hungUpOn(t *testing.T, srv *zkserver.Server, want connection) {
	t.Helper()
	nc := must.Get(srv.Dial(t.Context(), "", ""))(t)
	defer nc.Close()
	_, err := handshake(nc, want)
	require.True(t, ended(err), "got %v", err)
}

// requireMode checks what the server says to isro, srvr and mntr.
func requireMode(t *testing.T, srv *zkserver.Server, isro, mode string) {
	t.Helper()
	for word, want := range map[string]string{"isro": isro, "srvr": "Mode: " + mode + "\n", "mntr": "zk_server_state\t" + mode + "\n"} {
		require.Contains(t, must.Get(srv.FourLetterWord(t.Context(), word))(t), want)
	}
}
