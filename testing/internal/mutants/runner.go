// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// outputTail is how much of a run's output an error carries, in bytes.
const outputTail = 4 << 10

// runner tries mutants. Its methods are safe for concurrent use.
type runner struct {
	root    string // the module root, absolute
	scratch string // where overlays and binaries are written

	mu       sync.Mutex // guards progress
	progress io.Writer  // gets a line as each baseline and each mutant is done

	// What is done once, by whoever is the first to need it. The maps do not change.
	binaries  map[string]func() (string, error) // the tests of a package as it is, compiled
	baselines map[string]func() error           // why a test fails on the code as it is, by baselineKey
}

// newRunner returns a runner for mutants, for as long as ctx has not ended.
func newRunner(ctx context.Context, root, scratch string, mutants []mutant, progress io.Writer) *runner {
	r := &runner{
		root: root, scratch: scratch, progress: progress,
		binaries: make(map[string]func() (string, error)), baselines: make(map[string]func() error),
	}
	for _, m := range mutants {
		if r.binaries[m.pkg] == nil {
			binary := filepath.Join(scratch, fmt.Sprintf("%d.test", len(r.binaries)))
			r.binaries[m.pkg] = sync.OnceValues(func() (string, error) {
				return binary, buildTest(ctx, root, "", m.pkg, binary)
			})
		}
		if key := baselineKey(m); r.baselines[key] == nil {
			r.baselines[key] = sync.OnceValue(func() error { return r.baseline(ctx, m) })
		}
	}
	return r
}

// verdict is what became of one mutant.
type verdict struct {
	mutant mutant
	by     []string // the tests that failed, sorted; none if the mutant survived
	err    error    // why the mutant could not be judged
}

// ok reports whether v's mutant was judged and caught.
func (v verdict) ok() bool { return v.err == nil && len(v.by) > 0 }

// runMutants tries each mutant once on the module in root, so many at a time, and returns
// the verdicts in the order of the mutants. It blocks until all have been tried, or until ctx
// has ended: then the verdicts are those that there are. The error is about the run as a
// whole; what went wrong with a mutant is in its verdict. The temporary files are gone when
// it returns.
func runMutants(ctx context.Context, root string, mutants []mutant, atATime int, progress io.Writer) (verdicts []verdict, err error) {
	scratch, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, fmt.Errorf("mutants: %w", err)
	}
	defer func() {
		if removeErr := os.RemoveAll(scratch); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("mutants: %w", removeErr))
		}
	}()
	r := newRunner(ctx, root, scratch, mutants, progress)
	start := time.Now()
	verdicts = r.judgeAll(ctx, mutants, atATime)
	if ctx.Err() != nil {
		return verdicts, fmt.Errorf("mutants: stopped after %d of %d: %w", len(verdicts), len(mutants), context.Cause(ctx))
	}
	r.sayf("mutants: %d tried, %s", len(verdicts), since(start))
	return verdicts, nil
}

// judgeAll returns the verdicts that are reached before ctx ends, in the order of mutants.
func (r *runner) judgeAll(ctx context.Context, mutants []mutant, atATime int) []verdict {
	all := make([]*verdict, len(mutants))
	next := make(chan int)
	var workers sync.WaitGroup
	for range atATime {
		workers.Go(func() {
			for i := range next {
				if v := r.judge(ctx, mutants[i]); ctx.Err() == nil {
					all[i] = &v
				}
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	workers.Wait()
	verdicts := make([]verdict, 0, len(mutants))
	for _, v := range all {
		if v != nil {
			verdicts = append(verdicts, *v)
		}
	}
	return verdicts
}

// judge runs m's test without m, and then with it.
func (r *runner) judge(ctx context.Context, m mutant) verdict {
	start := time.Now()
	v := verdict{mutant: m}
	var err error
	if v.by, err = r.try(ctx, m); err != nil {
		v.err = fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	if ctx.Err() == nil {
		r.sayf("%s: %s (%s)", m.name, v, since(start))
	}
	return v
}

// try returns the tests that fail with m. None means that m survived. A run that shows
// neither is an error.
func (r *runner) try(ctx context.Context, m mutant) (failed []string, err error) {
	if m.err != nil {
		return nil, m.err
	}
	dir, err := os.MkdirTemp(r.scratch, "mutant-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // a binary each would be gigabytes
	overlay, err := m.writeOverlay(r.root, dir)
	if err != nil {
		return nil, err
	}
	if err := r.baselines[baselineKey(m)](); err != nil {
		return nil, fmt.Errorf("without the mutant: %w", err)
	}
	binary := filepath.Join(dir, "mutant.test")
	if err := buildTest(ctx, r.root, overlay, m.pkg, binary); err != nil {
		return nil, fmt.Errorf("with the mutant: %w", err)
	}
	run, err := runTest(ctx, r.root, binary, m)
	if err == nil && run.ran == 0 {
		err = fmt.Errorf("no test of %s started:\n%s", m.pkg, tail(run.output))
	}
	if err != nil {
		return nil, fmt.Errorf("with the mutant: %w", err)
	}
	return run.failed, nil
}

// baselineKey identifies the run of m's test without m.
func baselineKey(m mutant) string {
	return strings.Join(append([]string{m.pkg, m.test}, m.flags...), "\x00")
}

// baseline runs m's test on the code as it is and reports why it does not pass, or nil
// if it does.
func (r *runner) baseline(ctx context.Context, m mutant) error {
	binary, err := r.binaries[m.pkg]()
	if err != nil {
		return err
	}
	start := time.Now()
	run, err := runTest(ctx, r.root, binary, m)
	switch {
	case err != nil:
		return err
	case len(run.failed) > 0:
		return fmt.Errorf("-run %q fails anyway in %s: %s:\n%s",
			m.test, m.pkg, strings.Join(run.failed, ", "), tail(run.output))
	case run.ran == 0:
		return fmt.Errorf("-run %q matches no test of %s", m.test, m.pkg)
	case run.passed == 0:
		return fmt.Errorf("-run %q: every test of %s that it matches is skipped:\n%s", m.test, m.pkg, tail(run.output))
	}
	r.sayf("without a mutant: %s -run %s passes (%s)", m.pkg, m.test, since(start))
	return nil
}

// sayf writes a line of progress. One that cannot be written is lost: the report tells
// it all again.
func (r *runner) sayf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.progress, format+"\n", args...)
}

// since is the time that has passed, as it is printed.
func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }

// tail returns the end of a run's output, without the white space around it.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if len(output) <= outputTail {
		return output
	}
	return "..." + output[len(output)-outputTail:]
}
