package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// requiredPercent is the share of its tries in which a mutant has to be caught.
const requiredPercent = 95

// outputTail is how much of a run's output an error carries, in bytes.
const outputTail = 4 << 10

// runner tries mutants one after another. It is not safe for concurrent use.
type runner struct {
	root      string           // the module root, absolute
	tries     int              // how often each mutant is tried, 0 for as often as its row says
	progress  io.Writer        // gets a line as each mutant is done
	scratch   string           // where overlays are written
	baselines map[string]error // why the unbroken code fails, by baselineKey
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

// runMutants tries each of rows so many times, or as often as it says if tries is 0, on the module in root and returns
// their verdicts in order. It blocks until all have been run or ctx has ended.
// The error is about the run as a whole; what went wrong with a mutant is in
// its verdict. The temporary files are gone when it returns.
func runMutants(ctx context.Context, root string, rows []mutant, tries int, progress io.Writer) (verdicts []verdict, err error) {
	scratch, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, fmt.Errorf("mutants: %w", err)
	}
	defer func() {
		if removeErr := os.RemoveAll(scratch); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("mutants: %w", removeErr))
		}
	}()
	r := &runner{root: root, tries: tries, progress: progress, scratch: scratch, baselines: make(map[string]error)}
	for _, m := range rows {
		start := time.Now()
		v := r.judge(ctx, m)
		if ctx.Err() != nil {
			return verdicts, fmt.Errorf("mutants: stopped at %s: %w", m.name, context.Cause(ctx))
		}
		if _, err := fmt.Fprintf(progress, "%s: %s (%s)\n", m.name, v, time.Since(start).Round(100*time.Millisecond)); err != nil {
			return verdicts, fmt.Errorf("mutants: %w", err)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// judge runs m's test without m, then as often as it is to be tried with it.
func (r *runner) judge(ctx context.Context, m mutant) verdict {
	v := verdict{mutant: m}
	overlay, err := writeOverlay(r.root, r.scratch, m)
	if err != nil {
		v.err = err
		return v
	}
	if err := r.baseline(ctx, m); err != nil {
		v.err = fmt.Errorf("mutants: %s: without the mutant: %w", m.name, err)
		return v
	}
	by := make(map[string]bool)
	for range cmp.Or(r.tries, m.tries, 1) {
		failed, err := r.try(ctx, m, overlay)
		if err != nil {
			v.err = fmt.Errorf("mutants: %s: with the mutant: %w", m.name, err)
			break
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
	return v
}

// baseline reports why m's test does not pass on the code as it is, or nil if
// it does. The answer is kept for all mutants with the same test.
func (r *runner) baseline(ctx context.Context, m mutant) error {
	key := baselineKey(m)
	if err, known := r.baselines[key]; known {
		return err
	}
	err := r.runBaseline(ctx, m)
	r.baselines[key] = err
	return err
}

// baselineKey identifies the run of m's test without m.
func baselineKey(m mutant) string {
	return strings.Join(append([]string{m.pkg, m.test}, m.flags...), "\x00")
}

// runBaseline runs m's test on the code as it is.
func (r *runner) runBaseline(ctx context.Context, m mutant) error {
	run, err := goTest(ctx, r.root, "", m)
	switch {
	case err != nil:
		return err
	case run.noBuild:
		return fmt.Errorf("%s does not compile:\n%s", m.pkg, tail(run.output))
	case len(run.failed) > 0:
		return fmt.Errorf("-run %q fails anyway in %s: %s:\n%s",
			m.test, m.pkg, strings.Join(run.failed, ", "), tail(run.output))
	case run.ran == 0:
		return fmt.Errorf("-run %q matches no test of %s", m.test, m.pkg)
	case run.passed == 0:
		return fmt.Errorf("-run %q: every test of %s that it matches is skipped:\n%s", m.test, m.pkg, tail(run.output))
	}
	return nil
}

// try runs m's test once with m and returns the tests that failed. None means
// that m survived. A run that shows neither is an error.
func (r *runner) try(ctx context.Context, m mutant, overlay string) ([]string, error) {
	run, err := goTest(ctx, r.root, overlay, m)
	switch {
	case err != nil:
		return nil, err
	case run.noBuild:
		return nil, fmt.Errorf("%s does not compile:\n%s", m.pkg, tail(run.output))
	case run.ran == 0:
		return nil, fmt.Errorf("no test of %s started:\n%s", m.pkg, tail(run.output))
	}
	return run.failed, nil
}

// tail returns the end of a run's output, without the white space around it.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if len(output) <= outputTail {
		return output
	}
	return "..." + output[len(output)-outputTail:]
}
