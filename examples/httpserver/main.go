// SPDX-License-Identifier: Apache-2.0

// Command httpserver admits at most two requests at a time to something expensive, over all
// replicas of a service:
//
//	go run ./examples/devserver &
//	go run ./examples/httpserver -http 127.0.0.1:8081 &
//	go run ./examples/httpserver -http 127.0.0.1:8082 &
//	curl 127.0.0.1:8081/render
//
// It answers 429 when all permits are taken, and 503 when ZooKeeper cannot be reached. /ready
// is for a readiness probe. "curatorctl locks /examples" shows which replicas have the permits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	address := flag.String("http", "127.0.0.1:8081", "`address` to serve on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(ctx, *connect)
	if err != nil {
		panic(err)
	}
	defer client.Close() // gives the permits back
	handler, err := newHandler(client, 2, render)
	if err != nil {
		panic(err)
	}
	server := &http.Server{Addr: *address, Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { panic(server.ListenAndServe()) }()
	<-ctx.Done()
}

// newHandler does the work at /render for as many requests at a time as there are permits.
func newHandler(client *framework.Framework, permits int, work http.HandlerFunc) (http.Handler, error) {
	semaphore, err := locks.NewInterProcessSemaphoreV2(client, "/examples/render", locks.FixedLeases(permits))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/render", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // the work reads no body, and one that does not come must not keep the connection
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
		}
		lease, err := semaphore.TryAcquire(r.Context())
		switch {
		case errors.Is(err, locks.ErrNotAcquired):
			http.Error(w, "all permits are taken", http.StatusTooManyRequests)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			defer lease.Release(r.Context())                   //nolint:errcheck // the client goes on releasing
			work(w, r.WithContext(lease.Context(r.Context()))) // whose context ends if the permit is lost
		}
	})
	mux.Handle("/ready", client.HealthHandler())
	return mux, nil
}

// render is the expensive work. It should end with the context of its request.
func render(w http.ResponseWriter, _ *http.Request) {
	<-time.After(time.Second)
	fmt.Fprintln(w, "rendered")
}
