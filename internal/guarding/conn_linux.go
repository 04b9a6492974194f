// SPDX-License-Identifier: Apache-2.0

package guarding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// conn is the connection of a client to a guard.
type conn struct {
	socket  *net.UnixConn
	answers chan Answer // closed at the end of the connection
	lost    chan struct{}
}

// Dial connects to a guard and hands this process over to its care. If a program is given, it takes what the program has
// left with the guard, if there is anything. The context bounds it.
func Dial(ctx context.Context, path, program string) (Keeper, *Registration, error) {
	socket, err := new(net.Dialer).DialContext(ctx, Network, path)
	if err != nil {
		return nil, nil, err
	}
	c := &conn{socket: socket.(*net.UnixConn), answers: make(chan Answer, 1), lost: make(chan struct{})} //nolint:forcetypeassert // of Network
	go c.receive()
	left, err := c.introduce(ctx, program)
	if err != nil {
		_ = socket.Close() // the guard has no registration
		<-c.lost
		return nil, nil, err
	}
	return c, left, nil
}

// introduce hands over a descriptor of this process.
func (c *conn) introduce(ctx context.Context, program string) (left *Registration, sent error) {
	if err := checkOwner(c.socket); err != nil {
		return nil, err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	err = self.WithHandle(func(handle uintptr) {
		left, sent = c.ask(ctx, Registration{Program: program}, syscall.UnixRights(int(handle)))
	})
	if err != nil {
		return nil, fmt.Errorf("the kernel cannot show the end of this process, expected Linux 5.4 or later: %w", err)
	}
	return left, sent
}

// checkOwner refuses a guard of another user, which must not get the password.
func checkOwner(socket *net.UnixConn) error {
	peer, err := Peer(socket)
	if err == nil && int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		err = fmt.Errorf("the guard runs as user %d, expected %d or 0", peer.Uid, os.Geteuid())
	}
	return err
}

// Peer returns the process at the other end of a socket, as it was when that connected or listened.
func Peer(socket *net.UnixConn) (peer *syscall.Ucred, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return peer, errors.Join(err, failed)
}

func (c *conn) Register(ctx context.Context, r Registration) error {
	_, err := c.ask(ctx, r, nil)
	return err
}

func (c *conn) ask(ctx context.Context, r Registration, rights []byte) (left *Registration, err error) {
	if err := c.send(ctx, r, rights); err != nil {
		return nil, err
	}
	select {
	case answer, open := <-c.answers:
		switch {
		case !open:
			return nil, errors.New("the guard has hung up")
		case answer.Refused != "":
			return nil, errors.New(answer.Refused)
		default:
			return answer.Left, nil
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("the guard does not answer: %w", ctx.Err())
	}
}

func (c *conn) send(ctx context.Context, r Registration, rights []byte) error {
	message, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("a registration of %d bytes, expected %d at most", len(message), MaxMessage)
	}
	deadline, _ := ctx.Deadline() // the zero value is none
	if err := c.socket.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, _, err = c.socket.WriteMsgUnix(message, rights, nil)
	return err
}

// receive reads the answers until the end of the connection.
func (c *conn) receive() {
	defer close(c.lost)
	defer close(c.answers)
	for message := make([]byte, MaxMessage); ; {
		n, err := c.socket.Read(message)
		if err != nil || n == 0 {
			return
		}
		var answer Answer
		if err := json.Unmarshal(message[:n], &answer); err != nil {
			return
		}
		select {
		case c.answers <- answer:
		default: // to a message whose sender has stopped waiting
			return
		}
	}
}

func (c *conn) Lost() <-chan struct{} { return c.lost }

func (c *conn) Drop() {
	_ = c.socket.Close() // nothing is unwritten
	<-c.lost
}

// Withdraw does not wait for a guard that is stopped.
func (c *conn) Withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.send(ctx, Registration{}, nil) // a guard that is gone has none
	c.Drop()
}
