// SPDX-License-Identifier: Apache-2.0

// Command standby is a service with one active replica and hot standbys:
//
//	go run ./examples/devserver &
//	go run ./examples/standby -id a -http 127.0.0.1:8081
//	go run ./examples/standby -id b -http 127.0.0.1:8082   # in another terminal
//
// The leader works, the others wait. GET /leading answers 200 at the leader and
// 503 elsewhere, so a load balancer can follow the leader. SIGTERM hands over to
// the next replica at once. After a kill -9 the others wait until the session of
// the leader times out.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	id := flag.String("id", "", "`name` of this replica")
	address := flag.String("http", "127.0.0.1:8080", "`host:port` to answer GET /leading at")
	flag.Parse()
	if err := run(*connect, *id, *address); err != nil {
		fmt.Fprintln(os.Stderr, "standby:", err)
		os.Exit(1)
	}
}

// run takes part in the election until a signal comes.
func run(connect, id, address string) error {
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(signalled, "tcp", address)
	if err != nil {
		return err
	}
	defer listener.Close()
	client, err := framework.Connect(signalled, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	latch, err := leader.NewLeaderLatch(client, "/examples/standby", leader.WithID(id))
	if err != nil {
		return err
	}
	if err := latch.Start(); err != nil {
		return err
	}
	defer latch.Close() // hands over
	server := &http.Server{Handler: leading(latch), ReadHeaderTimeout: time.Second}
	defer server.Close()
	ctx, fail := context.WithCancelCause(signalled)
	go func() { fail(server.Serve(listener)) }() // no load balancer finds a leader without its page
	for {
		leadership, err := latch.Await(ctx)
		switch {
		case signalled.Err() != nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		fmt.Printf("%s leads, term %d\n", id, leadership.Token())
		work(leadership.Context(ctx))
		fmt.Printf("%s no longer leads: %v\n", id, leadership.Err())
	}
}

// leading answers whether this replica leads.
func leading(latch *leader.LeaderLatch) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leading", func(w http.ResponseWriter, _ *http.Request) {
		if !latch.HasLeadership() {
			http.Error(w, "standby", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "leading")
	})
	return mux
}

// work is what only the leader does. It must return when its context ends.
func work(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// The work of the service goes here.
		case <-ctx.Done():
			return
		}
	}
}
