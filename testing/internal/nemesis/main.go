// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roundLength is how long one ensemble lives at most. A long campaign has many, each set up
// in another way.
const roundLength = 5 * time.Minute

// moreRounds is how many rounds there are at most to make up for those in which too little has happened. It is far
// above what a busy machine needs, so that a campaign in which the clients are idle ends.
const moreRounds = 8

// leastClients is with how many each lock has two, and mostClients how many the ensemble's
// network has room for.
const (
	leastClients = 4
	mostClients  = 200
)

func main() {
	if os.Getenv(clientEnv) != "" {
		if err := runClient(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// campaign is what the flags ask for.
type campaign struct {
	duration time.Duration
	seed     uint64
	faults   string
	locks    string
	clients  int
	pause    time.Duration
	report   string
	dir      string
	replay   string
	shared   bool // the machine has other work, so that no time proves anything
}

// run is the program: it runs a campaign, or takes one that was saved, and judges it.
func run(ctx context.Context, out io.Writer, args []string) error {
	var c campaign
	flags := flag.NewFlagSet("nemesis", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.DurationVar(&c.duration, "duration", 90*time.Second, "how long there are faults")
	flags.Uint64Var(&c.seed, "seed", rand.Uint64(), "what the faults are chosen by")
	flags.StringVar(&c.faults, "faults", "all", "which faults: all, none, or some of N1 to "+lastFault+", separated by commas")
	flags.StringVar(&c.locks, "workload", strings.Join(workloadNames(), ","), "which recipes")
	flags.IntVar(&c.clients, "clients", 12, "how many client processes")
	flags.DurationVar(&c.pause, "pause", 100*time.Millisecond, "how long a worker pauses at most between two turns")
	flags.StringVar(&c.report, "report", "", "folder for the histories, a new one; a temporary one by default")
	flags.StringVar(&c.dir, "dir", "", "folder for the servers' files; memory, or a disk where writes are forced to it, by default")
	flags.StringVar(&c.replay, "replay", "", "folder of a campaign to judge again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("nemesis: %q, expected flags only", flags.Arg(0))
	}
	if c.replay != "" {
		return judge(out, c.replay)
	}
	return c.run(ctx, out)
}

// run runs the campaign and judges it.
func (c *campaign) run(ctx context.Context, out io.Writer) (err error) {
	specs, err1 := specs(strings.Split(c.locks, ","))
	chosen, pair, err2 := choose(c.faults)
	if err := errors.Join(c.validate(), err1, err2, c.makeFolder()); err != nil {
		return err
	}
	progress := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...) // an error here has no other place to go
	}
	progress("seed %d, report in %s", c.seed, c.report)
	record := campaignRecord{
		Seed: c.seed, Versions: versions(), Start: monotonic(), Duration: int64(c.duration), Soak: len(chosen) == 0, Shared: c.shared, Kinds: kindsOf(chosen, pair),
	}
	setups, happened := c.setups(specs, chosen), newTotals()
	length, most := c.duration/time.Duration(len(setups)), 2*len(setups)+moreRounds
	for n := 0; n < len(setups) && err == nil; n++ {
		folder := filepath.Join(c.report, fmt.Sprintf("round-%d", n+1))
		var round roundRecord
		round, err = runRound(ctx, progress, folder, setups[n], chosen, pair, length)
		record.Rounds, record.Versions = append(record.Rounds, round), withServers(record.Versions, round)
		if err == nil && len(setups) < most {
			setups, err = more(progress, folder, record, happened, setups)
		}
	}
	record.End = monotonic()
	return errors.Join(err, record.save(c.report), judge(out, c.report))
}

// more adds another round, with another seed, if the one that has just ended is void, or is the last and too
// little has happened so far: a machine that is slow takes longer for as much.
func more(progress progress, folder string, record campaignRecord, happened *totals, setups []setup) ([]setup, error) {
	n := len(record.Rounds) - 1
	r, err := loadRound(folder, record.Rounds[n])
	if err != nil {
		return setups, err
	}
	next := setups[n]
	next.seed = setups[len(setups)-1].seed + 1
	if lost := r.losses(); len(lost) > 0 {
		progress("%s; there will be another in its place", void(r, lost))
		return append(setups, next), nil
	}
	happened.add(r)
	if missing := happened.missing(record); missing != nil && n == len(setups)-1 {
		progress("%s; there will be another round", strings.Join(missing, ", "))
		return append(setups, next), nil
	}
	return setups, nil
}

// setups returns how the rounds are set up. Every other round has TLS, and half of all have fsync, so that
// each comes with and without the other: plain, both, fsync, TLS, and so on. An odd seed begins in the middle.
// A single round is plain, because a busy disk would leave it little time for faults. With TLS a proxy
// sees no frames. So no round has TLS if only frames are hurt; otherwise rounds without TLS hurt frames
// more often.
func (c *campaign) setups(specs []lockSpec, chosen []fault) []setup {
	all := make([]setup, 1) // for a soak, whose processes are to grow old
	if len(chosen) > 0 {
		all = make([]setup, (c.duration+roundLength-1)/roundLength)
	}
	otherThanFrames := slices.ContainsFunc(possible(chosen), func(f fault) bool { return !f.frames })
	plain := 0
	for n := range all {
		kind := n
		if len(all) > 1 {
			kind += 2 * int(c.seed%2)
		}
		tls := kind%2 == 1 && otherThanFrames
		if !tls {
			plain++
		}
		all[n] = setup{
			clients: c.clients, pause: c.pause, tls: tls, guarded: tls, fsync: (kind+1)/2%2 == 1, seed: c.seed + uint64(n), locks: specs, dir: c.dir,
		}
	}
	for n := range all {
		if len(chosen) > 0 && !all[n].tls {
			all[n].frames = (len(all) + plain - 1) / plain
		}
	}
	return all
}

// validate says what is wrong with the flags.
func (c *campaign) validate() error {
	var errs []error
	if c.duration <= 0 {
		errs = append(errs, fmt.Errorf("nemesis: duration %v, expected more", c.duration))
	}
	if c.pause <= 0 {
		errs = append(errs, fmt.Errorf("nemesis: pause %v, expected more", c.pause))
	}
	if c.clients < leastClients || c.clients > mostClients {
		errs = append(errs, fmt.Errorf("nemesis: %d clients, expected at least %d, and at most %d", c.clients, leastClients, mostClients))
	}
	return errors.Join(errs...)
}

// makeFolder makes the folder of the report, which must not be there yet.
func (c *campaign) makeFolder() (err error) {
	if c.report == "" {
		c.report, err = os.MkdirTemp("", "nemesis-report-")
	} else if err = os.MkdirAll(filepath.Dir(c.report), 0o700); err == nil {
		err = os.Mkdir(c.report, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("nemesis: report %s, expected a folder that does not exist", c.report)
	case err != nil:
		return fmt.Errorf("nemesis: %w", err)
	}
	return nil
}

// save writes the record into the folder of the report.
func (r campaignRecord) save(folder string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, campaignFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("nemesis: %w", err)
	}
	return nil
}
