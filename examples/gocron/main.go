// SPDX-License-Identifier: Apache-2.0

// Command gocron runs the jobs of github.com/go-co-op/gocron in one of several replicas:
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/gocron
//	go run . -name a &
//	go run . -name b &
//
// The leader runs all jobs, and another replica takes over when it ends. A lock for each run
// would let replicas whose clocks differ run a job one after the other.
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

	"github.com/go-co-op/gocron/v2"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "replica", "`name` of this replica")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *connect, *name, time.Second); err != nil {
		panic(err)
	}
}

// run schedules a job until ctx ends.
func run(ctx context.Context, w io.Writer, connect, name string, every time.Duration) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	latch, err := leader.NewLeaderLatch(client, "/examples/gocron/leader", leader.WithID(name))
	if err != nil {
		return err
	}
	if err := latch.Start(); err != nil {
		return err
	}
	defer latch.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector{latch}))
	if err != nil {
		return err
	}
	job := func() { fmt.Fprintf(w, "%s writes the report\n", name) }
	if _, err := scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(job)); err != nil {
		return errors.Join(err, scheduler.Shutdown())
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown() // before the latch closes: the job ends, and then another replica leads
}

// elector is a gocron.Elector.
type elector struct{ latch *leader.LeaderLatch }

// IsLeader returns an error if another replica leads.
func (e elector) IsLeader(context.Context) error {
	if !e.latch.HasLeadership() {
		return errors.New("another replica leads")
	}
	return nil
}
