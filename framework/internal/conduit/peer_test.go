// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

const (
	opPing  = 11
	opClose = -11
)

// frame is a request as the server sees it. That of a connect request has no xid
// and no opcode.
type frame struct {
	xid, op int32
	body    []byte // after the header
	raw     []byte // all but the length
}

// peer is the server's end of one connection, played by the test. Pings are
// answered for it unless it is told to be silent.
type peer struct {
	t       *testing.T
	address string
	net.Conn
	connect chan frame
	frames  chan frame    // all but the connect request and answered pings
	ended   chan struct{} // closed when the client has closed the connection
	silent  atomic.Bool
	writing sync.Mutex
}

func (p *peer) read() {
	defer close(p.ended)
	for first := true; ; first = false {
		var length [4]byte
		if _, err := io.ReadFull(p.Conn, length[:]); err != nil {
			return
		}
		raw := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(p.Conn, raw); err != nil {
			return
		}
		if first {
			p.connect <- frame{raw: raw}
			continue
		}
		f := frame{
			xid: int32(binary.BigEndian.Uint32(raw)), op: int32(binary.BigEndian.Uint32(raw[4:])),
			body: raw[8:], raw: raw,
		}
		if f.op == opPing && !p.silent.Load() {
			go p.reply(f.xid, 0, 0, nil) // nobody reads while a write of the client's is under way
			continue
		}
		p.frames <- f
	}
}

// send writes bytes as they are. That the client is gone is for the test to find
// out at the client.
func (p *peer) send(raw []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = p.Write(raw)
}

// accept answers the connect request, which it returns.
func (p *peer) accept(session int64, timeout time.Duration) frame {
	f := <-p.connect
	p.send(handshake(int32(timeout.Milliseconds()), session))
	return f
}

func (p *peer) reply(xid int32, zxid int64, code int32, body []byte) {
	p.send(reply(xid, zxid, code, body))
}

func handshake(timeout int32, session int64) []byte {
	b := binary.BigEndian.AppendUint32(nil, 36)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, 16)
	return append(b, "0123456789abcdef"...)
}

func reply(xid int32, zxid int64, code int32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, body...)
}

// network makes in-memory connections to peers, which work under synctest.
type network struct {
	t     *testing.T
	peers chan *peer
	dials atomic.Int64
	hang  atomic.Bool // dials never succeed
	deaf  atomic.Bool // nobody reads what the client writes
}

func newNetwork(t *testing.T) *network { return &network{t: t, peers: make(chan *peer, 1000)} }

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.dials.Add(1)
	if n.hang.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	client, server := net.Pipe()
	p := &peer{
		t: n.t, address: address, Conn: server,
		connect: make(chan frame, 1), frames: make(chan frame, 1000), ended: make(chan struct{}),
	}
	if !n.deaf.Load() {
		go p.read()
	}
	n.peers <- p
	return client, nil
}

// events records what the conduit tells.
type events struct {
	told chan string
	last atomic.Pointer[conduit.Handshake]
}

func newEvents() *events { return &events{told: make(chan string, 10000)} }

func (e *events) Connected(h conduit.Handshake) {
	e.last.Store(&h)
	e.told <- fmt.Sprintf("connected %x fresh=%t", h.SessionID, h.Fresh)
}

func (e *events) Revived(h conduit.Handshake) {
	e.told <- fmt.Sprintf("revived %x", h.SessionID)
}
func (e *events) Disconnected(error) { e.told <- "disconnected" }
func (e *events) Resumed()           { e.told <- "resumed" }
func (e *events) Expired()           { e.told <- "expired" }
func (e *events) AuthFailed(_ error, _, final bool) {
	if !final {
		e.told <- "refused"
		return
	}
	e.told <- "auth failed"
}

func (e *events) Notified(n conduit.Notification) {
	e.told <- fmt.Sprintf("notified %s %s", n.Type, n.Path)
}

const sessionTimeout = 30 * time.Second

// open opens a conduit on the network, and closes it when the test ends.
func open(t *testing.T, n *network, change ...func(*conduit.Config)) (*conduit.Conduit, *events) {
	t.Helper()
	told := newEvents()
	cfg := conduit.Config{
		Servers: []string{"a:1"}, SessionTimeout: sessionTimeout, ConnectTimeout: 15 * time.Second,
		MaxRequest: 1 << 20, MaxReply: 1 << 16, Dial: n.dial, Events: told, Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	c := conduit.New(cfg)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		// Most servers here do not answer the close request, and no test but those of
		// Close is about that.
		_ = c.Close()
	})
	return c, told
}

// connected opens a conduit that has a connection with session 0x51.
func connected(t *testing.T, n *network) (*conduit.Conduit, *events, *peer) {
	t.Helper()
	c, told := open(t, n)
	p := <-n.peers
	p.accept(0x51, sessionTimeout)
	require.Equal(t, "connected 51 fresh=true", <-told.told)
	return c, told, p
}

// outcome is that of a call made by start.
type outcome struct {
	reply conduit.Reply
	err   error
}

// start makes a call on a goroutine of its own.
func start(ctx context.Context, c *conduit.Conduit, call *conduit.Call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		err := c.Do(ctx, call)
		reply, own := call.Result()
		if own != nil {
			err = own
		}
		done <- outcome{reply, err}
	}()
	return done
}
