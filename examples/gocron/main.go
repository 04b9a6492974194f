// SPDX-License-Identifier: Apache-2.0

// Command gocron runs the jobs of github.com/go-co-op/gocron in one of several replicas:
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/gocron
//	go run . -name a &
//	go run . -name b &
//	go run . -name c -by lock &       # shares no jobs with a and b
//	go run . -name d -by lock &
//
// By election, the leader runs all jobs, and another replica takes over when it ends. By
// lock, each run goes to the replica that is first. Replicas that start a run at different
// times, because their clocks differ or their schedulers began at different times, then run
// the job one after the other. So prefer the election.
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
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "replica", "`name` of this replica")
	by := flag.String("by", "election", "what chooses the replica, election or lock")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, *connect, *name, *by, time.Second)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gocron:", err)
		os.Exit(1)
	}
}

// run schedules a job until ctx ends.
func run(ctx context.Context, w io.Writer, connect, name, by string, every time.Duration) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	var distributed gocron.SchedulerOption
	switch by {
	case "election":
		latch, err := leader.NewLeaderLatch(client, "/examples/gocron/leader", leader.WithID(name))
		if err != nil {
			return err
		}
		if err := latch.Start(); err != nil {
			return err
		}
		defer latch.Close()
		distributed = gocron.WithDistributedElector(elector{latch})
	case "lock":
		distributed = gocron.WithDistributedLocker(locker{client, "/examples/gocron/jobs"})
	default:
		return fmt.Errorf("by %q, expected election or lock", by)
	}
	scheduler, err := gocron.NewScheduler(distributed)
	if err != nil {
		return err
	}
	job := func() { fmt.Fprintf(w, "%s writes the report\n", name) }
	if _, err := scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(job), gocron.WithName("report")); err != nil {
		return errors.Join(err, scheduler.Shutdown())
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown() // before the latch closes: the job ends, and then another replica leads
}

// elector is a gocron.Elector: the leader runs the jobs.
type elector struct{ latch *leader.LeaderLatch }

// IsLeader returns an error if another replica leads.
func (e elector) IsLeader(context.Context) error {
	if !e.latch.HasLeadership() {
		return errors.New("another replica leads")
	}
	return nil
}

// locker is a gocron.Locker: a replica that has the lock of a job runs it.
type locker struct {
	client *framework.Framework
	folder string
}

// Lock returns an error if another replica runs the job. The key is the job's name.
func (l locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	mutex, err := locks.NewInterProcessMutex(l.client, l.folder+"/"+key)
	if err != nil {
		return nil, err
	}
	lease, err := mutex.TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	return held{lease}, nil
}

type held struct{ lease *locks.Lease }

// Unlock releases the lock, even when the scheduler was shut down.
func (h held) Unlock(ctx context.Context) error { return h.lease.Release(context.WithoutCancel(ctx)) }
