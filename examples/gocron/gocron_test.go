// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output has the lines of a replica, as far as there is room for them.
type output chan string

func (o output) Write(line []byte) (int, error) {
	select {
	case o <- strings.TrimSuffix(string(line), "\n"):
	default:
	}
	return len(line), nil
}

// start starts a replica whose job runs every few milliseconds.
func start(t *testing.T, connect, name string) (out output, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = make(output, 10)
	ended := make(chan error, 1)
	go func(out output) { ended <- run(ctx, out, connect, name, 5*time.Millisecond) }(out)
	return out, func() {
		cancel()
		require.NoError(t, zktest.Await(t, ended, "the end of "+name))
	}
}

func TestGocronRunsTheJobsOfTheLeader(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	a, stopA := start(t, server.Addr(), "a")
	require.Equal(t, "a writes the report", zktest.Await(t, a, "a run of a"))
	b, stopB := start(t, server.Addr(), "b")
	for range cap(a) + 1 {
		zktest.Await(t, a, "a run of a")
	}
	require.Empty(t, b, "a leads")
	stopA()
	require.Equal(t, "b writes the report", zktest.Await(t, b, "a run of b"))
	stopB()
}
