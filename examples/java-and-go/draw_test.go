// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	turns     = 20
	limit     = 3 * time.Minute                                                        // a test that needs it has failed
	classPath = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar" // as the documentation has it
)

// TestDrawEachNumberOnceInJavaAndGo has both wait for a lock, and then take turns: if they were
// inside together, they would draw a number twice.
func TestDrawEachNumberOnceInJavaAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts Java")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("the programs take too long"))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	mutex, err := locks.NewInterProcessMutex(zktest.Client(t, server), lockPath)
	require.NoError(t, err)
	first, err := mutex.Acquire(t.Context())
	require.NoError(t, err)

	drawn := make(chan string, 2*turns)
	var programs sync.WaitGroup
	start := func(draw func(w io.Writer) error) {
		reader, writer := io.Pipe()
		programs.Go(func() {
			if err := draw(writer); err != nil {
				fail(err)
			}
			assert.NoError(t, writer.Close())
		})
		programs.Go(func() {
			for lines := bufio.NewScanner(reader); lines.Scan(); {
				drawn <- lines.Text()
			}
		})
	}
	start(func(w io.Writer) error { return run(ctx, w, server.Addr(), turns) })
	start(func(w io.Writer) error { return java(ctx, w, server.Addr()) })
	waiting := make(map[string]bool)
	_, err = server.Await(ctx, func(e zkserver.Event) bool { // a waiter watches the contender before it
		if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && strings.HasPrefix(e.Request.Path, lockPath+"/") {
			waiting[e.Request.Path] = true
		}
		return len(waiting) == 2
	})
	require.NoError(t, err, "a program has failed: %v", context.Cause(ctx))
	require.Empty(t, drawn, "while another one has the lock")
	require.NoError(t, first.Release(t.Context()))

	programs.Wait()
	require.NoError(t, context.Cause(ctx))
	close(drawn)
	numbers := make(map[int]bool)
	by := make(map[string]int)
	for line := range drawn {
		var program string
		var number int
		_, err := fmt.Sscanf(line, "%s draws %d", &program, &number)
		require.NoError(t, err, "%q", line)
		require.False(t, numbers[number], "%d was drawn twice", number)
		numbers[number] = true
		by[program]++
	}
	require.Equal(t, map[string]int{"go": turns, "java": turns}, by)
	require.True(t, numbers[2*turns], "the last number")
}

// java runs the program in Java as the documentation says.
func java(ctx context.Context, w io.Writer, connect string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "java", "-cp", classPath, "Draw.java", connect, strconv.Itoa(turns))
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get install default-jdk-headless libcurator-recipes-java, if they are missing: %w\n%s", err, stderr.String())
	}
	return nil
}
