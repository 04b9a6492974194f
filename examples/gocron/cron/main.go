// SPDX-License-Identifier: Apache-2.0

// Command cron runs a job in one of several replicas, on a schedule that github.com/robfig/cron parses:
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/gocron
//	go run ./cron -name a &
//	go run ./cron -name b &
//
// Kill the replica that runs the job: the other one goes on, and runs what was due meanwhile.
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

	"github.com/robfig/cron/v3"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/schedule"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "replica", "`name` of this replica")
	spec := flag.String("spec", "* * * * * *", "`schedule`: seconds, minutes, hours, days, months, days of the week")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *connect, *name, *spec); err != nil {
		panic(err)
	}
}

// run runs the job until ctx ends.
func run(ctx context.Context, w io.Writer, connect, name, spec string) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse("CRON_TZ=Europe/Berlin " + spec)
	if err != nil {
		return err
	}
	fleet, err := schedule.New(client, "/examples/cron", schedule.Job{
		Name: "report", Schedule: parsed, Deadline: time.Minute,
		Run: func(_ context.Context, tick schedule.Tick) error {
			_, err := fmt.Fprintf(w, "%s writes the report of %s\n", name, tick.Time.Format(time.TimeOnly))
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := fleet.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // the program has ended it
}
