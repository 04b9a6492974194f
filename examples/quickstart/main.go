// SPDX-License-Identifier: Apache-2.0

// Quickstart is the first program to read. Several replicas of a service, each with
// its own ZooKeeper session, take turns at a nightly report. In the third round the
// session of one holder is killed while it works: its lease ends, its report does not
// count, and it queues again.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -connect zk1:2181,zk2:2181,zk3:2181
//
// Without -connect it starts a ZooKeeper server in this process. The last line sums up
// the run. The exit status is 1 if two replicas held the lock at once, if a token did
// not rise, or if the run could not be completed. Ctrl-C ends the run early.
//
// This file is what a service would contain. story.go prints what happens, checks it,
// and kills the session.
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
	"github.com/gocurator/curator/recipes/fence"
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

// lockPath names the lock. All clients that use this path share the lock, in Go and in Java.
const lockPath = "/quickstart/nightly-report"

// replica is one instance of the service. Here replicas are goroutines; processes on
// several machines would do the same.
type replica struct {
	name    string
	servers string          // host:port,host:port,...
	rounds  int             // reports to complete
	archive *fence.Register // guards what the reports change
	story   *story
}

// run completes the replica's reports.
func (r *replica) run(ctx context.Context) error {
	// One client for the whole process. The session timeout is how long the others wait
	// after a kill -9; framework.StandardErrorPolicy says why not to go below 18 s.
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	client, err := framework.Connect(connecting, r.servers, framework.WithSessionTimeout(20*time.Second),
		framework.WithLogger(slog.New(slog.DiscardHandler))) // the story is told on standard output
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, lockPath)
	if err != nil {
		return err
	}
	for round := 1; round <= r.rounds; {
		asked := time.Now()
		err := mutex.Do(ctx, func(ctx context.Context) error { return r.report(ctx, client, round, asked) })
		var lost *locks.LostError
		switch {
		case err == nil:
			r.story.tellf(r.name, "released the lock, report %d is done", round)
			round++
		case errors.As(err, &lost):
			// The report may be half done. The client opens another session: queue again.
			r.story.lost(r.name, round, lost)
		default:
			return fmt.Errorf("report %d: %w", round, err)
		}
	}
	return nil
}

// report runs under the lock. Its ctx ends when the lock is lost, so all work uses it.
func (r *replica) report(ctx context.Context, client *framework.Framework, round int, asked time.Time) error {
	lease := locks.LeaseFrom(ctx)
	r.story.enter(r.name, round, lease, asked)
	defer r.story.leave(lease)
	if err := r.story.work(ctx, r.name, client, round); err != nil {
		return err
	}
	// The lock may be lost between any two statements. So every write carries the token,
	// and the archive refuses a token that is older than the newest it has seen.
	return r.archive.Do(ctx, lease.Token(), func() error { return nil })
}
