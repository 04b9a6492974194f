// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestBulk(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server)
		const n = 1000
		path := func(i int) string { return fmt.Sprintf("/tree/%d", i) }
		var ops []framework.Op
		for i := range n {
			ops = append(ops, framework.CreateOp(path(i), fmt.Appendf(nil, "%d", i), framework.CreatingParentsIfNeeded()))
		}
		results, err := f.Bulk(t.Context(), ops)
		require.NoError(t, err)
		require.Len(t, results, n)

		ops = nil
		for i := range n + 1 {
			ops = append(ops, framework.CheckOp(path(i), framework.AnyVersion),
				framework.SetDataOp(path(i), []byte("x"), framework.WithVersion(int32(i%2))))
		}
		results, err = f.Bulk(t.Context(), ops)
		require.ErrorContains(t, err, fmt.Sprintf("%d of %d have failed", n/2+2, 2*(n+1)))
		require.ErrorIs(t, err, framework.ErrBadVersion)
		for i := range n {
			check, set := results[2*i], results[2*i+1]
			require.Equal(t, framework.OpResult{Path: path(i)}, check)
			require.Equal(t, path(i), set.Path)
			if i%2 == 1 {
				require.ErrorIs(t, set.Err, framework.ErrBadVersion)
				require.Nil(t, set.Stat)
			} else {
				require.NoError(t, set.Err)
				require.Equal(t, int32(1), set.Stat.Version)
			}
		}
		check, set := results[2*n], results[2*n+1]
		require.ErrorIs(t, check.Err, framework.ErrNoNode)
		require.ErrorIs(t, set.Err, framework.ErrNoNode)

		ops = nil
		for i := range n {
			ops = append(ops, framework.DeleteOp(path(i)))
		}
		ops = append(ops, framework.DeleteOp("/none", framework.Quietly())) // which a transaction refuses
		must.Get(f.Bulk(t.Context(), ops))(t)
		require.Empty(t, must.Get(f.Children(t.Context(), "/tree"))(t))
	})
}

// No more requests than the window are under way, and none begins after the end of the context.
func TestBulkKeepsToItsWindow(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	mustCreate(t, f, "/node")
	var flying atomic.Int32
	release := make(chan struct{})
	held := make(chan struct{}, 1)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSetData {
			flying.Add(1)
			select {
			case held <- struct{}{}:
			default:
			}
			return zkserver.HoldUntil(release)
		}
		return zkserver.Pass
	})
	ops := make([]framework.Op, 1000)
	for i := range ops {
		ops[i] = framework.SetDataOp("/node", nil)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var results []framework.OpResult
	go func() {
		var err error
		results, err = f.Bulk(ctx, ops)
		done <- err
	}()
	zktest.Await(t, held, "the first set")
	why := errors.New("enough")
	cancel(why)
	require.ErrorIs(t, zktest.Await(t, done, "the end of the bulk"), why)
	close(release)
	require.NoError(t, f.Sync(t.Context(), "/")) // after all that was sent
	require.LessOrEqual(t, int(flying.Load()), 128)
	inDoubt := 0
	for _, r := range results {
		require.ErrorIs(t, r.Err, why)
		if framework.OutcomeUnknown(r.Err) {
			inDoubt++
		}
		var of *framework.OpError
		require.ErrorAs(t, r.Err, &of)
		require.Equal(t, "set", of.Op)
	}
	require.LessOrEqual(t, inDoubt, 128)
}

// TestPipelineInParts: a long list of reads is not sent in one write, and continues after a lost
// connection.
func TestPipelineInParts(t *testing.T) {
	const n = 2500
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.10")) // where each read is a request
	f := zktest.Client(t, server, framework.WithRetryPolicy(retry.NTimes(3, 0)))
	var ops []framework.Op
	for i := range n {
		ops = append(ops, framework.CreateOp(fmt.Sprintf("/long/%d", i), fmt.Appendf(nil, "%d", i), framework.CreatingParentsIfNeeded()))
	}
	must.Get(f.Bulk(t.Context(), ops))(t)
	var lost, first, last atomic.Int32
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.Op != zkserver.OpGetData:
		case r.Path == "/long/0":
			first.Add(1)
		case r.Path == "/long/1500" && lost.Add(1) == 1:
			return zkserver.LoseReply
		case r.Path == fmt.Sprintf("/long/%d", n-1):
			last.Add(1)
		}
		return zkserver.Pass
	})
	reads, data := make([]framework.Read, n), make([][]byte, n)
	for i := range reads {
		reads[i] = framework.ReadData(fmt.Sprintf("/long/%d", i), &data[i])
	}
	require.NoError(t, f.Pipeline(t.Context(), reads...))
	require.EqualValues(t, 1, first.Load(), "the part before the loss is not read again")
	require.EqualValues(t, 2, lost.Load())
	require.EqualValues(t, 1, last.Load(), "it was not sent before the part in front of it was answered")
	for i := range data {
		require.Equal(t, fmt.Sprint(i), string(data[i]))
	}
	reads[7] = framework.ReadData("/none", nil)
	err := f.Pipeline(t.Context(), reads...)
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.ErrorContains(t, err, "/none")
	require.EqualValues(t, 1, last.Load(), "what follows the part that failed is not read")
}

// One read may accept more than the client does, or less.
func TestWithReplyLimit(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server, framework.WithMaxReplySize(2000))
	ops := make([]framework.Op, 500)
	for i := range ops {
		ops[i] = framework.CreateOp(fmt.Sprintf("/long/%d", i), nil, framework.CreatingParentsIfNeeded())
	}
	must.Get(f.Bulk(t.Context(), ops))(t)
	_, err := f.Children(t.Context(), "/long")
	require.ErrorIs(t, err, framework.ErrTooLarge)
	_, err = f.Children(t.Context(), "/long", framework.WithReplyLimit(3000))
	require.ErrorIs(t, err, framework.ErrTooLarge)
	require.ErrorContains(t, err, "at most 3000 are accepted")
	require.Len(t, must.Get(f.Children(t.Context(), "/long", framework.WithReplyLimit(5000)))(t), len(ops))
	_, err = f.Children(t.Context(), "/long", framework.WithReplyLimit(0))
	require.ErrorContains(t, err, "reply limit 0, expected 1 byte or more")

	f = zktest.Client(t, server)
	_, err = f.Children(t.Context(), "/long", framework.WithReplyLimit(3000))
	require.ErrorIs(t, err, framework.ErrTooLarge)
	session := f.Session()
	var long, short []string
	var tooLong, fits error
	require.NoError(t, f.Pipeline(t.Context(),
		framework.ReadChildren("/long", &long, framework.WithReplyLimit(3000)).StoringErrorIn(&tooLong),
		framework.ReadChildren("/", &short, framework.WithReplyLimit(3000)).StoringErrorIn(&fits)))
	require.ErrorIs(t, tooLong, framework.ErrTooLarge, "it fails alone")
	require.NoError(t, fits)
	require.NotEmpty(t, short)
	require.Empty(t, long)
	require.NoError(t, f.Pipeline(t.Context(), framework.ReadChildren("/long", &long, framework.WithReplyLimit(3000)).StoringErrorIn(&tooLong)))
	require.ErrorIs(t, tooLong, framework.ErrTooLarge)
	require.Same(t, session, f.Session())
	require.True(t, f.State().IsConnected())
}

func TestBulkRefusesBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	requests := countRequests(server)
	good := framework.CreateOp("/node", nil)
	for says, ops := range map[string][]framework.Op{
		"bulk: operation 1: invalid option: the zero Op, expected one of CreateOp": {good, {}},
		"bulk: operation 1: invalid option: a nil option":                          {good, framework.SetDataOp("/node", nil, nil)},
		"bulk: operation 0: invalid option: WithTTL(1s) with mode 0":               {framework.CreateOp("/node", nil, framework.WithTTL(time.Second))},
		"bulk: operation 0: invalid option: InSession(nil)":                        {framework.DeleteOp("/node", framework.InSession(nil)), good},
	} {
		_, err := f.Bulk(t.Context(), ops)
		require.ErrorIs(t, err, framework.ErrInvalidOption, says)
		require.ErrorContains(t, err, says)
	}
	_, err := f.Bulk(nil, []framework.Op{good}) //nolint:staticcheck // what a mistake does
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	for _, bad := range []framework.Op{
		framework.DeleteOp("none"), framework.DeleteOp("/"), framework.CreateOp("/", nil), framework.CreateOp("/node/", nil),
		framework.SetDataOp("/zookeeper", nil), framework.CheckOp("/node/", framework.AnyVersion),
	} {
		_, err = f.Bulk(t.Context(), []framework.Op{good, bad})
		require.ErrorIs(t, err, framework.ErrInvalidPath, bad.Path())
		require.ErrorContains(t, err, "bulk: operation 1: ", bad.Path())
	}
	require.Empty(t, must.Get(f.Bulk(t.Context(), nil))(t))
	require.Zero(t, requests(), "nothing was sent")
}

// TestBulkStoresStats in its results, and where the caller wants them.
func TestBulkStoresStats(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t))
	var created, set framework.Stat
	results := must.Get(f.Bulk(t.Context(), []framework.Op{
		framework.CreateOp("/a-", []byte("x"), framework.WithMode(framework.PersistentSequential), framework.StoringStatIn(&created)),
	}))(t)
	require.Equal(t, "/a-0000000000", results[0].Path)
	require.Equal(t, created, *results[0].Stat)
	require.NotZero(t, created.Czxid)
	results = must.Get(f.Bulk(t.Context(), []framework.Op{framework.SetDataOp("/a-0000000000", []byte("y"), framework.StoringStatIn(&set))}))(t)
	require.Equal(t, set, *results[0].Stat)
	require.EqualValues(t, 1, set.Version)
}
