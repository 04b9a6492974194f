// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// suspendable is a client's machine, whose network may stop.
type suspendable struct {
	n         *memnet
	suspended atomic.Int64
	stuck     atomic.Bool   // writes block, and dials do
	blocked   chan struct{} // receives a value when one does
}

func newSuspendable(n *memnet) *suspendable {
	s := &suspendable{n: n, blocked: make(chan struct{}, 100)}
	s.suspended.Store(int64(time.Hour)) // before the client began
	return s
}

func (s *suspendable) options() []framework.Option {
	return []framework.Option{
		framework.WithDialer(s.dial),
		framework.SuspendedFor(func() time.Duration { return time.Duration(s.suspended.Load()) }),
	}
}

func (s *suspendable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.stuck.Load() {
		s.blocked <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	socket, err := s.n.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	unread, _ := net.Pipe()
	return &stuckConn{socket, s, unread}, nil
}

// stuckConn is a connection whose writes block once the network has stopped.
type stuckConn struct {
	net.Conn
	machine *suspendable
	unread  net.Conn
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if c.machine.stuck.Load() {
		c.machine.blocked <- struct{}{}
		return c.unread.Write(b)
	}
	return c.Conn.Write(b)
}

func (c *stuckConn) SetWriteDeadline(t time.Time) error {
	if err := c.unread.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *stuckConn) Close() error {
	if err := c.unread.Close(); err != nil {
		return err
	}
	return c.Conn.Close()
}

// TestSuspendedHoldDoesNotOutliveASuspension: the servers' clocks go on while the machine of the
// client is suspended. The deadline has passed when it resumes, and what is held ends
// without waiting for a timer that stood still, whatever the connection does.
func TestSuspendedHoldDoesNotOutliveASuspension(t *testing.T) {
	for name, interrupt := range map[string]func(t *testing.T, f *framework.Framework, s *suspendable){
		"silent": func(_ *testing.T, _ *framework.Framework, s *suspendable) {
			s.n.setHole(true) // nothing confirms the session any more
		},
		"disconnected": func(_ *testing.T, _ *framework.Framework, s *suspendable) {
			s.stuck.Store(true)
			s.n.cut()
			<-s.blocked // in the dial
		},
		"blocked in a write": func(t *testing.T, f *framework.Framework, s *suspendable) {
			s.stuck.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-s.blocked
				cancel()
			}()
			require.Error(t, f.Sync(ctx, "/"))
		},
	} {
		for _, policy := range []framework.ErrorPolicy{framework.SessionErrorPolicy, framework.QuorumErrorPolicy} {
			t.Run(policy.String()+", "+name, func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *memnet) {
					s := newSuspendable(n)
					f, states := n.newClient(t, s.options()...)
					require.NoError(t, f.Start())
					states.expect(t, framework.Connected)
					session := f.Session()
					held, release, err := session.Hold(t.Context(), policy)
					require.NoError(t, err)
					defer release()
					time.Sleep(3 * memSession) // a clock that is ahead by a constant is none that jumps
					require.NoError(t, held.Err())

					s.suspended.Add(int64(memSession / 10)) // short enough
					time.Sleep(memSession / 10)
					require.NoError(t, held.Err())

					interrupt(t, f, s)
					require.NoError(t, held.Err())
					s.suspended.Add(int64(memSession))
					began := time.Now()
					<-held.Done()
					require.False(t, time.Now().Before(session.HoldDeadline(policy)))
					require.LessOrEqual(t, time.Since(began), time.Second)
					synctest.Wait()
					require.Error(t, session.Err())
				})
			})
		}
	}
}
