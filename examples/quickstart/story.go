// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// config is what the flags say.
type config struct {
	connect  string // empty for a server in this process
	replicas int
	rounds   int
	work     time.Duration
}

func parseFlags() config {
	var cfg config
	flag.StringVar(&cfg.connect, "connect", "", "ZooKeeper `servers`, host:port,... (default: a server in this process)")
	flag.IntVar(&cfg.replicas, "replicas", 4, "`number` of replicas that compete for the lock")
	flag.IntVar(&cfg.rounds, "rounds", 5, "`number` of reports that each replica completes")
	flag.DurationVar(&cfg.work, "work", 50*time.Millisecond, "`duration` of one report")
	flag.Parse()
	if err := cfg.validate(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		flag.Usage()
		os.Exit(2)
	}
	return cfg
}

func (c config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q, expected flags only", rest[0])
	case c.replicas < 1:
		return fmt.Errorf("-replicas is %d, expected 1 or more", c.replicas)
	case c.rounds < 1:
		return fmt.Errorf("-rounds is %d, expected 1 or more", c.rounds)
	case c.work <= 0:
		return fmt.Errorf("-work is %v, expected a duration above 0 such as 50ms", c.work)
	case c.connect == "":
		return nil
	}
	if _, err := framework.New(c.connect); err != nil { // New connects to nothing
		return fmt.Errorf("-connect: %w", err)
	}
	return nil
}

const (
	connectTimeout = 15 * time.Second // until a replica gives up
	killTimeout    = 15 * time.Second
)

// play lets all replicas run to their end and prints the summary. The first replica that
// fails ends the others. The end of ctx is no failure.
func play(ctx context.Context, cfg config, out io.Writer) (err error) {
	if cfg.connect == "" {
		server, startErr := zkserver.Start(zkserver.WithTick(time.Second)) // which bounds session timeouts to 20 s
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		cfg.connect = server.Addr()
	}
	s := &story{out: out, start: time.Now(), duration: cfg.work, strikeIn: min(3, cfg.rounds)}
	s.tellf("", "%d replicas on %s run %d reports each, of %v", cfg.replicas, cfg.connect, cfg.rounds, cfg.work)

	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failures := make(chan error, cfg.replicas)
	var group sync.WaitGroup
	for i := range cfg.replicas {
		r := &replica{name: fmt.Sprintf("replica-%d", i+1), servers: cfg.connect, rounds: cfg.rounds, story: s}
		group.Go(func() {
			if err := r.run(running); err != nil && running.Err() == nil {
				failures <- fmt.Errorf("%s: %w", r.name, err)
				stop(fmt.Errorf("%s has failed", r.name))
			}
		})
	}
	group.Wait()
	close(failures)
	if ctx.Err() != nil {
		s.tellf("", "interrupted")
	}
	return errors.Join(s.sum(), <-failures)
}

// story prints what happens and checks it.
type story struct {
	out      io.Writer
	start    time.Time
	duration time.Duration // of a report
	strikeIn int           // the round in which a session is killed

	mu          sync.Mutex
	struck      bool
	holder      *locks.Lease // nil while no replica holds the lock
	newest      int64        // the greatest token so far
	waits       []time.Duration
	overlaps    int
	regressions int
	losses      int
	outErr      error // the first error of out
}

// tellf prints a line.
func (s *story) tellf(name, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	s.printLocked(fmt.Sprintf("%7.3fs  %-10s  %s", time.Since(s.start).Seconds(), name, event))
}

func (s *story) printLocked(line string) {
	if _, err := fmt.Fprintln(s.out, line); err != nil && s.outErr == nil {
		s.outErr = err
	}
}

// enter checks a new hold: the one before must have ended, and the token must have risen.
func (s *story) enter(name string, round int, lease *locks.Lease, asked time.Time) {
	s.mu.Lock()
	if s.holder != nil && s.holder.Err() == nil {
		s.overlaps++
	}
	if lease.Token() <= s.newest {
		s.regressions++
	}
	s.holder, s.newest = lease, max(s.newest, lease.Token())
	s.waits = append(s.waits, time.Since(asked))
	s.mu.Unlock()
	s.tellf(name, "has the lock, token %d, for report %d", lease.Token(), round)
}

// leave ends a hold.
func (s *story) leave(lease *locks.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == lease {
		s.holder = nil
	}
}

// lost counts a hold that was lost.
func (s *story) lost(name string, round int, reason *locks.LostError) {
	s.tellf(name, "LOST the lock during report %d (%s), will try again", round, reason.Reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses++
}

// work stands for the work on a report. One report is hit by the accident: its session
// is killed half way.
func (s *story) work(ctx context.Context, name string, client *framework.Framework, round int) error {
	if err := pause(ctx, s.duration/2); err != nil {
		return err
	}
	if s.strikes(round) {
		return s.kill(ctx, name, client)
	}
	return pause(ctx, s.duration/2)
}

// strikes reports whether the accident happens now. It happens once.
func (s *story) strikes(round int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	strikes := round == s.strikeIn && !s.struck
	s.struck = s.struck || strikes
	return strikes
}

// kill ends the session of a holder at the server and waits until the holder knows. No lock
// can keep its promise to a holder whose session another client closes, so the hold counts
// up to the strike only.
func (s *story) kill(ctx context.Context, name string, client *framework.Framework) error {
	s.tellf("", "killing the session of %s, %v, while it works", name, client.Session())
	s.leave(locks.LeaseFrom(ctx))
	striking, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout) // the strike itself ends ctx
	defer cancel()
	if _, err := zktest.EndSession(striking, client); err != nil {
		return fmt.Errorf("kill the session of %s: %w", name, err)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// pause returns nil after d, or the cause with which ctx ends earlier.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errBroken is the error of a run that shows a defect of the lock.
var errBroken = errors.New("the lock did not keep its promise")

// sum prints the last line and returns errBroken or what kept the story from being printed.
func (s *story) sum() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.waits)
	quantile := func(percent int) time.Duration { // nearest rank
		if len(s.waits) == 0 {
			return 0
		}
		return s.waits[(len(s.waits)*percent+99)/100-1].Round(time.Microsecond)
	}
	s.printLocked(fmt.Sprintf(
		"acquisitions=%d overlaps=%d token_regressions=%d lost_while_held=%d acquire_p50=%v acquire_p99=%v",
		len(s.waits), s.overlaps, s.regressions, s.losses, quantile(50), quantile(99)))
	if s.overlaps > 0 || s.regressions > 0 {
		return errors.Join(errBroken, s.outErr)
	}
	return s.outErr
}
