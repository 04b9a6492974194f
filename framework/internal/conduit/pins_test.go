// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// recorder is a connection that keeps each Write apart.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
	closed atomic.Bool
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.writes = append(r.writes, append([]byte(nil), b...))
	r.mu.Unlock()
	return r.Conn.Write(b)
}

func (r *recorder) Close() error {
	r.closed.Store(true)
	return r.Conn.Close()
}

// frames checks that each Write was one frame and returns them.
func (r *recorder) frames(t *testing.T) [][]byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.writes {
		require.GreaterOrEqual(t, len(w), 4, "write %d", i)
		require.Equal(t, len(w)-4, int(binary.BigEndian.Uint32(w)), "write %d is not one frame", i)
	}
	return r.writes
}

// recording runs go-zookeeper alone, without a conduit, on recorded connections.
// The function that it returns ends it.
func recording(t *testing.T, n *network) (conn *zk.Conn, made chan *recorder, end func(last *peer)) {
	t.Helper()
	made = make(chan *recorder, 10)
	conn, ended, err := zk.Connect([]string{"a:1"}, 9*time.Second, zk.WithLogInfo(false),
		zk.WithHostProvider(new(oneHost)),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			c, err := n.dial(t.Context(), network, address)
			if err != nil {
				return nil, err
			}
			r := &recorder{Conn: c}
			made <- r
			return r, nil
		}))
	require.NoError(t, err)
	return conn, made, func(last *peer) {
		conn.Close()
		require.NoError(t, last.Close())
		for range ended { // until it is closed
		}
	}
}

// oneHost is a host provider that never makes go-zookeeper look up a name.
type oneHost struct{ calls atomic.Int64 }

func (*oneHost) Init([]string) error    { return nil }
func (*oneHost) Len() int               { return 1 }
func (h *oneHost) Next() (string, bool) { return "a:1", h.calls.Add(1) > 1 }
func (*oneHost) Connected()             {}

// TestPinEachFrameIsOneWrite pins what the conduit assumes of the frames that
// go-zookeeper v1.0.4 writes: see the package comment.
func TestPinEachFrameIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		conn, made, end := recording(t, n)
		p, r := <-n.peers, <-made
		p.accept(0x51, 6*time.Second)
		synctest.Wait()

		go func() { _, _, _ = conn.Exists("/a") }()
		request := <-p.frames
		p.reply(request.xid, 0x77, -101, nil)
		p.silent.Store(true)
		ping := <-p.frames // the clock runs to the next ping
		p.reply(ping.xid, 0, 0, nil)
		go conn.Close()
		closing := <-p.frames
		p.reply(closing.xid, 0x78, 0, nil)
		<-p.ended

		writes := r.frames(t)
		require.Len(t, writes, 4)
		first := writes[0]
		require.Len(t, first, 4+44)
		require.Zero(t, binary.BigEndian.Uint64(first[8:]), "last zxid seen at byte 8")
		require.EqualValues(t, 9000, binary.BigEndian.Uint32(first[16:]), "timeout at byte 16")
		require.Zero(t, binary.BigEndian.Uint64(first[20:]), "session id at byte 20")
		require.Positive(t, request.xid)
		require.EqualValues(t, 3, request.op)
		require.EqualValues(t, -2, ping.xid)
		require.EqualValues(t, opPing, ping.op)
		require.Positive(t, closing.xid)
		require.EqualValues(t, opClose, closing.op)
		require.Empty(t, closing.body)
		require.True(t, r.closed.Load(), "closed with Close")
		end(p)
	})
}

func TestPinTheConnectRequestOfAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		conn, made, end := recording(t, n)
		p := <-n.peers
		p.accept(0x51, 6*time.Second)
		synctest.Wait()
		go func() { _, _, _ = conn.Exists("/a") }()
		request := <-p.frames
		p.reply(request.xid, 0x77, -101, nil)
		synctest.Wait()
		require.NoError(t, p.Close())

		<-made
		p, r := <-n.peers, <-made
		p.accept(0x51, 6*time.Second)
		first := r.frames(t)[0]
		require.EqualValues(t, 0x77, binary.BigEndian.Uint64(first[8:]), "last zxid seen at byte 8")
		require.EqualValues(t, 6000, binary.BigEndian.Uint32(first[16:]), "the negotiated timeout at byte 16")
		require.EqualValues(t, 0x51, binary.BigEndian.Uint64(first[20:]), "session id at byte 20")
		require.Equal(t, "0123456789abcdef", string(first[32:48]))
		end(p)
	})
}

// TestPinAConnectionIsForgottenAfterExpired is why the conduit closes it.
//
// Curator: TestConnectionStateManager.testConnectionStateRecoversFromUnexpectedExpiredConnection.
func TestPinAConnectionIsForgottenAfterExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, made, end := recording(t, n)
		p := <-n.peers
		p.accept(0, 0)
		<-made
		next, r := <-n.peers, <-made
		next.accept(0x52, 6*time.Second)
		require.Zero(t, binary.BigEndian.Uint64(r.frames(t)[0][20:]), "asks for a new session")
		select {
		case <-p.ended:
			require.FailNow(t, "go-zookeeper closes the connection by now: the conduit need not")
		default:
		}
		require.NoError(t, p.Close()) // nobody else does
		end(next)
	})
}
