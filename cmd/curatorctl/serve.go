// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/internal/bodies"
)

// verbServe shows the locks in a browser.
func verbServe(fs *flag.FlagSet) action {
	listen := "127.0.0.1:8080"
	fs.Func("listen", "`host:port` to serve on, without a password or TLS; default: "+listen, func(address string) error {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return errors.New("expected host:port, such as " + listen)
		}
		listen = address
		return nil
	})
	var hosts []string
	fs.Func("host", "answer for this host `name` too, beside IP addresses, localhost and the machine's name; may be repeated", func(name string) error {
		hosts = append(hosts, name)
		return nil
	})
	return func(ctx context.Context, c *call) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
		if err != nil {
			return err
		}
		if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT comes first
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
		}
		if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
			c.complainf("curatorctl: serve: %s is not of this machine alone, and the page has no password and no TLS: "+
				"all who reach it see each lock, host and session\n", address)
		}
		pages := http.NewServeMux()
		pages.Handle("/{$}", page.Handler(c.client, c.arg(0, "/"), hosts...))
		server := newPageServer(pages, maxConns)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		if err := c.println("listening on http://" + listener.Addr().String()); err != nil {
			return errors.Join(err, server.Close())
		}
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), server.Close())
		}
	}
}

// newPageServer bounds what a client can make the server wait for and keep. The page itself refuses bodies and
// limits the time of its answers. A ReadTimeout would end its streams.
func newPageServer(handler http.Handler, conns int) *http.Server {
	s := &seats{free: conns}
	s.freed.L = &s.mu
	return &http.Server{
		Handler: bodies.Within(bodies.Unread, handler), MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ConnState: s.note,
	}
}

// seats bounds how many connections a server has. When there is no other seat, a new connection gets that of the one
// that has been without a request for longest. While all have requests it waits, and others do in the system's queue.
type seats struct {
	mu    sync.Mutex
	freed sync.Cond
	free  int
	idle  []net.Conn // without a whole request, the oldest first
}

// note is called when a connection changes its state. It keeps the server from accepting others while one waits.
func (s *seats) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.idle, conn); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	switch state {
	case http.StateNew:
		for s.free == 0 {
			if len(s.idle) > 0 {
				_ = s.idle[0].Close() // it is given up
				s.idle = s.idle[1:]
			}
			s.freed.Wait()
		}
		s.free--
		s.idle = append(s.idle, conn)
	case http.StateIdle:
		s.idle = append(s.idle, conn)
	case http.StateClosed, http.StateHijacked:
		s.free++
		s.freed.Signal()
	case http.StateActive:
	}
}

// memoryLimit is above what the page keeps. Near it garbage is collected sooner.
const memoryLimit = 150 << 20

// maxConns is enough for a hundred viewers, each with a stream, and bounds what connections take.
const maxConns = 512
