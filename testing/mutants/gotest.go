package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// defaultTimeout bounds the tests of one run unless a mutant's flags say
// otherwise: a mutant that makes a test hang should not take go test's ten
// minutes to be caught.
const defaultTimeout = 2 * time.Minute

// interruptGrace is how long go test may take to end after an interrupt before
// it is killed.
const interruptGrace = 10 * time.Second

// testMain stands for a package that failed although each of its tests passed,
// as it does when TestMain finds a leaked goroutine.
const testMain = "TestMain"

// testRun is what one run of go test reported.
type testRun struct {
	passed   int      // tests and subtests that passed
	ran      int      // tests and subtests that started
	failed   []string // those that failed, the innermost only, or testMain
	noBuild  bool     // the package or its tests did not compile
	finished bool     // go test reported a result for the package
	output   string   // everything that was printed
}

// goTest runs m's test below root, through the overlay unless that is empty,
// and waits for it. A failing test is a result, not an error: errors are a go
// command that cannot be run, output that is not understood, and a ctx that
// ended, which interrupts the test.
func goTest(ctx context.Context, root, overlay string, m mutant) (testRun, error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + defaultTimeout.String()}
	args = append(args, m.flags...)
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	args = append(args, "-run="+m.test, m.pkg)

	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	interruptible(cmd)
	cmd.WaitDelay = interruptGrace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return testRun{}, fmt.Errorf("go test: %w", context.Cause(ctx))
	}
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return testRun{}, fmt.Errorf("go test: %w", err)
	}
	run, err := readEvents(&stdout)
	if err != nil {
		return testRun{}, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	if !run.finished {
		return testRun{}, fmt.Errorf("go %s: no result for the package: %s",
			strings.Join(args, " "), strings.TrimSpace(stderr.String()))
	}
	return run, nil
}

// event is the part of a "go test -json" record that matters here. The records
// are described in "go doc test2json" and "go help buildjson".
type event struct {
	Action string
	Test   string
	Output string
}

// readEvents reads the records of one package.
func readEvents(r io.Reader) (testRun, error) {
	var (
		run    testRun
		output strings.Builder
		failed = make(map[string]bool)
		open   = make(map[string]bool) // started and without a result
	)
	for decoder := json.NewDecoder(r); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return testRun{}, fmt.Errorf("reading the records of go test: %w", err)
		}
		switch e.Action {
		case "output", "build-output":
			output.WriteString(e.Output)
		case "build-fail":
			run.noBuild = true
		case "run":
			run.ran++
			open[e.Test] = true
		case "pass", "skip", "fail":
			if e.Test == "" {
				run.finished = true
				if e.Action == "fail" {
					failed[testMain] = true
				}
				continue
			}
			delete(open, e.Test)
			switch e.Action {
			case "pass":
				run.passed++
			case "fail":
				failed[e.Test] = true
			}
		}
	}
	// A test without a result was running when the process died: of a panic in
	// another goroutine, or of the timeout.
	maps.Copy(failed, open)
	run.failed = innermost(failed)
	run.output = output.String()
	return run, nil
}

// innermost returns the names sorted and without those that only report the
// failure of another: parents of a failed subtest, and testMain beside a test.
func innermost(failed map[string]bool) []string {
	names := slices.Sorted(maps.Keys(failed))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		if name == testMain {
			return len(names) > 1
		}
		return slices.ContainsFunc(names, func(other string) bool {
			return strings.HasPrefix(other, name+"/")
		})
	})
}
