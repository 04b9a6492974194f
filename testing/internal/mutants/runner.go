package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// requiredPercent is the share of its tries in which a mutant has to be caught.
const requiredPercent = 95

// outputTail is how much of a run's output an error carries, in bytes.
const outputTail = 4 << 10

// runner tries mutants. Its methods are safe for concurrent use.
type runner struct {
	root    string // the module root, absolute
	scratch string // where overlays and binaries are written
	tries   int    // how often each mutant is tried, 0 for as often as its row says

	mu       sync.Mutex // guards progress
	progress io.Writer  // gets a line as each baseline and each mutant is done

	// What is done once, by whoever is the first to need it. The maps do not change.
	binaries  map[string]func() (string, error) // the tests of a package as it is, compiled
	baselines map[string]func() error           // why a test fails on the code as it is, by baselineKey
}

// newRunner returns a runner for rows, for as long as ctx has not ended.
func newRunner(ctx context.Context, root, scratch string, rows []mutant, progress io.Writer) *runner {
	r := &runner{
		root: root, scratch: scratch, progress: progress,
		binaries: make(map[string]func() (string, error)), baselines: make(map[string]func() error),
	}
	for _, m := range rows {
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
	tries  int      // runs with the mutant that gave a result
	caught int      // those of them that failed
	by     []string // the tests that failed in any of them, sorted
	err    error    // why the mutant could not be judged
}

// ok reports whether v's mutant was judged and caught often enough.
func (v verdict) ok() bool {
	return v.err == nil && v.tries > 0 && v.caught*100 >= v.tries*requiredPercent
}

// runMutants tries the mutants of rows on the module in root, so many at a time, each
// as often as tries says, or its row if tries is 0, and returns the verdicts in the
// order of rows. It blocks until all have been tried, or until ctx has ended: then the
// verdicts are those that there are. The error is about the run as a whole; what went
// wrong with a mutant is in its verdict. The temporary files are gone when it returns.
func runMutants(ctx context.Context, root string, rows []mutant, tries, atATime int, progress io.Writer) (verdicts []verdict, err error) {
	scratch, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, fmt.Errorf("mutants: %w", err)
	}
	defer func() {
		if removeErr := os.RemoveAll(scratch); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("mutants: %w", removeErr))
		}
	}()
	r := newRunner(ctx, root, scratch, rows, progress)
	r.tries = tries
	start := time.Now()
	verdicts = r.judgeAll(ctx, rows, atATime)
	if ctx.Err() != nil {
		return verdicts, fmt.Errorf("mutants: stopped after %d of %d: %w", len(verdicts), len(rows), context.Cause(ctx))
	}
	r.sayf("mutants: %d tried, %s", len(verdicts), since(start))
	return verdicts, nil
}

// judgeAll returns the verdicts that are reached before ctx ends, in the order of rows.
func (r *runner) judgeAll(ctx context.Context, rows []mutant, atATime int) []verdict {
	all := make([]*verdict, len(rows))
	next := make(chan int)
	var workers sync.WaitGroup
	for range atATime {
		workers.Go(func() {
			for i := range next {
				if v := r.judge(ctx, rows[i]); ctx.Err() == nil {
					all[i] = &v
				}
			}
		})
	}
	for _, i := range r.longestFirst(rows) {
		next <- i
	}
	close(next)
	workers.Wait()
	verdicts := make([]verdict, 0, len(rows))
	for _, v := range all {
		if v != nil {
			verdicts = append(verdicts, *v)
		}
	}
	return verdicts
}

// longestFirst returns the indices of rows, of those first that are tried most often:
// who takes long is not to be alone in the end.
func (r *runner) longestFirst(rows []mutant) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return r.triesOf(rows[j]) - r.triesOf(rows[i]) })
	return order
}

// triesOf is how often m is tried.
func (r *runner) triesOf(m mutant) int { return cmp.Or(r.tries, m.tries, 1) }

// judge runs m's test without m, then as often as it is to be tried with it.
func (r *runner) judge(ctx context.Context, m mutant) verdict {
	start := time.Now()
	v := verdict{mutant: m}
	if err := r.tryAll(ctx, &v); err != nil {
		v.err = fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	if ctx.Err() == nil {
		r.sayf("%s: %s (%s)", m.name, v, since(start))
	}
	return v
}

// tryAll fills in what becomes of v's mutant. The error says why that cannot be told.
func (r *runner) tryAll(ctx context.Context, v *verdict) (err error) {
	m := v.mutant
	dir, err := os.MkdirTemp(r.scratch, "mutant-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // a binary each would be gigabytes
	overlay, err := writeOverlay(r.root, dir, m)
	if err != nil {
		return err
	}
	if err := r.baselines[baselineKey(m)](); err != nil {
		return fmt.Errorf("without the mutant: %w", err)
	}
	binary := filepath.Join(dir, "mutant.test")
	if err := buildTest(ctx, r.root, overlay, m.pkg, binary); err != nil {
		return fmt.Errorf("with the mutant: %w", err)
	}
	by := make(map[string]bool)
	for range r.triesOf(m) {
		failed, err := r.try(ctx, binary, m)
		if err != nil {
			return fmt.Errorf("with the mutant: %w", err)
		}
		v.tries++
		if len(failed) > 0 {
			v.caught++
		}
		for _, name := range failed {
			by[name] = true
		}
	}
	v.by = slices.Sorted(maps.Keys(by))
	return nil
}

// try runs m's test once with m and returns the tests that failed. None means
// that m survived. A run that shows neither is an error.
func (r *runner) try(ctx context.Context, binary string, m mutant) ([]string, error) {
	run, err := runTest(ctx, r.root, binary, m)
	if err == nil && run.ran == 0 {
		err = fmt.Errorf("no test of %s started:\n%s", m.pkg, tail(run.output))
	}
	return run.failed, err
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
