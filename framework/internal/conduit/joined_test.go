// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/testkit/must"
)

// newLine returns a connection to a server of this version, which the test plays. Nothing is written
// unless the test takes it.
func newLine(t *testing.T, version string) *conn {
	t.Helper()
	owner := New(Config{MaxRequest: 1 << 20, MaxReply: 1 << 16, SessionTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler), Events: unheard{}, Suspended: func() time.Duration { return 0 }})
	client, server := net.Pipe()
	t.Cleanup(func() {
		owner.stop()
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	})
	c := newConn(owner, client, target{server: "a:1"}, time.Time{})
	c.phase, c.window = serving, newWindow(time.Minute)
	for range 50 {
		c.window.learn(wire.OpGetData, 100, time.Now())
	}
	if version != "" {
		c.version.known.Store(&product{version: version})
	}
	return c
}

type unheard struct{}

func (unheard) Connected(Handshake)          {}
func (unheard) Revived(Handshake)            {}
func (unheard) Disconnected(error)           {}
func (unheard) Expired()                     {}
func (unheard) Notified(Notification)        {}
func (unheard) Resumed()                     {}
func (unheard) AuthFailed(error, bool, bool) {}

// ask has a caller of its own send reads of data of these names.
func (c *conn) ask(t *testing.T, names ...string) []*Call {
	t.Helper()
	return c.askBy(t, wire.OpGetData, names...)
}

func (c *conn) askBy(t *testing.T, op int32, names ...string) []*Call {
	t.Helper()
	calls := make([]*Call, len(names))
	last := new(Call)
	last.done, last.left = make(chan struct{}, 1), len(names)
	for i, name := range names {
		calls[i] = &Call{Op: op, Body: []byte(name), Joinable: true, last: last}
	}
	require.NoError(t, c.enqueue(calls))
	return calls
}

type sentRequest struct {
	xid, op int32
	body    string
}

// written returns what goes out next.
func (c *conn) written() (requests []sentRequest) {
	batch, _ := c.takeBatch(time.Now())
	for len(batch) > 0 {
		n := wire.LengthSize + int(binary.BigEndian.Uint32(batch))
		requests = append(requests, sentRequest{
			xid: int32(binary.BigEndian.Uint32(batch[4:])), op: int32(binary.BigEndian.Uint32(batch[8:])), body: string(batch[12:n]),
		})
		batch = batch[n:]
	}
	return requests
}

// multi is a multiRead of names as it goes over the wire.
func multi(names ...string) string {
	var e wire.Encoder
	for _, name := range names {
		e.MultiOp(wire.OpGetData)
		e.Raw([]byte(name))
	}
	e.MultiEnd()
	return string(e.Bytes())
}

// answer gives the connection a reply.
func (c *conn) answer(t *testing.T, xid, code int32, body string) {
	t.Helper()
	e := wire.NewEncoder(wire.ReplyHeader + len(body))
	e.Int32(xid)
	e.Int64(7)
	e.Int32(code)
	e.Raw([]byte(body))
	must.Get(c.receive(e.Bytes()))(t)
}

// found is a result with data, missing one without a znode.
func found(data string) string {
	var e wire.Encoder
	e.MultiOp(wire.OpGetData)
	e.Raw([]byte(dataReply(data)))
	return string(e.Bytes())
}

func dataReply(data string) string {
	var e wire.Encoder
	e.Buffer([]byte(data))
	e.Raw(make([]byte, 68))
	return string(e.Bytes())
}

func missing() string {
	var e wire.Encoder
	e.MultiOp(-1)
	e.Int32(wire.CodeNoNode)
	return string(e.Bytes())
}

func requireData(t *testing.T, call *Call, data string) {
	t.Helper()
	require.Equal(t, Reply{Zxid: 7, Body: []byte(dataReply(data))}, must.Get(call.Result())(t))
}

func isDone(call *Call) bool {
	select {
	case <-call.last.done:
		return true
	default:
		return false
	}
}

// Reads of several callers that leave in one write are one request, and each gets its own result.
func TestJoinedReadsOfSeveralCallersShareARequest(t *testing.T) {
	c := newLine(t, "3.8.0")
	first, second := c.ask(t, "a"), c.ask(t, "b", "c")
	write := &Call{Op: wire.OpSetData, Body: []byte("w")}
	require.NoError(t, c.enqueue([]*Call{write}))
	third := c.ask(t, "d")
	require.Equal(t, []sentRequest{{-1000, wire.OpMultiRead, multi("a", "b", "c")}, {-1003, wire.OpSetData, "w"}, {-1004, wire.OpGetData, "d"}}, c.written(),
		"in their order: only neighbours share a request")
	c.answer(t, -1000, 0, found("A")+missing()+found("C")+"end")
	requireData(t, first[0], "A")
	require.True(t, isDone(first[0]))
	require.Equal(t, Reply{Zxid: 7, Code: wire.CodeNoNode}, must.Get(second[0].Result())(t))
	requireData(t, second[1], "C")
	require.True(t, isDone(second[1]))
	require.False(t, isDone(third[0]))
	require.Zero(t, c.dropped)
	c.answer(t, -1003, 0, "")
	c.answer(t, -1004, 0, dataReply("D"))
	requireData(t, third[0], "D")
	require.Zero(t, c.window.used)
}

// A request that fails because it is shared is made again for each read. A caller has waited for
// all of its reads when it goes on, and those that have gone are not asked for.
func TestJoinedReadsAreMadeAloneIfTheyCannotShare(t *testing.T) {
	for name, fail := range map[string]func(c *conn) error{
		"the server does not know the request": func(c *conn) error {
			c.answer(t, -1000, wire.CodeUnimplemented, "")
			return nil
		},
		"the reply is too long": func(c *conn) error {
			_, err := c.receiveReply(-1000, Reply{}, 30<<10, ErrReplyTooLarge)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLine(t, "3.8.0")
			mine, gone := c.ask(t, "a", "b"), c.ask(t, "c")
			require.Len(t, c.written(), 1)
			later := &Call{Op: wire.OpSetData, Body: []byte("w"), last: mine[0].last}
			mine[0].last.left++
			require.NoError(t, c.enqueue([]*Call{later}))
			require.Len(t, c.written(), 1)
			require.ErrorIs(t, c.abandon(gone, ErrAbandoned), ErrUnanswered)

			require.NoError(t, fail(c))
			c.answer(t, -1003, 0, "")
			require.False(t, isDone(later), "two reads are still to come")
			next := c.ask(t, "d")
			require.Equal(t, []sentRequest{{-1000, wire.OpGetData, "a"}, {-1001, wire.OpGetData, "b"}, {-1004, wire.OpGetData, "d"}}, c.written())
			c.answer(t, -1000, 0, dataReply("A"))
			c.answer(t, -1001, 0, dataReply("B"))
			c.answer(t, -1004, 0, dataReply("D"))
			requireData(t, mine[0], "A")
			requireData(t, mine[1], "B")
			require.True(t, isDone(mine[0]))
			requireData(t, next[0], "D")
			require.Zero(t, c.window.used)
		})
	}
}

// statReply is the reply to an exists of a znode with so much data.
func statReply(length int) string {
	var e wire.Encoder
	e.Raw(make([]byte, 52))
	e.Int32(int32(length))
	e.Raw(make([]byte, 12))
	return string(e.Bytes())
}

// An exists needs no permission to read: one that was refused as a read is made alone, and the
// connection tries no more.
func TestJoinedExistsOfWhatMayNotBeRead(t *testing.T) {
	c := newLine(t, "3.8.0")
	for range 50 {
		c.window.learn(existsAsData, 100, time.Now())
	}
	calls := c.askBy(t, wire.OpExists, "a", "b", "c")
	require.Len(t, c.written(), 1)
	var refused wire.Encoder
	refused.MultiOp(-1)
	refused.Int32(wire.CodeNoAuth)
	c.answer(t, -1000, 0, found("A")+string(refused.Bytes())+missing()+"end")
	require.False(t, isDone(calls[0]))
	require.Equal(t, []sentRequest{{-1001, wire.OpExists, "b"}}, c.written())
	c.answer(t, -1001, 0, statReply(5))
	require.True(t, isDone(calls[0]))
	for i, want := range []Reply{{Zxid: 7, Body: []byte(statReply(0))}, {Zxid: 7, Body: []byte(statReply(5))}, {Zxid: 7, Code: wire.CodeNoNode}} {
		require.Equal(t, want, must.Get(calls[i].Result())(t))
	}
	c.askBy(t, wire.OpExists, "a", "b")
	require.Len(t, c.written(), 2)
	c.ask(t, "a", "b")
	require.Len(t, c.written(), 1, "data of which one may be refused as well as alone")
}

// When a shared request fails, as at a server that is too busy, each of its reads fails with that
// error. When the connection ends, each of them is unanswered.
func TestJoinedWhatBecomesOfASharedRequestBecomesOfEachRead(t *testing.T) {
	c := newLine(t, "3.8.0")
	calls := c.ask(t, "a", "b")
	c.written()
	c.answer(t, -1000, -127, "")
	for _, call := range calls {
		require.EqualValues(t, -127, must.Get(call.Result())(t).Code)
	}
	calls = append(c.ask(t, "a"), c.ask(t, "b")...)
	c.written()
	c.fail(ErrReplyTooLarge)
	for _, call := range calls {
		_, err := call.Result()
		require.ErrorIs(t, err, ErrUnanswered)
		require.NotErrorIs(t, err, ErrReplyTooLarge, "another of them may be to blame")
	}
}

// The server is asked for its version once, when enough reads could have shared requests.
func TestJoinedVersionIsAskedForWhenItMatters(t *testing.T) {
	c := newLine(t, "")
	asked := make(chan string, 10)
	c.owner.dialer.timeout, c.owner.dialer.patience = time.Minute, time.Hour
	c.owner.dialer.dial = func(_ context.Context, _, address string) (net.Conn, error) {
		asked <- address
		return nil, io.EOF
	}
	for range askFrom / 2 {
		require.Empty(t, asked)
		c.ask(t, "a", "b")
		require.Len(t, c.written(), 2)
	}
	require.Equal(t, "a:1", <-asked)
	require.Eventually(t, func() bool { return c.version.known.Load() != nil }, time.Minute, time.Millisecond)
	c.ask(t, "a", "b")
	require.Len(t, c.written(), 2, "it is unknown")
	require.Empty(t, asked)
}

// A request that several reads share keeps to the maximum for requests of callers.
func TestJoinedSharedRequestIsNoLongerThanOthers(t *testing.T) {
	c := newLine(t, "3.8.0")
	c.owner.cfg.MaxRequest = 100
	c.ask(t, strings.Repeat("x", 30), strings.Repeat("y", 30), strings.Repeat("z", 30), strings.Repeat("w", 100), "v")
	requests := c.written()
	require.Len(t, requests, 4)
	for _, request := range requests {
		require.LessOrEqual(t, len(request.body), 100)
	}
	require.EqualValues(t, wire.OpMultiRead, requests[0].op)
}
