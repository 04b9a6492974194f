// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestLog follows clients through everything that the log tells.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, zkserver.WithoutListener())
		c := dialed(t, srv, connection{timeoutMs: 1000})
		remove := srv.Intercept(zkserver.Nth(2, zkserver.OpCreate, zkserver.LoseReply))
		c.must(t, 1, createBody("/a", "", 0))
		require.EqualValues(t, -110, c.code(t, 15, createBody("/a", "", 0)))
		must.Get(c.send(1, createBody("/b", "", 0)))(t)
		c.hungUp(t)
		remove()
		c.nc.Close()
		synctest.Wait()
		again := dialed(t, srv, connection{timeoutMs: 1000, session: c.session, password: c.password})
		dialed(t, srv, connection{session: 1})
		again.must(t, -11, body{})
		again.nc.Close()
		idle := dialed(t, srv, connection{timeoutMs: 1000})
		time.Sleep(2 * time.Second)
		idle.hungUp(t)
		require.True(t, srv.KillSession(dialed(t, srv, connection{timeoutMs: 1000}).session))
		srv.Pause()
		srv.Resume()
		srv.FreezeReads(0)()
		require.NoError(t, srv.Stop())
		require.NoError(t, srv.Restart())

		var lines []string
		for i, e := range srv.Log() {
			require.Equal(t, i+1, e.Seq)
			line := string(e.Kind)
			if e.Conn != 0 {
				line = fmt.Sprintf("%d %s", e.Conn, line)
			}
			if e.Request.Op != 0 {
				line += fmt.Sprintf(" %v %d", e.Request.Op, e.Err)
			}
			if e.Kind == zkserver.Faulted {
				require.Equal(t, zkserver.LoseReply, e.Fault)
			}
			if e.Kind == zkserver.Commanded {
				line += " " + e.Detail
			}
			lines = append(lines, line)
		}
		require.Equal(t, []string{
			"1 accepted", "1 session opened", "1 served create 0", "1 served create2 -110", "1 faulted create 0",
			"2 accepted", "2 session taken",
			"3 accepted", "3 session denied",
			"2 session closed", "2 served closeSession 0",
			"4 accepted", "4 session opened", "session expired",
			"5 accepted", "5 session opened", "session killed",
			"commanded Pause", "commanded Resume", "commanded FreezeReads", "commanded FreezeReads: thaw",
			"commanded Stop", "commanded Restart",
		}, lines)
		served := srv.Log()[3]
		require.Equal(t, fmt.Sprintf("4 0s served conn 1 session 0x%x create2 xid 2 /a err -110", c.session), served.String())
		require.Contains(t, srv.Log()[4].String(), "/b LoseReply")
	})
}

func TestLogOfConnections(t *testing.T) {
	srv := start(t)
	mark := rawTo(t, srv, connection{})
	garbage := must.Get(dialTCP(srv.Addr()))(t)
	must.Get(garbage.Write([]byte{0xff, 0xff, 0xff, 0xff}))(t)
	e := must.Get(srv.Await(t.Context(), func(e zkserver.Event) bool { return e.Kind == zkserver.Ended && e.Conn == 2 }))(t)
	require.Contains(t, e.String(), "ended conn 2 (protocol violated: frame of -1 bytes)")
	require.NoError(t, garbage.Close())
	_, err := tryRaw(t, srv, connection{lastZxid: 1 << 40})
	require.Error(t, err)
	e = must.Get(srv.Await(t.Context(), func(e zkserver.Event) bool { return e.Kind == zkserver.Ended && e.Conn == 3 }))(t)
	require.Contains(t, e.Detail, "later zxid")
	mark.must(t, 11, body{})
}

func TestLogIsBounded(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	const events = 25_000
	for range events {
		srv.Send(1, nil) // of no such session
	}
	log := srv.Log()
	require.Len(t, log, events-10_000)
	require.Equal(t, events, log[len(log)-1].Seq)
	require.Equal(t, 10_001, log[0].Seq)
	must.Get(srv.Await(t.Context(), func(e zkserver.Event) bool { return e.Seq == events }))(t)
}

func TestFaultString(t *testing.T) {
	for want, f := range map[string]zkserver.Fault{
		"Pass":                 zkserver.Pass,
		"LoseRequest":          zkserver.LoseRequest,
		"LoseReply":            zkserver.LoseReply,
		"NeverAnswer":          zkserver.NeverAnswer,
		"ApplyNeverAnswer":     zkserver.ApplyNeverAnswer,
		"Delay(3s)":            zkserver.Delay(3 * time.Second),
		"HoldUntil":            zkserver.HoldUntil(make(chan struct{})),
		"FailWith(-4)":         zkserver.FailWith(-4),
		"RespondWith(3 bytes)": zkserver.RespondWith([]byte("abc")),
	} {
		require.Equal(t, want, f.String())
	}
}

func TestNth(t *testing.T) {
	hook := zkserver.Nth(2, zkserver.OpSync, zkserver.LoseReply)
	var got []zkserver.Fault
	for _, op := range []zkserver.OpCode{zkserver.OpSync, zkserver.OpCreate, zkserver.OpSync, zkserver.OpSync} {
		got = append(got, hook(zkserver.Request{Op: op}))
	}
	require.Equal(t, []zkserver.Fault{zkserver.Pass, zkserver.Pass, zkserver.LoseReply, zkserver.Pass}, got)
}

// TestLogIsBoundedInBytes asks for the longest paths there can be: the log holds less than they are together, and still
// has the latest requests.
func TestLogIsBoundedInBytes(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	const requests, size = 50, 900_000
	before := heap()
	for i := range requests {
		require.EqualValues(t, -101, c.code(t, 3, body{}.str(fmt.Sprintf("/%d%s", i, strings.Repeat("x", size))).flag(false)))
	}
	log := srv.Log()
	kept := 0
	for i, e := range log {
		require.Equal(t, log[0].Seq+i, e.Seq)
		kept += len(e.Request.Path)
	}
	require.LessOrEqual(t, kept, 16<<20)
	require.Greater(t, kept, 8<<20-2*size)
	require.True(t, strings.HasPrefix(log[len(log)-1].Request.Path, "/49x"))
	require.Less(t, heap()-before, 40<<20, "45 MB were asked for")
}

// TestLogIsBoundedInBytesOfReads asks for many reads in each request.
func TestLogIsBoundedInBytesOfReads(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	const requests, reads, size = 40, 8_000, 100
	path := "/" + strings.Repeat("a", size-1)
	parts := make([]any, 0, 2*reads)
	for range reads {
		parts = append(parts, 4, body{}.str(path).flag(false))
	}
	many := multiOf(parts...)
	before := heap()
	for range requests {
		c.must(t, 22, many)
	}
	require.Less(t, heap()-before, 25<<20, "the lists of all of them take 37 MB")
	require.NotEmpty(t, srv.Log())
}
