// SPDX-License-Identifier: Apache-2.0

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
	"strings"
	"syscall"
	"time"
)

// options are what the flags say.
type options struct {
	peers     string
	scenarios string
	rounds    int
	duration  time.Duration
	servers   int
	fsync     bool
	json      bool
	update    string
	requests  bool
	growth    string
	failover  bool
}

func main() {
	if addr, path, found := strings.Cut(os.Getenv(asHolder), "/"); found {
		panic(hold(context.Background(), addr, "/"+path))
	}
	var o options
	flag.StringVar(&o.peers, "peers", "", "comma-separated, of "+peerNames()+" (default all)")
	flag.StringVar(&o.scenarios, "scenario", "", "comma-separated, of "+scenarioNames()+" (default all)")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each peer runs, by turns")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "for how long turns are counted, after half of it to warm up")
	flag.IntVar(&o.servers, "servers", 1, "ZooKeeper servers, 1 or 3")
	flag.BoolVar(&o.fsync, "fsync", false, "have ZooKeeper force what it writes to disk")
	flag.BoolVar(&o.json, "json", false, "print the figures of every round as JSON, and no lines")
	flag.StringVar(&o.update, "update", "", "document whose tables get the figures, see update.go (default none)")
	flag.BoolVar(&o.requests, "requests", false, "count the requests of this library by type, and how long each is under way")
	flag.StringVar(&o.growth, "growth", "", "instead: what so many sessions, locks and other things cost, comma-separated numbers")
	flag.BoolVar(&o.failover, "failover", false, "instead: how long a lock has no holder after one is cut off, and whether that one is told")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected %q\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs what the options say and writes what comes of it.
func bench(ctx context.Context, o options, stdout, progress io.Writer) (err error) {
	if o.rounds < 1 || o.duration < 100*time.Millisecond {
		return fmt.Errorf("rounds %d, duration %v, expected 1 or more and 100ms or more", o.rounds, o.duration)
	}
	if o.growth != "" {
		var numbers []int
		for field := range strings.SplitSeq(o.growth, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("growth %q, expected numbers of 1 or more", o.growth)
			}
			numbers = append(numbers, n)
		}
		return growAll(ctx, numbers, stdout)
	}
	if o.failover {
		return failOver(ctx, o.peers, o.rounds, stdout)
	}
	chosen, err := selectPeers(o.peers)
	if err != nil {
		return err
	}
	under, err := selectScenarios(o.scenarios, o.duration)
	if err != nil {
		return err
	}
	if err := checkInstalled(chosen); err != nil {
		return err
	}
	at, err := start(ctx, chosen, o.servers, o.fsync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	at.tap = newTap(o.requests)
	all, err := runAll(ctx, at, chosen, under, o.rounds, progress)
	if err != nil {
		return err
	}
	if err := update(o.update, all); err != nil {
		return err
	}
	if o.json {
		return writeJSON(stdout, all)
	}
	_, err = io.WriteString(stdout, lines(all))
	return err
}
