// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// WithoutListener starts a proxy that listens nowhere: it serves only clients that connect in memory, with [Proxy.Dial].
// A listener is what keeps the fake clock of testing/synctest from advancing.
func WithoutListener() Option {
	return plain(func(p *Proxy) { p.listens = false })
}

// WithDialer sets how the proxy connects to its target, in the form of (*net.Dialer).DialContext, which is the default. A server in memory
// has such a function, and so has a host of an ensemble's network. A connection that has a method CloseWrite, as one over TCP has, is told
// with it when the client ends its sending; another is closed.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return option(dial != nil, func(p *Proxy) { p.dialTarget = dial }, "nil dialer: leave the option out for TCP")
}

// Dial connects to the proxy in memory, whatever network and address are named: no socket is opened on the client's side. It has the
// form of (*net.Dialer).DialContext, so clients can use it as their dialer.
//
// It does not block. It fails when ctx has ended, and with ECONNREFUSED after [Proxy.Close] and while connections are refused.
func (p *Proxy) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("zkproxy: dial: %w", context.Cause(ctx))
	}
	client, ours := memoryPipe()
	if !p.admit(ours) {
		return nil, fmt.Errorf("zkproxy: dial: %w", syscall.ECONNREFUSED)
	}
	return client, nil
}

// memoryConn is one end of a connection in memory. It uses one net.Pipe per direction, so that the directions can end one by one, as
// with a socket. A write waits until it is read.
type memoryConn struct{ in, out net.Conn }

func memoryPipe() (client, server net.Conn) {
	requestsIn, requestsOut := net.Pipe()
	repliesIn, repliesOut := net.Pipe()
	return memoryConn{in: repliesIn, out: requestsOut}, memoryConn{in: requestsIn, out: repliesOut}
}

func (c memoryConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c memoryConn) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c memoryConn) LocalAddr() net.Addr         { return c.out.LocalAddr() }
func (c memoryConn) RemoteAddr() net.Addr        { return c.in.RemoteAddr() }

// CloseWrite ends the stream to the other end.
func (c memoryConn) CloseWrite() error { return c.out.Close() }

func (c memoryConn) Close() error { return errors.Join(c.in.Close(), c.out.Close()) }

// Deadlines of a connection that the other end has closed need not be set, which a net.Pipe calls an error and a socket does not.

func (c memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c memoryConn) SetReadDeadline(t time.Time) error {
	_ = c.in.SetReadDeadline(t)
	return nil
}

func (c memoryConn) SetWriteDeadline(t time.Time) error {
	_ = c.out.SetWriteDeadline(t)
	return nil
}
