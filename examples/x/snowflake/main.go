// SPDX-License-Identifier: Apache-2.0

// Command snowflake makes ids that no other process makes: 41 bits of time, 10 of the process, 12 of a count.
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/x
//	go run ./snowflake &
//	go run ./snowflake &
//
// The number of the process comes from ZooKeeper. When it is lost, as by an outage, ids wait until there is another.
// The delay is for clocks that differ by less than five seconds.
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
	"github.com/gocurator/curator/recipes/x/slots"
)

const delay = 5 * time.Second

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	session := flag.Duration("session", 20*time.Second, "session `timeout`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *connect, *session); err != nil {
		panic(err)
	}
}

// run writes an id each millisecond until ctx ends.
func run(ctx context.Context, w io.Writer, connect string, session time.Duration) error {
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(session))
	if err != nil {
		return err
	}
	defer client.Close()
	numbers, err := slots.New(client, "/examples/snowflake", 1<<10, slots.WithDelay(delay))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		slot, err := numbers.Take(ctx)
		if err != nil {
			return err
		}
		for g := (generator{slot: slot}); ctx.Err() == nil && slot.Err() == nil; <-time.After(time.Millisecond) {
			if id, err := g.next(); err == nil {
				fmt.Fprintln(w, id)
			}
		}
		_ = slot.Release(ctx) // it may be lost
	}
	return nil
}
