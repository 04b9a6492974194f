package locks_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gocurator/curator/testing/zktest"
)

// twentyTimes runs the test twenty times on each backend.
func twentyTimes(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		for range trials {
			t.Run("trial", func(t *testing.T) { test(t, server) })
		}
	})
}

// twentyAtOnce does the same with several trials at a time, each at a path of its
// own: for tests that wait more than they work, and do not count what is left.
func twentyAtOnce(t *testing.T, test func(t *testing.T, server zktest.Backend, path string)) {
	t.Helper()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		gate := make(chan struct{}, trialsAtOnce)
		var wg sync.WaitGroup
		for trial := range trials {
			wg.Go(func() {
				gate <- struct{}{}
				defer func() { <-gate }()
				t.Run("trial", func(t *testing.T) { test(t, server, fmt.Sprintf("/locks/%d", trial)) })
			})
		}
		wg.Wait()
	})
}
