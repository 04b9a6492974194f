// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// A server that has lost its quorum may serve reads to clients that accept them with one
// more byte in the connect request. It opens a session that no other server knows. Its
// answer about a session of the quorum means nothing, because it has no leader to ask.
// ZooKeeper 3.8 closes the connection if it knows the session, and calls the session
// expired if it does not. So a connect request names a quorum session only while its
// lease lasts, and any answer of a read-only server to such a request is refused. Once
// the lease is over, and after a session of a read-only server, a connect request asks
// for a new session.
//
// go-zookeeper knows nothing of this: it writes the request and reads the answer without
// that byte.

const (
	seekMinPause = 100 * time.Millisecond
	seekMaxPause = 10 * time.Second
)

var (
	errReadOnlyServer  = errors.New("the server is in read-only mode and cannot know the session")
	errNoLocalSessions = errors.New("the server is in read-only mode and opens no sessions: it needs localSessionsEnabled=true")
)

// isRefusedSession reports whether a frame that should be a connect response is the reply
// of a read-only server without local sessions, for which a new session is a write.
func isRefusedSession(frame []byte) bool {
	return len(frame) == wire.ReplyHeader && int32(binary.BigEndian.Uint32(frame[wire.ReplyHeader-4:])) == wire.CodeNotReadOnly
}

// withReadOnly returns a connect request that read-only servers accept.
func withReadOnly(frame []byte) []byte {
	frame = append(append(make([]byte, 0, len(frame)+1), frame...), 1)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-wire.LengthSize))
	return frame
}

// seekWriter returns a server that takes writes and is not the given one. It asks all servers in turn,
// with growing pauses, and returns false once the context ends.
func seekWriter(
	ctx context.Context, all func() map[target]bool, from target, ask func(ctx context.Context, server target, word string) (string, error),
) (server target, found bool) {
	for pause := seekMinPause; ; pause = min(2*pause, seekMaxPause) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return target{}, false
		}
		for server := range all() {
			if server == from {
				continue
			}
			if answer, err := ask(ctx, server, "isro"); err == nil && strings.TrimSpace(answer) == "rw" {
				return server, true
			}
		}
	}
}
