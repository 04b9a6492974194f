// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// deadlines is a socket that keeps the deadlines of its writes.
type deadlines struct {
	net.Conn
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

func (d *deadlines) Write(b []byte) (int, error) { return len(b), nil }

// TestConnWriteKeepsADeadlineThatWillDo, and only such a one: it comes when the server would be
// taken for dead, or up to an eighth earlier.
func TestConnWriteKeepsADeadlineThatWillDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		socket := new(deadlines)
		c := &conn{socket: socket, backlog: backlog{granted: 12 * time.Second}}
		write := func() {
			must.Get(c.write([]byte("x"), c.writeByLocked()))(t)
		}
		began := time.Now()
		_, err := c.write(nil, began.Add(time.Minute)) // the limit of the handshake
		require.NoError(t, err)
		for range 4 {
			write()
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		write()
		require.Equal(t, []time.Time{
			began.Add(time.Minute), began.Add(8 * time.Second), began.Add(1200*time.Millisecond + 8*time.Second),
			began.Add(1600*time.Millisecond + time.Hour + 8*time.Second),
		}, socket.set)
	})
}
