// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSessionsDatesOfServers are shown in RFC 3339, and compare even when their zone is not known.
func TestSessionsDatesOfServers(t *testing.T) {
	_, text := dateOf("Wed Nov 25 22:19:51 UTC 2026")
	require.Equal(t, "2026-11-25T22:19:51Z", text)
	for _, want := range []string{"Wed Nov 25 22:19:51 XYZ 2026", "soon"} {
		_, text := dateOf(want)
		require.Equal(t, want, text)
	}
	early, _ := dateOf("Wed Nov 25 22:19:51 XYZ 2026")
	late, _ := dateOf("Wed Nov 25 22:20:01 XYZ 2026")
	require.Equal(t, 10*time.Second, late.Sub(early))
}

// TestSessionsLife: a client is alive, silent, lost or unknown by what the leader and its server say.
func TestSessionsLife(t *testing.T) {
	read := func(dump string, whole bool) *Census {
		n := &Census{Sessions: make(map[int64]*Session), Asked: []string{"zk1:2181", "zk2:2181"}, Whole: whole, tick: 2 * time.Second}
		if !whole {
			n.Missing = []string{"zk3:2181: no answer"}
		}
		n.readCons("zk1:2181", ` /10.0.0.7:4711[1](queued=0,recved=8,sent=8,sid=0xa,lop=PING,est=1,to=30000,lzxid=0x1,lresp=20000,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.8:4712[1](queued=0,recved=8,sent=8,sid=0xb,lop=PING,est=1,to=6000,lzxid=0x1,lresp=16999,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.9:4713[1](queued=0,recved=8,sent=8,sid=0xc,lop=PING,est=1,to=6000,lzxid=0x1,lresp=17000,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.9:4714[0](queued=0,recved=1,sent=0)
`)
		n.readCons("zk2:2181", " /10.0.0.7:4715[1](queued=0,recved=8,sent=8,sid=0xe,lop=PING,est=1,to=30000,lzxid=0x1,lresp=100,llat=0,minlat=0,avglat=0,maxlat=1)\n")
		n.readDump(dump)
		return n
	}
	judge := func(n *Census, own int64) { n.reckon(own, 30*time.Second) }
	dump := "SessionTracker dump:\nSession Sets (2)/(2):\n1 expire at Wed Nov 25 22:19:51 UTC 2026:\n\t0xa\n1 expire at Wed Nov 25 22:19:35 UTC 2026:\n\t0xe\n" +
		"1 expire at Wed Nov 25 22:19:30 UTC 2026:\n\t0xd\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0xd:\n\t/a\n"
	n := read(dump, true)
	judge(n, 0xa)
	lives := func(n *Census) (all []Life) {
		for _, id := range []int64{0xa, 0xb, 0xc, 0xd, 0xe} {
			life, _ := n.of(id)
			all = append(all, life)
		}
		return all
	}
	require.Equal(t, []Life{LifeAlive, LifeSilent, LifeAlive, LifeLost, LifeSilent}, lives(n), "the leader has not heard 0xe for 16s")
	require.Contains(t, n.Describe(0xb), "timeout 6s, renewed 8 times over this connection, the last time 3.001s ago")
	require.Equal(t, []string{"/a"}, n.Sessions[0xd].Ephemerals)
	n = read(dump, false)
	judge(n, 0xa)
	require.Equal(t, []Life{LifeAlive, LifeSilent, LifeAlive, LifeUnknown, LifeSilent}, lives(n), "zk3 may have the client of 0xd")
	require.Contains(t, n.Describe(0xd), "no connection at the servers asked")
	n = read("ephemeral nodes dump:\nSessions with Ephemerals (1):\n0xd:\n\t/a\n", false)
	judge(n, 0xa)
	require.Equal(t, []Life{LifeAlive, LifeSilent, LifeAlive, LifeUnknown, LifeUnknown}, lives(n), "nothing says when zk2 has heard 0xe")
	life, why := n.of(0x77)
	require.Equal(t, LifeUnknown, life)
	require.Equal(t, "zk3:2181: no answer", why)
}

// TestSessionsLifeOfShortSessions: a client that was not heard for its whole timeout is silent, also where dates of the leader count whole seconds.
func TestSessionsLifeOfShortSessions(t *testing.T) {
	n := &Census{Sessions: make(map[int64]*Session), Asked: []string{"zk1:2181", "zk2:2181"}, Whole: true, tick: 500 * time.Millisecond}
	n.readCons("zk1:2181", " /10.0.0.7:4711[1](queued=0,recved=8,sent=8,sid=0xa,lop=PING,est=1,to=6000,lzxid=0x1,lresp=20000,llat=0,minlat=0,avglat=0,maxlat=1)\n")
	n.readCons("zk2:2181", " /10.0.0.8:4712[1](queued=0,recved=8,sent=8,sid=0xb,lop=PING,est=1,to=4000,lzxid=0x1,lresp=17000,llat=0,minlat=0,avglat=0,maxlat=1)\n")
	n.readDump("SessionTracker dump:\nSession Sets (2)/(2):\n1 expire at Wed Nov 25 22:19:51 UTC 2026:\n\t0xa\n1 expire at Wed Nov 25 22:19:45 UTC 2026:\n\t0xb\n")
	n.reckon(0xa, 6*time.Second)
	require.Equal(t, LifeAlive, n.Life(0xa))
	require.Equal(t, LifeSilent, n.Life(0xb))
	require.Equal(t, 1000, n.Sessions[0xb].ExpiresIn)
}

// TestExplainQuotesForShells: a command of an advice is one line in which a terminal obeys nothing.
func TestExplainQuotesForShells(t *testing.T) {
	for path, want := range map[string]string{
		"/locks/a_1-b.c": "/locks/a_1-b.c",
		"/a b":           "'/a b'",
		"/it's":          `'/it'\''s'`,
		"/a\u202eb'\"":   `$'/a\u202eb\'"'`,
	} {
		require.Equal(t, want, quoted(path))
	}
}
