// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// allocLimit is what a conversation may allocate. go-zookeeper takes 3 MiB for the
// buffers of a connection.
const allocLimit = 32 << 20

// FuzzFrames lets a server say anything, after a good handshake or in its place:
// nothing panics, memory is bounded, calls end and Close works.
func FuzzFrames(f *testing.F) {
	f.Add(true, reply(-1000, 1, 0, []byte("data")))
	f.Add(true, slices.Concat(reply(-1000, 1, -101, nil), reply(-2, 1, 0, nil)))
	f.Add(true, reply(-1, -1, 0, []byte{0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, '/'}))
	f.Add(true, reply(-1, -1, 0, []byte{0, 0, 0, 1, 0, 0, 0, 3, 0x7f, 0xff, 0xff, 0xff}))
	f.Add(true, []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(true, []byte{0x40, 0, 0, 0})
	f.Add(true, []byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(true, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(false, handshake(0, 1))
	f.Add(false, handshake(-1, 1))
	f.Add(false, handshake(math.MaxInt32, 1))
	f.Add(false, handshake(1, 1))
	f.Add(false, handshake(4000, 0))
	f.Add(false, slices.Concat(handshake(4000, 1), reply(-1000, 1, 0, nil)))
	f.Add(false, handshake(4000, 1)[:12])
	f.Add(false, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, shakeHands bool, said []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		synctest.Test(t, func(t *testing.T) { converse(t, shakeHands, said) })
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(allocLimit))
	})
}

func converse(t *testing.T, shakeHands bool, said []byte) {
	n := newNetwork(t)
	c, _ := open(t, n)
	p := <-n.peers
	n.hang.Store(true) // this is the only connection
	<-p.connect
	if shakeHands {
		p.send(handshake(4000, 0x51))
		synctest.Wait()
	}
	done := start(t.Context(), c, &conduit.Call{Op: 3})
	synctest.Wait()
	p.send(said)
	time.Sleep(5 * time.Second)
	require.NoError(t, p.Close())
	<-done
	began := time.Now()
	require.NoError(t, ignoreUnconfirmed(c.Close()))
	require.LessOrEqual(t, time.Since(began), 2*time.Second)
}
