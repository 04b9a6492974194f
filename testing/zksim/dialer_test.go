// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestPausedConnection: what a paused process sends and receives arrives as the pause ends, even when it has closed the connection.
func TestPausedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		near, far := net.Pipe()
		c := &conn{Conn: near, host: h, mute: make(chan struct{}), closed: make(chan struct{})}
		require.True(t, h.add(c))

		resume := h.pause()
		must.Get(c.Write([]byte("late")))(t)
		require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := far.Read(make([]byte, 9))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing is sent")
		require.NoError(t, far.SetReadDeadline(time.Time{}))

		go func() { _, _ = far.Write([]byte("reply")) }()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = c.Read(make([]byte, 9))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing is received")
		require.NoError(t, c.Close())

		go resume()
		require.Equal(t, "late", string(must.Get(io.ReadAll(far))(t)))
		require.NoError(t, far.Close())
	})
}
