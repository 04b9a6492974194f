// SPDX-License-Identifier: Apache-2.0

// Command worker shares partitions of work among its replicas:
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/x
//	go run ./worker -name a &
//	go run ./worker -name b &
//	go run ./worker -name c &
//
// Each has four of twelve partitions. Kill one with kill -9: when its session has ended, the other
// two have six each. Start another one: a second later it has its share, and nothing else has
// moved.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/partition"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "worker", "`name` that others see, which no other replica has")
	partitions := flag.Int("partitions", 12, "how many there are, the same for all replicas")
	capacity := flag.Int("capacity", 1, "how much this replica takes, relative to others")
	session := flag.Duration("session", 20*time.Second, "session `timeout`: how soon the others take over when this replica is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, *connect, *name, *partitions, *capacity, *session)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run works until the context ends.
func run(ctx context.Context, w io.Writer, connect, name string, partitions, capacity int, session time.Duration) error {
	// framework.StandardErrorPolicy says why not to go below 18 s.
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(session))
	if err != nil {
		return err
	}
	defer client.Close()
	names := make([]string, partitions)
	for n := range names {
		names[n] = strconv.Itoa(n)
	}
	member, err := partition.New(client, "/examples/partitions", partition.Fixed(names...), partition.WithID(name), partition.WithCapacity(capacity))
	if err != nil {
		return err
	}
	err = member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
		work(ctx, w, name, p)
		return nil
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// work must end soon after its context. What it writes elsewhere should carry the token.
func work(ctx context.Context, w io.Writer, name string, p partition.Partition) {
	fmt.Fprintf(w, "%s works on partition %s, token %d\n", name, p.Name, p.Lease.Token())
	<-ctx.Done()
	fmt.Fprintf(w, "%s ends partition %s: %v\n", name, p.Name, context.Cause(ctx))
}
