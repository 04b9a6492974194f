// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output has the lines of all replicas.
type output chan string

func (o output) Write(line []byte) (int, error) {
	o <- strings.TrimSuffix(string(line), "\n")
	return len(line), nil
}

// TestCronRunsEachSecondInOneReplica, also when that replica ends.
func TestCronRunsEachSecondInOneReplica(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	out := make(output, 100)
	var all sync.WaitGroup
	stops := make(map[string]context.CancelFunc)
	for _, name := range []string{"a", "b"} {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		stops[name] = stop
		all.Go(func() {
			if err := run(ctx, out, server.Addr(), name, "* * * * * *"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	var last time.Time
	ran := make(map[string]bool)
	for range 4 {
		name, rest, _ := strings.Cut(zktest.Await(t, out, "a run"), " ")
		tick, err := time.Parse(time.TimeOnly, strings.TrimPrefix(rest, "writes the report of "))
		require.NoError(t, err)
		if !last.IsZero() {
			require.Equal(t, time.Second, tick.Sub(last))
		}
		last = tick
		if !ran[name] {
			ran[name] = true
			stops[name]()
		}
		if len(ran) == 2 {
			break
		}
	}
	require.Len(t, ran, 2, "the other replica goes on")
	all.Wait() // both are stopped
}
