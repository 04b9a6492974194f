// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Exit statuses, as doc.go promises them.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], table, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is main with its surroundings as arguments. It returns the exit status.
func run(ctx context.Context, args []string, rows []row, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "try only the mutants whose name matches this `regexp`")
	atATime, random := runtime.GOMAXPROCS(0), 0
	flags.Func("p", "try `n` mutants at a time, and not as many as there are processors", atLeastOne(&atATime))
	flags.Func("random", "try `n` random changes of the packages that the arguments name, or that have changed since the last commit but one", atLeastOne(&random))
	seed := flags.Uint64("seed", 1, "draw random changes by this `number`")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return statusOK
	} else if err != nil {
		return statusUsage // the flag set has printed the error
	}
	if random > 0 {
		return complain(stderr, statusFailed, tryRandom(ctx, flags.Args(), random, *seed, atATime, stdout, stderr))
	}
	if flags.NArg() > 0 {
		return complain(stderr, statusUsage, fmt.Errorf("mutants: unexpected argument %q", flags.Arg(0)))
	}
	chosen, err := choose(rows, *pattern)
	if err != nil {
		return complain(stderr, statusUsage, err)
	}
	return complain(stderr, statusFailed, try(ctx, chosen, atATime, stdout, stderr))
}

// atLeastOne parses a flag that is a number of something.
func atLeastOne(n *int) func(string) error {
	return func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err == nil && *n < 1 {
			err = errors.New("want at least 1")
		}
		return err
	}
}

// try runs the chosen mutants on the module of the working directory and
// writes the report to stdout, progress to stderr.
func try(ctx context.Context, chosen []row, atATime int, stdout, stderr io.Writer) error {
	if err := validate(chosen); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	mutants := make([]mutant, 0, len(chosen))
	for _, r := range chosen {
		m, err := r.mutant(root)
		if err != nil {
			m = mutant{name: r.name, breaks: string(r.breaks), pkg: r.tested(), test: r.test, err: err}
		}
		mutants = append(mutants, m)
	}
	verdicts, err := runMutants(ctx, root, mutants, atATime, stderr)
	if len(verdicts) == 0 {
		return err // stopped before the first was done
	}
	return errors.Join(report(stdout, verdicts), err)
}

// product is the module that is broken.
const product = "github.com/gocurator/curator"

// moduleRoot returns the folder of the product, as the module of the working directory has it:
// that module is the product, or replaces it.
func moduleRoot(ctx context.Context) (string, error) {
	var reason strings.Builder
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f={{.Dir}}", product)
	list.Stderr = &reason
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("mutants: the module of the working directory does not know %s: %w: %s", product, err, strings.TrimSpace(reason.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// complain prints err to stderr and returns status, or statusOK if err is nil.
func complain(stderr io.Writer, status int, err error) int {
	if err == nil {
		return statusOK
	}
	if _, writeErr := fmt.Fprintln(stderr, err); writeErr != nil {
		return statusFailed
	}
	return status
}
