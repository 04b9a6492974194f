// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// In this process the race detector and goleak see all of it.
func TestStoryInProcess(t *testing.T) {
	server := zktest.NewServer(t)
	for name, connect := range map[string]string{"embedded": "", "connect": server.Addr()} {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			cfg := config{connect: connect, replicas: 3, rounds: 3, work: 4 * time.Millisecond}
			require.NoError(t, play(t.Context(), cfg, &stdout), &stdout)
			requireComplete(t, outcome{stdout: stdout.String()}, 3, 3)
		})
	}
}

func TestStoryThatIsToldToStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout bytes.Buffer
	require.NoError(t, play(ctx, config{replicas: 4, rounds: 5, work: time.Millisecond}, &stdout))
	require.Zero(t, parseSummary(t, stdout.String()).acquisitions)
}

// A run that cannot be completed fails even though no promise was broken.
func TestStoryFailsWhenASessionCannotBeKilled(t *testing.T) {
	server := zktest.NewServer(t)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreateSession && r.SessionID != 0 {
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	})
	var stdout bytes.Buffer
	err := play(t.Context(), config{connect: server.Addr(), replicas: 4, rounds: 1, work: 2 * time.Millisecond}, &stdout)
	require.Error(t, err)
	require.Regexp(t, `^replica-\d: report 1: kill the session of replica-\d: zktest: kill session .*: handshake: EOF`, err.Error())
	require.NotErrorIs(t, err, errBroken)
	require.Zero(t, parseSummary(t, stdout.String()).overlaps)
}

func TestStoryThatCannotBePrinted(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	err := play(t.Context(), config{replicas: 2, rounds: 1, work: time.Millisecond}, w)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestStoryReplicaGivesUpWithoutAServer(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r := &replica{servers: server.Addr(), rounds: 1, story: new(story)}
	err := r.run(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, server.Addr())
}

// TestStoryJudges: two valid leases at once are an overlap, and a token must rise.
func TestStoryJudges(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	acquire := func(path string) *locks.Lease {
		mutex, err := locks.NewInterProcessMutex(client, path)
		require.NoError(t, err)
		lease, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		return lease
	}
	first, second := acquire("/a"), acquire("/b")
	s := &story{out: io.Discard}
	s.enter("one", 1, first, time.Now())
	s.enter("two", 1, second, time.Now())
	require.Equal(t, 1, s.overlaps)
	require.Zero(t, s.regressions)
	s.leave(second)
	s.enter("one", 2, first, time.Now())
	require.Equal(t, 1, s.overlaps, "the second had left")
	require.Equal(t, 1, s.regressions)
	require.ErrorIs(t, s.sum(), errBroken)

	require.NoError(t, first.Release(t.Context()))
	s.enter("two", 2, second, time.Now())
	require.Equal(t, 1, s.overlaps, "the first has been released")
	require.NoError(t, second.Release(t.Context()))
}

func TestStoryHasOneAccident(t *testing.T) {
	s := &story{strikeIn: 2}
	require.False(t, s.strikes(1))
	require.True(t, s.strikes(2))
	require.False(t, s.strikes(2))
}
