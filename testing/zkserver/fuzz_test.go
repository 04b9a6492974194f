// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"io"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// FuzzConnection sends any bytes to a server, as the whole of a connection or after a handshake. The server must not
// crash, nor keep memory or goroutines for what it got, and must serve another session as ever. What has been found is
// kept in testdata.
func FuzzConnection(f *testing.F) {
	f.Fuzz(func(t *testing.T, greeted bool, stream []byte) {
		srv := must.Get(zkserver.Start(zkserver.WithoutListener(), zkserver.WithMaxFrame(1<<16)))(t)
		bystander := dialed(t, srv, connection{timeoutMs: 10_000})
		before := allocated()

		nc := must.Get(srv.Dial(t.Context(), "", ""))(t)
		defer nc.Close()
		if greeted {
			must.Get(handshake(nc, connection{timeoutMs: 10_000}))(t)
		}
		require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = nc.Write(stream) // the server may hang up before the end
			_ = nc.(interface{ CloseWrite() error }).CloseWrite()
		}()
		bystander.must(t, 11, body{})
		_, err := io.Copy(io.Discard, nc)
		require.NoError(t, err, "the server hangs up when its client has")
		<-sent
		bystander.must(t, 3, body{}.str("/").flag(false))
		require.Less(t, allocated()-before, uint64(2<<20+100*len(stream)), "bytes for a stream of %d", len(stream))
		require.NoError(t, srv.Close(), "waits for its goroutines")
	})
}

// allocated is the number of bytes that this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
