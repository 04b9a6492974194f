// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
)

// way is how a client process reaches the servers: directly, or through a proxy
// that can hurt single frames.
type way struct {
	servers []string
	proxies []*zkproxy.Proxy // one a server, or none
	history *history
	tls     *tls.Config

	mu     sync.Mutex
	conns  map[*net.TCPConn]bool // the client's, for resets
	remove []func()              // what takes the interceptors back
}

func newWay(cfg clientConfig, h *history) (*way, error) {
	w := &way{servers: cfg.Servers, history: h, conns: map[*net.TCPConn]bool{}}
	if cfg.Certificates != "" {
		var err error
		if w.tls, err = clientTLS(cfg.Certificates); err != nil {
			return nil, err
		}
	}
	if !cfg.Proxied {
		return w, nil
	}
	for _, server := range cfg.Servers {
		proxy, err := zkproxy.Start(server)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.proxies = append(w.proxies, proxy)
		proxy.Intercept(w.noteDeletion)
	}
	return w, nil
}

// noteDeletion records what a server says to have deleted.
func (w *way) noteDeletion(frame zkproxy.Frame) zkproxy.Verdict {
	if frame.Kind == zkproxy.Reply && frame.Op == zkproxy.OpDelete && frame.Err == 0 && strings.HasPrefix(frame.Path, locksFolder) {
		w.history.add(event{Kind: deleted, Node: frame.Path, Zxid: frame.Zxid})
	}
	return zkproxy.Pass
}

// connectString names what the client is to connect to.
func (w *way) connectString() string {
	if w.proxies == nil {
		return strings.Join(w.servers, ",")
	}
	var addrs []string
	for _, p := range w.proxies {
		addrs = append(addrs, p.Addr())
	}
	return strings.Join(addrs, ",")
}

// options returns the options of the client.
func (w *way) options(cfg clientConfig) []framework.Option {
	options := []framework.Option{
		framework.WithSessionTimeout(cfg.SessionTimeout),
		framework.WithRetryPolicy(retry.BoundedExponentialBackoff(20*time.Millisecond, time.Second, 1000)),
		framework.WithServerTiming(tick, syncLimit),
		framework.WithDialer(w.dial),
	}
	if w.tls != nil {
		options = append(options, framework.WithTLS(w.tls))
	}
	if cfg.Guarded {
		options = append(options, guarded()...)
	}
	return options
}

// dial is the client's dialer. It remembers the connection, and records where it leads.
func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.history.add(event{Kind: dialed, Server: w.hostBehind(address), Conn: conn.LocalAddr().String()})
	w.mu.Lock()
	defer w.mu.Unlock()
	tcp := conn.(*net.TCPConn)
	w.conns[tcp] = true
	return &trackedConn{TCPConn: tcp, way: w}, nil
}

// hostBehind is the host of the server at an address, or behind the proxy that is there.
func (w *way) hostBehind(address string) string {
	if i := slices.IndexFunc(w.proxies, func(p *zkproxy.Proxy) bool { return p.Addr() == address }); i >= 0 {
		address = w.servers[i]
	}
	return hostOf(address)
}

// hostOf is the host of an address, by which records name a server: its ports are several.
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// trackedConn is forgotten when it is closed.
type trackedConn struct {
	*net.TCPConn
	way *way
}

func (c *trackedConn) Close() error {
	c.way.mu.Lock()
	delete(c.way.conns, c.TCPConn)
	c.way.mu.Unlock()
	err := c.TCPConn.Close()
	c.way.history.add(event{Kind: hungUp, Conn: c.LocalAddr().String()})
	return err
}

// obey carries out an order that concerns the way.
func (w *way) obey(o order) error {
	switch o.Do {
	case doReset:
		return w.reset()
	case doSlow:
		for _, p := range w.proxies {
			p.Rate(o.Rate)
		}
	case doFate:
		w.intercept(o)
	case doHeal:
		for _, p := range w.proxies {
			p.Rate(0)
			p.Heal()
		}
		w.passAll()
	default:
		return fmt.Errorf("nemesis: order %q does not concern the way", o.Do)
	}
	return nil
}

// passAll ends all interception.
func (w *way) passAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, remove := range w.remove {
		remove()
	}
	w.remove = nil
}

// reset ends all connections with a reset, as a router does that has forgotten them.
func (w *way) reset() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		err = errors.Join(err, conn.SetLinger(0), conn.Close())
	}
	clear(w.conns)
	return err
}

// intercept lets the k-th frame from now on meet its fate, at whichever server.
func (w *way) intercept(o order) {
	f := fates[o.Which]
	var mu sync.Mutex
	left := o.K
	judge := func(frame zkproxy.Frame) zkproxy.Verdict {
		if frame.Op != o.Op || frame.Direction != f.direction || frame.Index == 0 {
			return zkproxy.Pass
		}
		mu.Lock()
		defer mu.Unlock()
		if left--; left != 0 {
			return zkproxy.Pass
		}
		w.history.add(event{Kind: intercepted, Value: operationName(o.Op), Error: string(o.Which)})
		return f.verdict
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.proxies {
		w.remove = append(w.remove, p.Intercept(judge))
	}
}

// operationName is the name of an opcode that campaigns intercept.
func operationName(op int32) string {
	switch op {
	case zkproxy.OpCreate2:
		return "create"
	case zkproxy.OpDelete:
		return "delete"
	case zkproxy.OpGetChildren2:
		return "list"
	case zkproxy.OpGetData:
		return "get"
	case zkproxy.OpMulti:
		return "transaction"
	default:
		return "other"
	}
}

func (w *way) close() (err error) {
	for _, p := range w.proxies {
		err = errors.Join(err, p.Close())
	}
	return err
}
