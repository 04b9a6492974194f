// SPDX-License-Identifier: Apache-2.0

// Command ownrecipe has a lock of its own, a pool of workers that tenants share. At most two
// jobs run at a time, and at most one of each tenant:
//
//	go run ./examples/devserver &
//	go run ./examples/ownrecipe -tenant blue &
//	go run ./examples/ownrecipe -tenant blue &
//	go run ./examples/ownrecipe -tenant green &
//
// The second job of blue waits although a worker is free, and green enters before it. The
// driver in pool.go decides that. Waiting, loss, cancellation and cleanup come from
// locks.LockInternals. The test checks the driver with locktest.CheckDriver.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	tenant := flag.String("tenant", "blue", "`name` of the tenant that the job is for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, "127.0.0.1:2181", *tenant, 3*time.Second); err != nil {
		panic(err)
	}
}

// run runs one job of the tenant.
func run(ctx context.Context, w io.Writer, connect, tenant string, takes time.Duration) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	worker, err := newPool(client, "/examples/pool", tenant, 2)
	if err != nil {
		return err
	}
	return locks.Do(ctx, worker, func(ctx context.Context) error {
		fmt.Fprintf(w, "%s works, token %d\n", tenant, locks.LeaseFrom(ctx).Token())
		<-time.After(takes)
		return ctx.Err()
	})
}
