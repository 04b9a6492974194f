// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

const (
	condition = "key == 42"
	anyKey    = "true"
)

func TestRunnerRunMutantsTellsWhatBecameOfEach(t *testing.T) {
	cases := []struct {
		mutant mutant
		by     []string
		err    string // a part of the error, or empty
	}{
		{
			mutant: doorMutant("assertion", condition, anyKey, "^TestStrict$"),
			by:     []string{"TestStrict/wrong"},
		},
		{
			mutant: doorMutant("survivor", condition, anyKey, "^TestLax$"),
		},
		{
			mutant: doorMutant("goroutine-panics", "close(done)", `panic("jammed")`, "^TestClose$"),
			by:     []string{"TestClose"},
		},
		{
			mutant: doorMutant("hangs", "close(done)", "_ = done", "^TestClose$", "-timeout=500ms"),
			by:     []string{"TestClose"},
		},
		{
			mutant: doorMutant("seen-at-the-end", condition, "key != 42", "^TestClose$"),
			by:     []string{testMain},
		},
		{
			mutant: mutant{name: "no-such-place", err: errors.New("nowhere")},
			err:    "mutants: no-such-place: nowhere",
		},
		{
			mutant: doorMutant("not-a-program", condition, `"open"`, "^TestStrict$"),
			err:    "with the mutant: door does not compile",
		},
		{
			mutant: doorMutant("dies-before-the-tests", "func Wait", "func init() { panic(0) }\n\nfunc Wait", "^TestStrict$"),
			err:    "with the mutant: no test of door started",
		},
		{
			mutant: doorMutant("no-such-test", condition, anyKey, "^TestNothing$"),
			err:    `without the mutant: -run "^TestNothing$" matches no test of door`,
		},
		{
			mutant: doorMutant("skipped", condition, anyKey, "^TestSkipped$"),
			err:    "every test of door that it matches is skipped",
		},
		{
			mutant: doorMutant("fails-anyway", condition, anyKey, "^TestBroken$"),
			err:    `without the mutant: -run "^TestBroken$" fails anyway in door: TestBroken`,
		},
		{
			mutant: doorMutant("bad-flag", condition, anyKey, "^TestStrict$", "-timeout=never"),
			err:    "fails anyway in door: TestMain:\ninvalid value \"never\" for flag -test.timeout",
		},
	}
	mutants := make([]mutant, 0, len(cases))
	for i := range cases {
		mutants = append(mutants, cases[i].mutant)
	}

	verdicts, err := runMutants(t.Context(), newDoor(t), mutants, 2, io.Discard)

	require.NoError(t, err)
	require.Len(t, verdicts, len(cases))
	for i, c := range cases {
		t.Run(c.mutant.name, func(t *testing.T) {
			v := verdicts[i]
			require.Equal(t, c.mutant.name, v.mutant.name)
			require.Equal(t, c.by, v.by)
			require.Equal(t, len(c.by) > 0, v.ok())
			if c.err == "" {
				require.NoError(t, v.err)
			} else {
				require.ErrorContains(t, v.err, c.err)
			}
		})
	}
}

func TestRunnerRunMutantsLeavesTheTreeAlone(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	root := newDoor(t)

	_, err := runMutants(t.Context(), root, []mutant{doorMutant("m", condition, anyKey, "^TestStrict$")}, 1, io.Discard)

	require.NoError(t, err)
	require.Equal(t, doorSource, string(must.Get(os.ReadFile(filepath.Join(root, doorFile)))(t)))
	require.Empty(t, must.Get(os.ReadDir(scratch))(t))
}

func TestRunnerRunMutantsEndsARunningTestWithTheContext(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	hangs := doorMutant("hangs", "func Opens", callsBack(listener), "^TestStrict$")
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	root := newDoor(t)
	done := make(chan error, 1)
	go func() {
		verdicts, err := runMutants(ctx, root, []mutant{hangs}, 1, io.Discard)
		if len(verdicts) > 0 {
			err = fmt.Errorf("got a verdict, %s, beside %w", verdicts[0], err)
		}
		done <- err
	}()
	conn := must.Get(listener.Accept())(t)
	defer conn.Close()

	cancel(reason)

	require.EqualError(t, <-done, "mutants: stopped after 0 of 1: enough")
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err, "the process of the test is gone")
}

// callsBack is the beginning of a package that reports that it runs by a connection,
// which lives as long as its process does, and waits for that to be closed.
func callsBack(listener net.Listener) string {
	return fmt.Sprintf(`func init() {
	conn, err := dial("tcp", %q)
	if err != nil {
		panic(err)
	}
	conn.Read(make([]byte, 1))
}

func Opens`, listener.Addr())
}

func TestRunnerBaselineRunsOncePerTest(t *testing.T) {
	first := doorMutant("first", condition, anyKey, "^TestLax$")
	same := doorMutant("same-test", condition, "false", "^TestLax$")
	flags := doorMutant("other-flags", condition, anyKey, "^TestLax$", "-cpu=1")
	other := doorMutant("other-test", condition, anyKey, "^TestStrict$")
	root, scratch := newDoor(t), t.TempDir()
	var progress bytes.Buffer
	r := newRunner(t.Context(), root, scratch, []mutant{first, same, flags, other}, &progress)
	require.NoError(t, r.baselines[baselineKey(first)]())

	// From here on there is nothing to run, which only a run of its own would show.
	require.NoError(t, os.Remove(must.Get(r.binaries[first.pkg]())(t)))

	require.NoError(t, r.baselines[baselineKey(same)]())
	require.Error(t, r.baselines[baselineKey(flags)]())
	require.Error(t, r.baselines[baselineKey(other)]())
	require.Regexp(t, `^without a mutant: door -run \^TestLax\$ passes \([^)]*\)\n$`, progress.String())
}

func TestRunnerBaselineNeedsATestThatCompiles(t *testing.T) {
	m := doorMutant("m", condition, anyKey, "^TestLax$")
	root := newDoor(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, doorFile), []byte("package door\n"), 0o600))
	r := newRunner(t.Context(), root, t.TempDir(), []mutant{m}, io.Discard)

	require.ErrorContains(t, r.baselines[baselineKey(m)](), "door does not compile:\n")
}

// The door's tests say so by a connection when they begin, and wait until it ends.
func TestRunnerRunMutantsTriesSeveralAtATime(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	waits := func(name string) mutant { return doorMutant(name, "func Opens", callsBack(listener), "^TestStrict$") }
	done := make(chan error, 1)
	root := newDoor(t)
	go func() {
		_, err := runMutants(t.Context(), root, []mutant{waits("a"), waits("b")}, 2, io.Discard)
		done <- err
	}()

	first := must.Get(listener.Accept())(t)
	second := must.Get(listener.Accept())(t)

	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.NoError(t, <-done)
}

func TestRunnerTailKeepsTheEnd(t *testing.T) {
	long := make([]byte, outputTail+100)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	require.Equal(t, "short", tail("\n short \n"))
	require.Equal(t, "..."+string(long[100:]), tail(string(long)))
}
