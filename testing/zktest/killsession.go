// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

const (
	killTimeout    = 10 * time.Second
	killAttempts   = 10         // at each server
	opCloseSession = 1<<32 - 11 // -11 as 32 bits
	passwordSize   = 16
)

// KillSession ends the client's session at the server, as Curator's test class of
// that name does. A second connection takes the session over with its id and
// password, and closes it. The client loses its connection, learns when it
// reconnects that the session has expired, and opens another. When KillSession
// returns, the session's ephemeral nodes are gone.
//
// A client that is quick takes its session back before it is closed, which cuts
// the second connection. KillSession then tries again, until the session is closed
// or no longer known to the server that had it. The client may thus see its
// connection lost and restored before the session ends.
//
// It goes to the client's servers, one after the other until one has ended the
// session. If the client reaches its servers only through a proxy, pass the servers.
// Where none can, the test fails. It connects as the client does: in memory to a
// server [zkserver.WithoutListener], from the client's host in an
// [ensemble.Network], and with the client's TLS.
func KillSession(tb testing.TB, client *framework.Framework, servers ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if _, err := EndSession(ctx, client, servers...); err != nil {
		tb.Fatal(err)
	}
}

// EndSession is KillSession for programs that are no tests. It returns the session
// that it was about. The context bounds all attempts.
func EndSession(ctx context.Context, client *framework.Framework, servers ...string) (*framework.Session, error) {
	session := client.Session()
	if session == nil {
		return nil, errors.New("zktest: the client has no session to kill")
	}
	if len(servers) == 0 {
		servers = client.Servers()
	}
	var failures []error
	for _, server := range servers {
		err := killSession(ctx, client.Dialer(), server, session)
		if err == nil {
			return session, nil
		}
		failures = append(failures, err)
	}
	return session, fmt.Errorf("zktest: kill session %v: %w", session, errors.Join(failures...))
}

// killSession makes several attempts at one server.
func killSession(ctx context.Context, dial framework.Dialer, server string, session *framework.Session) (err error) {
	taken := false // by an earlier attempt
	for range killAttempts {
		var known bool
		known, err = takeAndClose(ctx, dial, server, session)
		switch {
		case err != nil:
			taken = taken || known
		case isKilledAtKeeper(server, session):
			return nil
		case known || taken: // if no longer known, it was closed, and the answer was lost
			return nil
		default:
			return fmt.Errorf("%s does not know the session", server)
		}
	}
	return fmt.Errorf("%s: %w", server, err)
}

// isKilledAtKeeper ends a session at a server of [EachBackend] that gives every connection another session.
func isKilledAtKeeper(server string, session *framework.Session) bool {
	s, ok := keepers.Load(server)
	return ok && s.(*zkserver.Server).KillSession(session.ID())
}

// takeAndClose takes the session over and closes it, or returns that the server
// does not know it.
func takeAndClose(
	ctx context.Context, dial framework.Dialer, server string, session *framework.Session,
) (known bool, err error) {
	conn, err := dial(ctx, "tcp", server)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return false, err
		}
	}
	granted, err := handshake(conn, session.ID(), session.Password())
	if err != nil {
		return false, fmt.Errorf("handshake: %w", err)
	}
	if granted != session.ID() {
		return false, nil
	}
	const xid = 1
	header := binary.BigEndian.AppendUint32(nil, xid)
	header = binary.BigEndian.AppendUint32(header, opCloseSession)
	if _, err := exchange(conn, header); err != nil {
		return true, fmt.Errorf("close the session: %w", err)
	}
	return true, nil
}

// handshake sends ZooKeeper's ConnectRequest and returns the session id of the
// response, 0 when the server refuses the session.
func handshake(conn net.Conn, id int64, password []byte) (granted int64, err error) {
	b := binary.BigEndian.AppendUint32(nil, 0)  // protocol version
	b = binary.BigEndian.AppendUint64(b, 0)     // last zxid seen
	b = binary.BigEndian.AppendUint32(b, 10000) // timeout in milliseconds
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	b = append(b, password...)
	reply, err := exchange(conn, b)
	if err != nil {
		return 0, err
	}
	const sessionAt = 8
	if len(reply) < sessionAt+8+4+passwordSize {
		return 0, fmt.Errorf("a connect response of %d bytes", len(reply))
	}
	return int64(binary.BigEndian.Uint64(reply[sessionAt:])), nil
}

func exchange(conn net.Conn, body []byte) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > 1<<10 {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	reply := make([]byte, n)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
