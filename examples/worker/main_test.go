package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica runs a worker and returns the partitions that it takes, and how to stop it.
func replica(t *testing.T, connect, name string, partitions, most int) (taken <-chan int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	lines, ended := make(chan int, 1000), make(chan error, 1)
	go func() {
		err := run(ctx, writer, connect, name, partitions, most)
		_ = writer.Close()
		ended <- err
	}()
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			var n, token int
			if _, err := fmt.Sscanf(scanner.Text(), name+" works on partition %d, token %d", &n, &token); err != nil {
				t.Errorf("%q: %v", scanner.Text(), err)
			}
			lines <- n
		}
	}()
	stop = func() {
		cancel()
		require.NoError(t, zktest.Await(t, ended, "the end of "+name))
	}
	return lines, stop
}

// TestPartitionsAreShared: each is taken by one replica, and another takes over when it ends.
func TestPartitionsAreShared(t *testing.T) {
	server := zktest.NewServer(t)
	a, stopA := replica(t, server.Addr(), "a", 4, 3)
	owner := make(map[int]string)
	for range 3 {
		n := zktest.Await(t, a, "a partition of a")
		require.Empty(t, owner[n])
		owner[n] = "a"
	}
	b, stopB := replica(t, server.Addr(), "b", 4, 4)
	n := zktest.Await(t, b, "the partition that a may not take")
	require.Empty(t, owner[n])
	owner[n] = "b"
	require.Empty(t, a, "a has as many as it may")
	stopA()
	for range 3 {
		n := zktest.Await(t, b, "a partition that a had")
		require.Equal(t, "a", owner[n])
		owner[n] = "b"
	}
	stopB()
	require.Equal(t, map[int]string{0: "b", 1: "b", 2: "b", 3: "b"}, owner)
}
