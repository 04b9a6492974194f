package conduit

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// A server that has lost its quorum may serve reads to clients that say, with one more
// byte of the connect request, that this is enough for them. It makes up a session that
// no other server knows. What it says about a session of the quorum is not worth
// anything, as it has nobody to ask: ZooKeeper 3.8 closes the connection if it knows the
// session, and calls it expired if it does not. So a connect request names one only as
// long as its lease lasts, and then whatever such a server answers is refused. Once the
// lease is over, and after a session of a read-only server, a connect request asks for
// a new one.
//
// go-zookeeper knows nothing of all this: it gives the request without the byte and
// reads an answer without it.

const (
	seekMinPause = 100 * time.Millisecond
	seekMaxPause = 10 * time.Second
)

var (
	errReadOnlyServer  = errors.New("the server is in read-only mode and cannot know the session")
	errNoLocalSessions = errors.New("the server is in read-only mode and opens no sessions: it needs localSessionsEnabled=true")
)

// isRefusedSession tells whether what should be a connect response is the reply of a
// read-only server without local sessions, to which a new session is a write.
func isRefusedSession(frame []byte) bool {
	return len(frame) == wire.ReplyHeader && int32(binary.BigEndian.Uint32(frame[wire.ReplyHeader-4:])) == wire.CodeNotReadOnly
}

// withReadOnly returns a connect request that read-only servers accept.
func withReadOnly(frame []byte) []byte {
	frame = append(append(make([]byte, 0, len(frame)+1), frame...), 1)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-wire.LengthSize))
	return frame
}

// startsFresh reports whether a connect request must ask for a new session, instead of
// the one that go-zookeeper knows.
func (c *Conduit) startsFresh(over bool) bool { return c.cfg.ReadOnly && (over || c.readOnly.Load()) }

// seekWriter looks for a server that takes writes, and leaves that of this connection
// for it. If it is this one that gets a quorum again, it ends the connection itself.
func (c *conn) seekWriter() {
	for pause := seekMinPause; ; pause = min(2*pause, seekMaxPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.done:
			timer.Stop()
			return
		}
		for _, server := range c.owner.hosts.all() {
			if server != c.server && c.owner.takesWrites(server) {
				c.owner.hosts.prefer(server)
				c.fail(errors.New("a server that takes writes is there: " + server))
				return
			}
		}
	}
}

// takesWrites asks a server with the four-letter word isro.
func (c *Conduit) takesWrites(server string) bool {
	ctx, cancel := context.WithTimeout(c.ctx, min(c.cfg.ConnectTimeout, c.cfg.SessionTimeout/patienceShare))
	defer cancel()
	answer, err := c.ask(ctx, server, "isro")
	return err == nil && strings.TrimSpace(answer) == "rw"
}
