// SPDX-License-Identifier: Apache-2.0

// Command testing strikes the time, from one replica at a time. Its tests show how to test what
// a program does when its connection or its session is lost:
//
//	go test ./examples/testing
package main

import (
	"context"
	"errors"
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
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "clock", "`name` of this replica")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *connect, *name); err != nil {
		panic(err)
	}
}

func run(ctx context.Context, w io.Writer, connect, name string) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	return keepTime(ctx, client, w, name)
}

// keepTime is the application, as far as tests go: it takes a client, not an address, so
// that a test can give it one that is in memory. It strikes each second while it holds the
// lock, and contends again after a loss. It returns nil when ctx has ended.
func keepTime(ctx context.Context, client *framework.Framework, w io.Writer, name string) error {
	mutex, err := locks.NewInterProcessMutex(client, "/examples/clock", locks.WithLabel(name))
	if err != nil {
		return err
	}
	for {
		err := mutex.Do(ctx, func(ctx context.Context) error { return strike(ctx, w, name) })
		var lost *locks.LostError
		switch {
		case errors.As(err, &lost) && ctx.Err() == nil:
			fmt.Fprintf(w, "%s has lost the lock: %v\n", name, lost.Reason)
		case errors.Is(err, context.Canceled):
			return nil
		default:
			return err
		}
	}
}

// strike ends with its context, which ends with the lease.
func strike(ctx context.Context, w io.Writer, name string) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case now := <-second.C:
			fmt.Fprintf(w, "%s strikes %s\n", name, now.UTC().Format(time.TimeOnly))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
