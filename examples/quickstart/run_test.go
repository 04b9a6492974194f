package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestWrongFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":        {[]string{"-lock", "/a"}, "flag provided but not defined: -lock"},
		"argument":            {[]string{"-rounds", "2", "extra"}, `unexpected argument "extra", expected flags only`},
		"no replica":          {[]string{"-replicas", "0"}, "-replicas is 0, expected 1 or more"},
		"replicas no number":  {[]string{"-replicas", "many"}, `invalid value "many" for flag -replicas`},
		"no round":            {[]string{"-rounds", "-1"}, "-rounds is -1, expected 1 or more"},
		"no work":             {[]string{"-work", "0s"}, "-work is 0s, expected a duration above 0 such as 50ms"},
		"work without a unit": {[]string{"-work", "50"}, `invalid value "50" for flag -work`},
		"a port that is none": {[]string{"-connect", "localhost:zookeeper"}, "-connect: framework: "},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			err := run(t.Context(), test.args, &stdout)
			require.Equal(t, 2, exitStatus(err))
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "-replicas number", "the usage follows")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	err := run(t.Context(), []string{"-help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.ErrorContains(t, err, "-connect servers")
	require.Zero(t, exitStatus(err))
}

// In this process the race detector and goleak see all of it.
func TestRunInProcess(t *testing.T) {
	server := zktest.NewServer(t)
	for name, args := range map[string][]string{
		"embedded": {"-replicas", "3", "-rounds", "3", "-work", "4ms"},
		"connect":  {"-replicas", "3", "-rounds", "3", "-work", "4ms", "-connect", server.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			require.NoError(t, run(t.Context(), args, &stdout), &stdout)
			requireComplete(t, outcome{stdout: stdout.String()}, 3, 3)
		})
	}
}

func TestRunThatIsToldToStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout bytes.Buffer
	require.NoError(t, run(ctx, nil, &stdout))
	require.Zero(t, parseSummary(t, stdout.String()).acquisitions)
}

// A run that cannot be completed fails even though no promise was broken.
func TestRunFailsWhenASessionCannotBeKilled(t *testing.T) {
	server := zktest.NewServer(t)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreateSession && r.SessionID != 0 {
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	})
	var stdout bytes.Buffer
	err := run(t.Context(), []string{"-connect", server.Addr(), "-rounds", "1", "-work", "2ms"}, &stdout)
	require.Equal(t, 1, exitStatus(err))
	require.Regexp(t, `^replica-\d: report 1: kill the session of replica-\d: at .*: take the session over: EOF`, err.Error())
	require.NotErrorIs(t, err, errBroken)
	require.True(t, parseSummary(t, stdout.String()).ok())
}

func TestRunFailsWhenTheStoryCannotBePrinted(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	err := run(t.Context(), []string{"-rounds", "1", "-work", "1ms"}, w)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, 1, exitStatus(err))
}

func TestConnectGivesUpWhenNobodyAnswers(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := connect(ctx, server.Addr())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, server.Addr())
}

func TestSaboteurStrikesOnce(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	mutex, err := locks.NewInterProcessMutex(client, lockPath)
	require.NoError(t, err)
	s := &saboteur{journal: newJournal(new(bytes.Buffer)), round: 2}
	work := s.work("replica-1", time.Millisecond)

	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, work(t.Context(), client, lease, 1))
	require.NoError(t, lease.Err())

	// A context that goes on shows what the work does after the strike.
	require.NoError(t, work(t.Context(), client, lease, 2))
	var lost *locks.LostError
	require.ErrorAs(t, lease.Err(), &lost)
	require.Equal(t, framework.ReasonSuspended, lost.Reason, "told before its znode went")

	lease, err = mutex.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, work(t.Context(), client, lease, 2))
	require.NoError(t, lease.Release(t.Context()))
}
