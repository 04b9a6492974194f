// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestBulk(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server)
		_, err := f.Create(t.Context(), "/tree", nil, framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		const n = 1000
		path := func(i int) string { return fmt.Sprintf("/tree/%d", i) }
		var ops []framework.BulkOp
		for i := range n {
			ops = append(ops, framework.BulkCreate(path(i), fmt.Appendf(nil, "%d", i)))
		}
		var seen []int
		results, err := f.Bulk(t.Context(), ops, framework.WithProgress(func(done, total int) {
			require.Equal(t, n, total)
			seen = append(seen, done)
		}))
		require.NoError(t, err)
		require.Len(t, results, n)
		require.IsIncreasing(t, seen)
		require.Equal(t, n, seen[len(seen)-1])

		ops = nil
		for i := range n + 1 {
			ops = append(ops, framework.BulkGet(path(i)), framework.BulkExists(path(i)),
				framework.BulkSet(path(i), []byte("x"), framework.WithVersion(int32(i%2))))
		}
		results, err = f.Bulk(t.Context(), ops, framework.WithWindow(10))
		require.ErrorContains(t, err, fmt.Sprintf("%d of %d have failed", n/2+2, 3*(n+1)))
		require.ErrorIs(t, err, framework.ErrBadVersion)
		for i := range n {
			get, exists, set := results[3*i], results[3*i+1], results[3*i+2]
			require.NoError(t, get.Err)
			require.Equal(t, path(i), get.Path)
			require.NotNil(t, exists.Stat)
			if i%2 == 1 {
				require.ErrorIs(t, set.Err, framework.ErrBadVersion)
				require.Nil(t, set.Stat)
				require.Equal(t, fmt.Sprint(i), string(get.Data))
			} else {
				require.NoError(t, set.Err)
				require.Equal(t, int32(1), set.Stat.Version)
			}
		}
		get, exists, set := results[3*n], results[3*n+1], results[3*n+2]
		require.ErrorIs(t, get.Err, framework.ErrNoNode)
		require.Nil(t, get.Stat)
		require.NoError(t, exists.Err)
		require.Nil(t, exists.Stat)
		require.ErrorIs(t, set.Err, framework.ErrNoNode)

		ops = nil
		for i := range n {
			ops = append(ops, framework.BulkDelete(path(i)))
		}
		_, err = f.Bulk(t.Context(), ops)
		require.NoError(t, err)
		names, err := f.Children(t.Context(), "/tree")
		require.NoError(t, err)
		require.Empty(t, names)
	})
}

// No more requests than the window are under way.
func TestBulkKeepsToItsWindow(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	mustCreate(t, f, "/node")
	const window = 7
	proxy := zktest.NewProxy(t, server)
	through := zktest.Client(t, proxy)
	var flying, most atomic.Int32
	release := make(chan struct{})
	held := make(chan struct{}, 1)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetData && r.SessionID == through.Session().ID() {
			most.Store(max(most.Load(), flying.Add(1)))
			select {
			case held <- struct{}{}:
			default:
			}
			return zkserver.HoldUntil(release)
		}
		return zkserver.Pass
	})
	ops := make([]framework.BulkOp, 100)
	for i := range ops {
		ops[i] = framework.BulkGet("/node")
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var results []framework.BulkResult
	go func() {
		var err error
		results, err = through.Bulk(ctx, ops, framework.WithWindow(window))
		done <- err
	}()
	zktest.Await(t, held, "the first read")
	why := errors.New("enough")
	cancel(why)
	require.ErrorIs(t, zktest.Await(t, done, "the end of the bulk"), why)
	close(release)
	require.LessOrEqual(t, int(most.Load()), window)
	for _, r := range results {
		require.ErrorIs(t, r.Err, why)
		var of *framework.OpError
		require.ErrorAs(t, r.Err, &of)
		require.Equal(t, "get", of.Op)
	}
}

// A write whose outcome is unknown says so at its place, and the others go on.
func TestBulkTellsOfUnknownOutcomes(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	for i := range 3 {
		mustCreate(t, f, fmt.Sprintf("/node-%d", i))
	}
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSetData && r.Path == "/node-1" {
			return zkserver.LoseReply
		}
		return zkserver.Pass
	})
	var ops []framework.BulkOp
	for i := range 3 {
		ops = append(ops, framework.BulkSet(fmt.Sprintf("/node-%d", i), []byte("x"), framework.Idempotent(), framework.WithRetry(retry.NTimes(2, 0))))
	}
	results, err := f.Bulk(t.Context(), ops, framework.WithWindow(1))
	require.ErrorContains(t, err, "1 of 3")
	require.NoError(t, results[0].Err)
	require.True(t, framework.OutcomeUnknown(results[1].Err))
	require.NoError(t, results[2].Err)
}

// A reply that is too large is the trouble of its own path.
func TestBulkWithAReplyThatIsTooLarge(t *testing.T) {
	server := zktest.NewServer(t)
	writer := zktest.Client(t, server)
	f := zktest.Client(t, server, framework.WithMaxReplySize(2000))
	mustCreate(t, writer, "/large")
	require.NoError(t, writer.Set(t.Context(), "/large", []byte(strings.Repeat("x", 3000))))
	mustCreate(t, writer, "/small")
	results, err := f.Bulk(t.Context(), []framework.BulkOp{
		framework.BulkGet("/small"), framework.BulkGet("/large"), framework.BulkGet("/small"),
	})
	require.ErrorIs(t, err, framework.ErrTooLarge)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, framework.ErrTooLarge)
	require.NoError(t, results[2].Err)
}

// One read may accept more than the client does.
func TestWithReplyLimit(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server, framework.WithMaxReplySize(2000))
	ops := make([]framework.BulkOp, 500)
	for i := range ops {
		ops[i] = framework.BulkCreate(fmt.Sprintf("/long/%d", i), nil, framework.CreatingParentsIfNeeded())
	}
	_, err := f.Bulk(t.Context(), ops)
	require.NoError(t, err)
	_, err = f.Children(t.Context(), "/long")
	require.ErrorIs(t, err, framework.ErrTooLarge)
	_, err = f.Children(t.Context(), "/long", framework.WithReplyLimit(3000))
	require.ErrorIs(t, err, framework.ErrTooLarge)
	require.ErrorContains(t, err, "at most 3000 are accepted")
	names, err := f.Children(t.Context(), "/long", framework.WithReplyLimit(5000))
	require.NoError(t, err)
	require.Len(t, names, len(ops))
	_, err = f.Children(t.Context(), "/long", framework.WithReplyLimit(0))
	require.ErrorContains(t, err, "reply limit 0, expected 1 byte or more")
}

func TestBulkRefusesBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	before := len(server.Log())
	ops := []framework.BulkOp{framework.BulkExists("/node")}
	for name, try := range map[string]func() error{
		"context":  func() error { _, err := f.Bulk(nil, ops); return err }, //nolint:staticcheck // what a mistake does
		"zero":     func() error { _, err := f.Bulk(t.Context(), []framework.BulkOp{ops[0], {}}); return err },
		"window":   func() error { _, err := f.Bulk(t.Context(), ops, framework.WithWindow(0)); return err },
		"progress": func() error { _, err := f.Bulk(t.Context(), ops, framework.WithProgress(nil)); return err },
		"option":   func() error { _, err := f.Bulk(t.Context(), ops, nil); return err },
	} {
		require.ErrorIs(t, try(), framework.ErrInvalidOption, name)
	}
	_, err := f.Bulk(t.Context(), []framework.BulkOp{ops[0], framework.BulkGet("none")})
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	results, err := f.Bulk(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, results)
	for _, event := range server.Log()[before:] {
		require.NotEqual(t, zkserver.Served, event.Kind, "%v", event)
	}
	require.PanicsWithValue(t, "progress", func() {
		_, _ = f.Bulk(t.Context(), ops, framework.WithProgress(func(int, int) { panic("progress") }))
	})
}

// TestBulkStoresStats in its results, and where the caller wants them.
func TestBulkStoresStats(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t))
	var created, set, got, missing framework.Stat
	var here, absent bool
	results, err := f.Bulk(t.Context(), []framework.BulkOp{framework.BulkCreate("/a", []byte("x"), framework.StoringStatIn(&created))})
	require.NoError(t, err)
	require.Equal(t, created, *results[0].Stat)
	require.NotZero(t, created.Czxid)
	results, err = f.Bulk(t.Context(), []framework.BulkOp{framework.BulkSet("/a", []byte("y"), framework.StoringStatIn(&set))})
	require.NoError(t, err)
	require.Equal(t, set, *results[0].Stat)
	require.EqualValues(t, 1, set.Version)
	results, err = f.Bulk(t.Context(), []framework.BulkOp{
		framework.BulkGet("/a", framework.StoringStatIn(&got), framework.StoringAbsenceIn(&here)),
		framework.BulkGet("/b", framework.StoringStatIn(&missing), framework.StoringAbsenceIn(&absent)),
	})
	require.NoError(t, err)
	require.Equal(t, set, got)
	require.Equal(t, set, *results[0].Stat)
	require.False(t, here)
	require.Equal(t, framework.BulkResult{Path: "/b"}, results[1])
	require.Zero(t, missing)
	require.True(t, absent)
}
