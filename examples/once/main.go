// Command once runs a job once per day, however many replicas start it:
//
//	go run ./examples/devserver &
//	go run ./examples/once     # runs the job
//	go run ./examples/once     # finds it done
//
// A lock alone would make every replica run it, one after the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	day := flag.String("day", time.Now().UTC().Format(time.DateOnly), "`key` of the run")
	flag.Parse()
	if err := run(*connect, *day); err != nil {
		fmt.Fprintln(os.Stderr, "once:", err)
		os.Exit(1)
	}
}

// run runs the job of a day unless another replica has.
func run(connect, day string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	once, err := leader.NewOnce(client, "/examples/report")
	if err != nil {
		return err
	}
	ran, err := once.Do(ctx, day, report)
	if err != nil {
		return err
	}
	if !ran {
		fmt.Printf("%s: done already\n", day)
	}
	return nil
}

// report is the job. It returns early when its context ends: then the run does
// not count, and another replica takes over.
func report(ctx context.Context) error {
	fmt.Printf("writing the report, token %d\n", locks.LeaseFrom(ctx).Token())
	return ctx.Err()
}
