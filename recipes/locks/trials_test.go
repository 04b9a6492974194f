// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/testing/zktest"
)

// trials is how often a test leads into the same trouble, with another timing each time: twenty
// times in a long run.
func trials() int {
	if seeds.Long() {
		return 20
	}
	return 3
}

// tryOften runs the test for each trial on each backend, or until it fails.
func tryOften(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	t.Parallel()
	tryInTurn(t, test)
}

// tryInTurn is tryOften for tests that count what all clients of a server have left there.
func tryInTurn(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		for range trials() {
			if !t.Run("trial", func(t *testing.T) { test(t, server) }) {
				return
			}
		}
	})
}

// tryAtOnce does the same with several trials at a time, each at a path of its
// own: for tests that wait more than they work, and do not count what is left.
func tryAtOnce(t *testing.T, test func(t *testing.T, server zktest.Backend, path string)) {
	t.Helper()
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		runTrials(t, func(t *testing.T, trial int) { test(t, server, fmt.Sprintf("/locks/%d", trial)) })
	})
}

// runTrials runs the trials, several at a time, and begins none after a failure.
func runTrials(t *testing.T, test func(t *testing.T, trial int)) {
	t.Helper()
	gate := make(chan struct{}, trialsAtOnce)
	var wg sync.WaitGroup
	for trial := range trials() {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if !t.Failed() {
				t.Run("trial", func(t *testing.T) { test(t, trial) })
			}
		})
	}
	wg.Wait()
}
