// SPDX-License-Identifier: Apache-2.0

// Command httpserver admits at most so many requests at a time to something expensive, over
// all replicas of a service:
//
//	go run ./examples/devserver &
//	go run ./examples/httpserver -http 127.0.0.1:8081 &
//	go run ./examples/httpserver -http 127.0.0.1:8082 &
//	curl 127.0.0.1:8081/render
//
// It answers 429 when all permits are taken and 503 when ZooKeeper cannot be reached: the
// first is for the caller to slow down, the second is an outage. /ready is for a readiness
// probe, and /debug/locks shows who has the permits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect/page"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	listen := flag.String("http", "127.0.0.1:8081", "`address` to serve on")
	permits := flag.Int("permits", 2, "how many requests are admitted at a time")
	flag.Parse()
	if err := run(*connect, *listen, *permits); err != nil {
		fmt.Fprintln(os.Stderr, "httpserver:", err)
		os.Exit(1)
	}
}

func run(connect, listen string, permits int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	handler, err := newHandler(client, permits, http.HandlerFunc(render))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	return serve(ctx, listener, handler)
}

// serve answers requests until ctx ends and those that had begun have their answers.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil // requests that take longer end with the process
}

// newHandler serves work under the semaphore.
func newHandler(client *framework.Framework, permits int, work http.Handler) (http.Handler, error) {
	semaphore, err := locks.NewInterProcessSemaphoreV2(client, "/examples/render", locks.FixedLeases(permits))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/render", limit(semaphore, work))
	mux.Handle("/ready", client.HealthHandler())
	mux.Handle("/debug/locks", page.Handler(client, "/examples"))
	return mux, nil
}

// limit runs the handler while it has a permit. Its context ends if the permit is lost.
func limit(semaphore *locks.InterProcessSemaphoreV2, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, err := semaphore.TryAcquire(r.Context())
		switch {
		case errors.Is(err, locks.ErrNotAcquired):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "all permits are taken", http.StatusTooManyRequests)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer func() {
			if err := lease.Release(context.WithoutCancel(r.Context())); err != nil {
				fmt.Fprintln(os.Stderr, "httpserver:", err)
			}
		}()
		next.ServeHTTP(w, r.WithContext(lease.Context(r.Context())))
	})
}

// render is the expensive work.
func render(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(time.Second):
		fmt.Fprintln(w, "rendered")
	case <-r.Context().Done():
		http.Error(w, context.Cause(r.Context()).Error(), http.StatusServiceUnavailable)
	}
}
