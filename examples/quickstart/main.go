package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/gocurator/curator/testing/zkserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, err)
	case err != nil:
		fmt.Fprintf(os.Stderr, "quickstart: %v\n", err)
	}
	os.Exit(exitStatus(err))
}

func exitStatus(err error) int {
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// errBroken is the error of a run that showed a defect of the lock.
var errBroken = errors.New("the lock did not keep its promise")

// run is the program. When ctx ends, the replicas give up what they are at; that
// is no failure. It returns a *usageError for bad flags, errBroken, or what kept a
// replica from completing its rounds.
func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	cfg, err := parseFlags(args)
	if err != nil {
		return err
	}
	servers := cfg.connect
	if servers == "" {
		server, startErr := zkserver.Start()
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		servers = server.Addr()
	}
	return play(ctx, cfg, servers, newJournal(stdout))
}

// play lets all replicas run to their end, and sums up.
func play(ctx context.Context, cfg config, servers string, journal *journal) error {
	saboteur := &saboteur{journal: journal, round: min(sabotagedRound, cfg.rounds)}
	archive := new(archive)
	replicas := make([]*replica, cfg.replicas)
	for i := range replicas {
		name := fmt.Sprintf("replica-%d", i+1)
		replicas[i] = &replica{
			name: name, connect: servers, rounds: cfg.rounds, archive: archive,
			journal: journal, work: saboteur.work(name, cfg.work),
		}
	}
	journal.sayf("", "%d replicas on %s run %d reports each, of %v", cfg.replicas, servers, cfg.rounds, cfg.work)
	err := runAll(ctx, replicas)
	if ctx.Err() != nil {
		journal.sayf("", "interrupted")
	}
	verdict, writeErr := journal.sum()
	if !verdict.ok() {
		err = errors.Join(errBroken, err)
	}
	return errors.Join(err, writeErr)
}

// sabotagedRound is the report during which a session is killed, or the last one
// if there are fewer.
const sabotagedRound = 3

// runAll runs the replicas, each as a process of its own would, and returns when
// all have ended. The first that fails ends the others, and its error is returned;
// what a replica returns because it was told to end is only told.
func runAll(ctx context.Context, replicas []*replica) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failures := make(chan error, len(replicas))
	var running sync.WaitGroup
	for _, r := range replicas {
		running.Go(func() {
			err := r.run(ctx)
			switch {
			case err == nil:
			case ctx.Err() != nil:
				r.journal.sayf(r.name, "stopped: %v", err)
			default:
				failures <- fmt.Errorf("%s: %w", r.name, err)
				stop(fmt.Errorf("%s has failed", r.name))
			}
		})
	}
	running.Wait()
	close(failures)
	return <-failures // nil if there is none
}
