// SPDX-License-Identifier: Apache-2.0

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
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// defaultTimeout bounds the tests of one run unless a mutant's flags say
// otherwise: a mutant that makes a test hang should not take go test's ten
// minutes to be caught.
const defaultTimeout = 2 * time.Minute

// interruptGrace is how long a command may take to end after an interrupt before
// it is killed.
const interruptGrace = 10 * time.Second

// testMain stands for a package that failed although each of its tests passed,
// as it does when TestMain finds a leaked goroutine.
const testMain = "TestMain"

// testRun is what one run of a test reported.
type testRun struct {
	passed int      // tests and subtests that passed
	ran    int      // tests and subtests that started
	failed []string // those that failed, the innermost only, or testMain
	output string   // everything that was printed
}

// errNotBuilt is matched by the error of a package that does not compile.
var errNotBuilt = errors.New("does not compile")

// buildTest compiles the tests of a package below root, through the overlay unless
// that is empty, to the file binary. The error says what does not compile.
func buildTest(ctx context.Context, root, overlay, pkg, binary string) error {
	// Without the tables of the debugger, linking takes a fraction of the time.
	args := []string{"test", "-c", "-ldflags=-s -w", "-o=" + binary}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(pkg)) // which may be a module of its own
	output, ok, err := runCommand(ctx, cmd)
	if err == nil && !ok {
		err = fmt.Errorf("%s %w:\n%s", pkg, errNotBuilt, tail(output.String()))
	}
	return err
}

// runTest runs m's test, which binary has, in its place below root and waits for it.
// A failing test is a result, not an error: errors are a command that cannot be run,
// output that is not understood, and a ctx that ended, which interrupts the test.
func runTest(ctx context.Context, root, binary string, m mutant) (testRun, error) {
	args := []string{
		"-test.v=test2json", "-test.paniconexit0", "-test.failfast",
		"-test.run=" + m.test, "-test.timeout=" + defaultTimeout.String(),
	}
	for _, flag := range m.flags {
		args = append(args, "-test."+strings.TrimPrefix(flag, "-"))
	}
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = filepath.Join(root, filepath.FromSlash(m.pkg))
	output, ok, err := runCommand(ctx, test)
	if err != nil {
		return testRun{}, err
	}
	convert := exec.CommandContext(ctx, "go", "tool", "test2json")
	convert.Stdin = output
	records, _, err := runCommand(ctx, convert)
	if err != nil {
		return testRun{}, err
	}
	return readEvents(records, ok)
}

// runCommand runs cmd, which is ctx's, and returns what it printed, and whether it
// succeeded. The end of ctx interrupts it and all that it has started.
func runCommand(ctx context.Context, cmd *exec.Cmd) (output *bytes.Buffer, ok bool, err error) {
	output = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	interruptible(cmd)
	cmd.WaitDelay = interruptGrace
	err = cmd.Run()
	name := filepath.Base(cmd.Path)
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return output, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return output, true, nil
}

// event is the part of a record of test2json that matters here. "go doc test2json"
// describes them.
type event struct {
	Action string
	Test   string
	Output string
}

// readEvents reads the records of one run, which was ok or not by its exit status.
func readEvents(r io.Reader, ok bool) (testRun, error) {
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
			return testRun{}, fmt.Errorf("reading the records of the test: %w", err)
		}
		switch e.Action {
		case "output":
			output.WriteString(e.Output)
		case "run":
			run.ran++
			open[e.Test] = true
		case "pass", "skip", "fail":
			if e.Test == "" {
				continue // the exit status is more certain
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
	if !ok {
		failed[testMain] = true
	}
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
