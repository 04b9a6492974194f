// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	heapLimit  = 64 << 20
	closeLimit = patience // that it is six seconds is for tests on a fake clock
)

// withinBounds runs a test of a server that talks garbage and checks what must hold
// in all of them: little is allocated and no goroutine is left.
func withinBounds(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	running := goleak.IgnoreCurrent()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	t.Run("garbage", test)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(heapLimit))
	goleak.VerifyNone(t, running)
}

// closeInTime closes a client, whether or not a server confirms it.
func closeInTime(t *testing.T, f *framework.Framework) {
	t.Helper()
	began := time.Now()
	_ = f.Close() // an error is no wonder here
	require.Less(t, time.Since(began), closeLimit)
}

// babbler is a server that answers every connection in the same way, after it has
// read the first bytes. It hangs up only if the client does.
func babbler(t *testing.T, says []byte) (addr string, connections *atomic.Int64) {
	t.Helper()
	return speaker(t, func(conn net.Conn) error {
		_, err := conn.Write(says)
		return err
	})
}

// speaker is a babbler that answers in whatever way.
func speaker(t *testing.T, speak func(net.Conn) error) (addr string, connections *atomic.Int64) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	connections = new(atomic.Int64)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			group.Go(func() {
				defer conn.Close()
				b := make([]byte, 1024)
				for answered := false; ; answered = true {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if answered {
						continue
					}
					if err := speak(conn); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return listener.Addr().String(), connections
}

func connectReply(timeout int32) []byte {
	const password = 16
	b := binary.BigEndian.AppendUint32(nil, uint32(20+password))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout))
	b = binary.BigEndian.AppendUint64(b, 0x51)
	b = binary.BigEndian.AppendUint32(b, uint32(password))
	return append(b, make([]byte, password)...)
}

func neverConnects(t *testing.T, addr string, connections *atomic.Int64) {
	t.Helper()
	f, err := framework.New(addr, framework.WithSessionTimeout(time.Second),
		framework.WithConnectionTimeout(200*time.Millisecond), framework.WithRetryPolicy(retry.None()))
	require.NoError(t, err)
	states := recordStates(f)
	require.NoError(t, f.Start())
	for connections.Load() < 3 { // each round is one connection timeout
		_, err = f.Get(t.Context(), "/a")
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.True(t, framework.Retryable(err))
	}
	states.none(t)
	require.Equal(t, framework.NotConnected, f.State())
	closeInTime(t, f)
}

func replyFrame(xid int32, zxid int64, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, 0)
	return append(b, body...)
}

// TestGarbageTLSToAServerWithout: the server waits for more, or hangs up; the error says
// with whom the handshake was.
func TestGarbageTLSToAServerWithout(t *testing.T) {
	withinBounds(t, func(t *testing.T) {
		addr := zktest.NewServer(t).Addr()
		err := refused(t, addr, framework.WithTLS(&tls.Config{}), framework.WithConnectionTimeout(200*time.Millisecond))
		require.ErrorContains(t, err, addr)
		require.ErrorContains(t, err, "TLS handshake")
	})
}

// TestGarbageHalfAReplyIsNoResult: a reply that ends within its Stat leaves no result, and stores none.
func TestGarbageHalfAReplyIsNoResult(t *testing.T) {
	half := bytes.Repeat([]byte{1}, 60) // of a Stat of 68 bytes
	record := func(fields string) []byte { return append([]byte(fields), half...) }
	const datum, names = "\x00\x00\x00\x01x", "\x00\x00\x00\x01\x00\x00\x00\x01x"
	const entry = "\x00\x00\x00\x01" + "\x00\x00\x00\x1f" + "\x00\x00\x00\x05world" + "\x00\x00\x00\x06anyone"
	const result = "\x00\x00\x00\x05" + "\x00" + "\x00\x00\x00\x00" // the header of a set
	for name, c := range map[string]struct {
		body []byte
		call func(ctx context.Context, f *framework.Framework, into *framework.Stat) (result any, err error)
	}{
		"exists": {half, func(ctx context.Context, f *framework.Framework, _ *framework.Stat) (any, error) {
			return f.Exists(ctx, "/x")
		}},
		"get": {record(datum), func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return f.Get(ctx, "/x", framework.StoringStatIn(into))
		}},
		"children": {record(names), func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return f.Children(ctx, "/x", framework.StoringStatIn(into))
		}},
		"get ACL": {record(entry), func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return f.GetACL(ctx, "/x", framework.StoringStatIn(into))
		}},
		"reconfig": {record(datum), func(ctx context.Context, f *framework.Framework, _ *framework.Stat) (any, error) {
			return f.Reconfig(ctx, framework.Reconfiguration{Leaving: []string{"1"}})
		}},
		"create": {record("\x00\x00\x00\x02/x"), func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return f.Create(ctx, "/x", nil, framework.StoringStatIn(into))
		}},
		"set": {half, func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return nil, f.Set(ctx, "/x", nil, framework.StoringStatIn(into))
		}},
		"set ACL": {half, func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return nil, f.SetACL(ctx, "/x", framework.OpenACL(), framework.StoringStatIn(into))
		}},
		"transact": {record(result), func(ctx context.Context, f *framework.Framework, into *framework.Stat) (any, error) {
			return f.Transact(ctx, framework.SetDataOp("/x", nil, framework.StoringStatIn(into)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			f := zktest.Client(t, server, framework.WithRetryPolicy(retry.None()))
			remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession {
					return zkserver.Pass
				}
				return zkserver.RespondWith(replyFrame(r.Xid, 0, c.body))
			})
			defer remove()
			untouched := framework.Stat{Version: 7}
			into := untouched
			got, err := c.call(inTime(t), f, &into)
			require.ErrorIs(t, err, framework.ErrMalformedReply)
			require.Empty(t, got)
			require.Equal(t, untouched, into)
		})
	}
}
