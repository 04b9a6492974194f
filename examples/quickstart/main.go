// SPDX-License-Identifier: Apache-2.0

// Quickstart has replicas of a service take turns at a report. In the third round the session
// of one holder is killed: its lease ends, its report does not count, and it queues again.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -connect zk1:2181,zk2:2181,zk3:2181
//
// Without -connect it starts a ZooKeeper server in this process. The exit status is 1 if two
// replicas held the lock at once, a token did not rise, or the run could not be completed.
// This file is what a service would contain. story.go prints and checks what happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	cfg := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := play(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// replica is one instance of the service. Processes on several machines would do the same.
type replica struct {
	name    string
	servers string
	rounds  int // reports to complete
	story   *story
}

// run completes the replica's reports.
func (r *replica) run(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	client, err := framework.Connect(connecting, r.servers, framework.WithSessionTimeout(20*time.Second),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/quickstart/nightly-report")
	if err != nil {
		return err
	}
	for round := 1; round <= r.rounds; {
		asked := time.Now()
		err := mutex.Do(ctx, func(ctx context.Context) error { // ctx ends when the lock is lost
			lease := locks.LeaseFrom(ctx)
			r.story.enter(r.name, round, lease, asked)
			defer r.story.leave(lease)
			return r.story.work(ctx, r.name, client, round)
		})
		var lost *locks.LostError
		switch {
		case err == nil:
			r.story.tellf(r.name, "released the lock, report %d is done", round)
			round++
		case errors.As(err, &lost):
			r.story.lost(r.name, round, lost) // the report may be half done
		default:
			return fmt.Errorf("report %d: %w", round, err)
		}
	}
	return nil
}
