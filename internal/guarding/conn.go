// SPDX-License-Identifier: Apache-2.0

package guarding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// acting is what acts under the sessions of this process beside it.
var acting struct {
	mu        sync.Mutex
	processes []*os.Process
	conns     map[*Conn]bool
}

// besidePatience bounds how long Beside waits for a guard.
const besidePatience = time.Second

// Beside hands over another process to all guards that this process has or will have: they end no session of this process
// before both are gone. A guard that does not answer in time is left, and the client registers anew with both. A guard
// that goes on later first reads what was written to it, and only then sees the end of this process.
func Beside(process *os.Process) {
	acting.mu.Lock()
	acting.processes = append(acting.processes, process)
	conns := slices.Collect(maps.Keys(acting.conns))
	acting.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), besidePatience)
	defer cancel()
	for _, c := range conns {
		if c.handOver(ctx, process) != nil {
			_ = c.socket.Close() // which its client sees
		}
	}
}

// Conn is the connection of a client to a guard. One goroutine may use it, besides [Beside].
type Conn struct {
	asking  sync.Mutex // from a message to its answer
	socket  *net.UnixConn
	answers chan Answer // closed at the end of the connection
	why     error       // of the end; set before answers is closed
	lost    chan struct{}
}

// Dial connects to a guard and hands this process over to its care, with those beside it. The context bounds it.
func Dial(ctx context.Context, path string) (*Conn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	socket, err := new(net.Dialer).DialContext(ctx, Network, path)
	if err != nil {
		return nil, err
	}
	c := &Conn{socket: socket.(*net.UnixConn), answers: make(chan Answer, 1), lost: make(chan struct{})} //nolint:forcetypeassert // of Network
	go c.receive()
	if err := c.introduce(ctx); err != nil {
		c.Drop()
		return nil, err
	}
	return c, nil
}

// introduce hands over this process and those beside it.
func (c *Conn) introduce(ctx context.Context) error {
	if err := checkOwner(c.socket); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	acting.mu.Lock()
	processes := append([]*os.Process{self}, acting.processes...)
	if acting.conns == nil {
		acting.conns = make(map[*Conn]bool)
	}
	acting.conns[c] = true // so one that comes now is handed over, too
	acting.mu.Unlock()
	for _, p := range processes {
		if err := c.handOver(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) handOver(ctx context.Context, process *os.Process) (err error) {
	failed := withRights(process, func(rights []byte) { err = c.ask(ctx, Registration{}, rights) })
	return errors.Join(failed, err)
}

// Register replaces the registration, and returns once the guard has it.
func (c *Conn) Register(ctx context.Context, r Registration) error { return c.ask(ctx, r, nil) }

func (c *Conn) ask(ctx context.Context, r Registration, rights []byte) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.send(ctx, r, rights); err != nil {
		return err
	}
	select {
	case answer, open := <-c.answers:
		switch {
		case !open:
			return fmt.Errorf("the guard has hung up: %w", c.why)
		case answer.Refused != "":
			return errors.New(answer.Refused)
		default:
			return nil
		}
	case <-ctx.Done():
		return fmt.Errorf("the guard does not answer: %w", ctx.Err())
	}
}

func (c *Conn) send(ctx context.Context, r Registration, rights []byte) error {
	message, err := r.encode()
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
func (c *Conn) receive() {
	defer close(c.lost)
	defer close(c.answers)
	for message := make([]byte, MaxMessage); ; {
		n, err := c.socket.Read(message)
		var answer Answer
		if err == nil {
			err = json.Unmarshal(message[:n], &answer) // without a message at the end of the connection
		}
		if c.why = err; err != nil {
			return
		}
		select {
		case c.answers <- answer:
		default:
			c.why = errors.New("it has answered a message whose sender has stopped waiting")
			return
		}
	}
}

// Lost is closed when the connection has ended.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Drop ends the connection. The guard keeps the registration for as long as this process lives.
func (c *Conn) Drop() {
	acting.mu.Lock()
	delete(acting.conns, c)
	acting.mu.Unlock()
	_ = c.socket.Close() // nothing is unwritten
	<-c.lost
}

// Withdraw ends the registration and the connection. It does not wait for a guard that is stopped.
func (c *Conn) Withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.send(ctx, Registration{}, nil) // a guard that is gone has none
	c.Drop()
}
