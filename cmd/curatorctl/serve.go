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
	"time"

	"github.com/gocurator/curator/recipes/inspect/page"
)

// verbServe shows the locks in a browser.
func verbServe(fs *flag.FlagSet) func(context.Context, *call) error {
	listen := fs.String("listen", "127.0.0.1:8080", "`address` to serve on")
	var hosts []string
	fs.Func("host", "answer for this host `name` too, beside IP addresses, localhost and the machine's name; may be repeated", func(name string) error {
		hosts = append(hosts, name)
		return nil
	})
	return func(ctx context.Context, c *call) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
		if err != nil {
			return err
		}
		if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT comes first
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
		}
		server := newPageServer(page.Handler(c.client, c.arg(0, "/"), hosts...), maxConns)
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
// limits the time of its answers. A ReadTimeout would end its streams. More connections than conns wait in the
// system's queue.
func newPageServer(handler http.Handler, conns int) *http.Server {
	slots := make(chan struct{}, conns)
	return &http.Server{
		Handler: handler, MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				slots <- struct{}{} // no other is accepted meanwhile; Close of the server ends those that have a slot
			case http.StateClosed, http.StateHijacked:
				<-slots
			case http.StateActive, http.StateIdle:
			}
		},
	}
}

// memoryLimit is above what the page keeps. Near it garbage is collected sooner.
const memoryLimit = 150 << 20

// maxConns is enough for a hundred viewers, each with a stream, and bounds what connections take.
const maxConns = 512
