package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gocurator/curator/framework"
)

const (
	killTimeout = 5 * time.Second // for the talk with one server
	killRounds  = 10              // of all servers
	tellTimeout = 300 * time.Millisecond
)

// killSession kills the client's session from outside, as anybody can who knows
// its id and its password: a second connection takes the session over and closes it.
// Clients do not offer that, so it speaks ZooKeeper's protocol.
//
// The server that gives the session to the second connection closes that of the
// client, and so ends the client's leases: their holder is told. Only then, when told
// is closed, does killSession close the session, with which the lock's znode goes.
// It tries one server after the other, since only the one that the client is
// connected to can tell it. The client wants its session back at once, and may cut
// the second connection in its turn; so there are several rounds, until a server
// says that the session has ended.
//
// What no client can be told of in time is a session closed elsewhere while its own
// connection stays, or anything that happens while its process is paused. That is
// what the fencing token is for.
func killSession(ctx context.Context, client *framework.Framework, told <-chan struct{}) error {
	session := client.Session()
	var failures []error
	for range killRounds {
		failures = nil
		for _, server := range client.Servers() {
			err := killSessionAt(ctx, server, session.ID(), session.Password(), told)
			if err == nil {
				return nil
			}
			failures = append(failures, fmt.Errorf("at %s: %w", server, err))
		}
	}
	return errors.Join(failures...)
}

// What is sent and received, in the fields of ZooKeeper's protocol.
type (
	connectRequest struct {
		ProtocolVersion int32
		LastZxidSeen    int64
		Timeout         int32 // in milliseconds
		Session         int64
		PasswordSize    int32
		Password        [passwordSize]byte
	}
	connectResponse struct {
		ProtocolVersion int32
		Timeout         int32
		Session         int64 // 0 when the session has ended
	}
	closeRequest struct {
		Xid int32
		Op  int32
	}
	closeResponse struct {
		Xid  int32
		Zxid int64
		Err  int32
	}
)

const (
	passwordSize   = 16
	opCloseSession = -11
	maxReply       = 1 << 10 // bytes, many more than there are
)

func killSessionAt(ctx context.Context, server string, id int64, password []byte, told <-chan struct{}) error {
	if len(password) != passwordSize {
		return fmt.Errorf("a password of %d bytes, expected %d", len(password), passwordSize)
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	alive, err := takeSession(conn, id, [passwordSize]byte(password))
	if err != nil {
		return fmt.Errorf("take the session over: %w", err)
	}
	if !alive { // perhaps closed by an attempt whose answer was lost
		return nil
	}
	select {
	case <-told:
	case <-time.After(tellTimeout):
		return fmt.Errorf("took the session over, and its holder did not notice within %v", tellTimeout)
	}
	if err := closeSession(conn); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}

// takeSession makes the session that of this connection, if there still is one.
func takeSession(conn net.Conn, id int64, password [passwordSize]byte) (alive bool, err error) {
	request := connectRequest{Timeout: 10_000, Session: id, PasswordSize: passwordSize, Password: password}
	var response connectResponse
	if err := exchange(conn, request, &response); err != nil {
		return false, err
	}
	return response.Session != 0, nil
}

func closeSession(conn net.Conn) error {
	var response closeResponse
	if err := exchange(conn, closeRequest{Xid: 1, Op: opCloseSession}, &response); err != nil {
		return err
	}
	if response.Err != 0 {
		return fmt.Errorf("the server answers with error %d", response.Err)
	}
	return nil
}

// exchange sends a request and reads its response: a frame each, its length
// before it.
func exchange(conn net.Conn, request, response any) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(binary.Size(request)))
	frame, err := binary.Append(frame, binary.BigEndian, request)
	if err != nil {
		return err
	}
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var size uint32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return err
	}
	if size > maxReply {
		return fmt.Errorf("a reply of %d bytes, expected at most %d", size, maxReply)
	}
	reply := make([]byte, size)
	if _, err := io.ReadFull(conn, reply); err != nil {
		return err
	}
	// Decode leaves out what follows the fields above.
	_, err = binary.Decode(reply, binary.BigEndian, response)
	return err
}
