// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

const (
	path     = "/queues/mails"
	lockPath = "/queues/mails-locks"
)

// withLock is the option of consumers that take locks.
var withLock = queues.WithLockPath(lockPath)

func newQueue(tb testing.TB, client *framework.Framework, opts ...queues.Option) *queues.DistributedQueue {
	tb.Helper()
	q := must.Get(queues.NewDistributedQueue(client, path, opts...))(tb)
	return q
}

// source is any queue that can be consumed.
type source interface {
	Consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error
}

// consumed returns what a consumer of q gets until the test ends.
func consumed(tb testing.TB, q source) <-chan string {
	tb.Helper()
	items := make(chan string, 10000)
	start(tb, q, func(_ context.Context, item []byte) error {
		items <- string(item)
		return nil
	})
	return items
}

// start consumes q until the test ends, or until stop is called.
func start(tb testing.TB, q source, fn func(ctx context.Context, item []byte) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Consume(ctx, fn) }()
	stopped := false
	stop = func() {
		tb.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.ErrorIs(tb, zktest.Await(tb, ended, "the end of the consumer"), context.Canceled)
	}
	tb.Cleanup(stop)
	return stop
}

// awaitItems returns the next items, n of them.
func awaitItems(tb testing.TB, items <-chan string, n int) []string {
	tb.Helper()
	got := make([]string, n)
	for i := range got {
		got[i] = zktest.Await(tb, items, fmt.Sprintf("item %d of %d, after %v", i+1, n, got[:i]))
	}
	return got
}

// awaitNames waits until there are so many znodes below folder, and returns
// their names in order.
func awaitNames(tb testing.TB, client *framework.Framework, folder string, n int) []string {
	tb.Helper()
	for f, err := range client.FollowChildren(zktest.Context(tb), folder) {
		require.NoError(tb, err, "%v, expected %d", f.Names, n)
		if len(f.Names) == n {
			return slices.Sorted(slices.Values(f.Names))
		}
	}
	return nil
}

// numbers returns the decimal numbers from 0.
func numbers(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return list
}

var errFailed = errors.New("the mail is not sent")

var nilContext context.Context
