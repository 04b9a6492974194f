// SPDX-License-Identifier: Apache-2.0

// Command standby is a service with one active replica and hot standbys:
//
//	go run ./examples/devserver &
//	go run ./examples/standby -id a -http 127.0.0.1:8081
//	go run ./examples/standby -id b -http 127.0.0.1:8082   # in another terminal
//
// GET /leading answers 200 at the leader and 503 elsewhere, so a load balancer can follow the
// leader. SIGTERM hands over to the next replica at once. After a kill -9 the others wait
// until the session of the leader times out.
package main

import (
	"context"
	"flag"
	"fmt"
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
	id := flag.String("id", "replica", "`name` of this replica")
	address := flag.String("http", "127.0.0.1:8080", "`host:port` to answer GET /leading at")
	flag.Parse()
	if err := run(*connect, *id, *address); err != nil {
		panic(err)
	}
}

// run takes part in the election until a signal comes, or /leading cannot be answered.
func run(connect, id, address string) error {
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(signalled, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	selector, err := leader.NewLeaderSelector(client, "/examples/standby", leader.WithID(id), leader.WithAutoRequeue())
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(signalled)
	server := &http.Server{Addr: address, Handler: leading(selector), ReadTimeout: time.Second}
	go func() { fail(server.ListenAndServe()) }()
	defer server.Close()
	err = selector.Run(ctx, func(ctx context.Context) error {
		fmt.Println(id, "leads")
		<-ctx.Done() // The work of the service goes here, and must end with its context.
		fmt.Println(id, "no longer leads:", context.Cause(ctx))
		return nil
	})
	if signalled.Err() != nil {
		return nil
	}
	return err
}

// leading answers whether this replica leads.
func leading(selector *leader.LeaderSelector) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !selector.HasLeadership() {
			http.Error(w, "standby", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "leading")
	})
}
