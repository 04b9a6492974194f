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

// TestSessionsSilence is reckoned by the clock of the server, and is known only for connections.
func TestSessionsSilence(t *testing.T) {
	n := Census{Sessions: make(map[int64]*Session), Whole: true}
	n.readCons("zk1:2181", ` /10.0.0.7:4711[1](queued=0,recved=8,sent=8,sid=0xa,lop=PING,est=1,to=6000,lzxid=0x1,lresp=20000,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.8:4712[1](queued=0,recved=8,sent=8,sid=0xb,lop=PING,est=1,to=6000,lzxid=0x1,lresp=16999,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.9:4713[1](queued=0,recved=8,sent=8,sid=0xc,lop=PING,est=1,to=6000,lzxid=0x1,lresp=17000,llat=0,minlat=0,avglat=0,maxlat=1)
 /10.0.0.9:4714[0](queued=0,recved=1,sent=0)
`)
	n.readDump("SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Wed Nov 25 22:19:51 UTC 2026:\n\t0xd\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0xd:\n\t/a\n")
	require.Len(t, n.Sessions, 4)
	require.Equal(t, []int{0, 3001, 3000}, []int{n.Sessions[0xa].Silence, n.Sessions[0xb].Silence, n.Sessions[0xc].Silence})
	require.Equal(t, []bool{false, true, false}, []bool{n.Sessions[0xa].isSilent(), n.Sessions[0xb].isSilent(), n.Sessions[0xc].isSilent()})
	require.Contains(t, n.Describe(0xb), "timeout 6s, renewed 8 times over this connection, the last time 3.001s ago")
	require.True(t, n.Sessions[0xd].isLost())
	require.Equal(t, []string{"/a"}, n.Sessions[0xd].Ephemerals)
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
