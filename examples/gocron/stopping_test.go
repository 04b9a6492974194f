// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// runGocron and runCron are the programs of recipes/STOPPING.md, for the Run of a selector.

func runGocron(ctx context.Context, every time.Duration, job func(ctx context.Context)) error {
	scheduler, err := gocron.NewScheduler(gocron.WithStopTimeout(time.Minute))
	if err != nil {
		return err
	}
	if _, err := scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(job), gocron.WithContext(ctx)); err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown() // waits for a job that runs
}

func runCron(ctx context.Context, spec string, job func(ctx context.Context)) error {
	scheduler := cron.New()
	if _, err := scheduler.AddFunc(spec, func() { job(ctx) }); err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	<-scheduler.Stop().Done() // until the job that runs has ended
	return nil
}

// TestStopping: the loss of the leadership ends the job that runs, and the function that leads returns after it.
func TestStopping(t *testing.T) {
	for name, program := range map[string]func(ctx context.Context, job func(ctx context.Context)) error{
		"gocron": func(ctx context.Context, job func(ctx context.Context)) error {
			return runGocron(ctx, time.Millisecond, job)
		},
		"cron": func(ctx context.Context, job func(ctx context.Context)) error { return runCron(ctx, "@every 1s", job) },
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			selector, err := leader.NewLeaderSelector(client, "/leaders/report")
			require.NoError(t, err)
			var running atomic.Int32
			begun, returned := make(chan struct{}, 1000), make(chan error, 1)
			go func() {
				returned <- selector.Run(zktest.Context(t), func(ctx context.Context) error {
					err := program(ctx, func(ctx context.Context) {
						running.Add(1)
						defer running.Add(-1)
						begun <- struct{}{}
						<-ctx.Done()
					})
					if n := running.Load(); n != 0 {
						t.Errorf("%d jobs run when the function that leads returns", n)
					}
					return err
				})
			}()
			zktest.Await(t, begun, "a run of the job")
			require.Equal(t, 1, server.Cut(client.Session().ID(), 1))
			require.ErrorAs(t, zktest.Await(t, returned, "the end of the leadership"), new(*locks.LostError))
		})
	}
}
