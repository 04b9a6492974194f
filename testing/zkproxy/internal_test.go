// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

func TestJournalForgetsOlderHalf(t *testing.T) {
	p := &Proxy{journal: newJournal()}
	for range maxEvents + 1 {
		p.record(Accepted, Frame{Body: []byte("body")}, "")
	}
	log := p.Log()
	require.Len(t, log, maxEvents/2+1)
	require.Equal(t, maxEvents/2+1, log[0].Seq)
	require.Equal(t, maxEvents+1, log[len(log)-1].Seq)
	require.Nil(t, log[0].Frame.Body)
	e := must.Get(p.Await(t.Context(), func(e Event) bool { return e.Seq == maxEvents }))(t)
	require.Equal(t, maxEvents, e.Seq)
}

func TestInternalStrings(t *testing.T) {
	require.Equal(t, "ToServer ToClient Both Direction(0)",
		ToServer.String()+" "+ToClient.String()+" "+Both.String()+" "+Direction(0).String())
	require.Equal(t, "notification Kind(7)", Notification.String()+" "+Kind(7).String())
	request := Frame{Conn: 1, Direction: ToServer, Kind: Request, Index: 2, Xid: 3, Op: OpCreate, Path: "/a"}
	require.Equal(t, "conn 1 ToServer request 2 xid 3 op 1 /a", request.String())
	reply := Frame{Conn: 1, Direction: ToClient, Kind: Reply, Index: 2, Xid: 3, Op: OpCreate, Path: "/a", Zxid: 16, Err: -110}
	require.Equal(t, "conn 1 ToClient reply 2 xid 3 op 1 /a zxid 0x10 err -110", reply.String())
	require.Equal(t, "4 0s dropped: conn 1 ToServer request 2 xid 3 op 1 /a (why)",
		Event{Seq: 4, Action: Dropped, Frame: request, Detail: "why"}.String())
	require.Equal(t, "5 0s commanded (Cut)", Event{Seq: 5, Action: Commanded, Detail: "Cut"}.String())
}

func FuzzParseFrame(f *testing.F) {
	f.Add(true, []byte("\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02/a"))
	f.Add(false, []byte("\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03\x7f\xff\xff\xff/a"))
	f.Fuzz(func(t *testing.T, toServer bool, body []byte) {
		direction, header := ToClient, replyHeader
		if toServer {
			direction, header = ToServer, requestHeader
		}
		frame, err := parseFrame(1, direction, false, body)
		require.Equal(t, len(body) < header, err != nil, "%v", err)
		require.LessOrEqual(t, len(frame.Path), len(body))
		require.NotEmpty(t, frame.String())
	})
}
