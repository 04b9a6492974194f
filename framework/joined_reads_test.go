// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// reading is what a read of data has stored.
type reading struct {
	data []byte
	stat framework.Stat
	err  error
}

// readTogether reads paths in one pipeline.
func readTogether(ctx context.Context, f *framework.Framework, paths []string) ([]reading, error) {
	into, reads := make([]reading, len(paths)), make([]framework.Read, len(paths))
	for i, path := range paths {
		reads[i] = framework.ReadData(path, &into[i].data, framework.StoringStatIn(&into[i].stat)).StoringErrorIn(&into[i].err)
	}
	return into, f.Pipeline(ctx, reads...)
}

// knowVersion waits until the client knows the version of its server. Before that, reads share no
// requests.
func knowVersion(t *testing.T, f *framework.Framework) {
	t.Helper()
	must.Get(f.Ephemerals(t.Context(), "/"))(t)
}

const short = 20 // bytes of data

// createFolder creates a folder with n nodes whose data tells their number, and returns the paths.
func createFolder(t *testing.T, f *framework.Framework, n int) []string {
	t.Helper()
	ops, paths := make([]framework.Op, n), make([]string, n)
	for i := range n {
		paths[i] = fmt.Sprintf("/folder/%d", i)
		ops[i] = framework.CreateOp(paths[i], numbered(i, short), framework.CreatingParentsIfNeeded())
	}
	must.Get(f.Bulk(t.Context(), ops))(t)
	return paths
}

func numbered(i, length int) []byte {
	return append(fmt.Appendf(nil, "%d ", i), bytes.Repeat([]byte{'x'}, length)...)
}

// countReads counts the requests for data, alone and together.
func countReads(server *zkserver.Server) (alone, together *atomic.Int32) {
	alone, together = new(atomic.Int32), new(atomic.Int32)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetData {
			alone.Add(1)
		}
		if r.Op == zkserver.OpMultiRead && len(r.Reads) > 1 {
			together.Add(1)
		}
		return zkserver.Pass
	})
	return alone, together
}

// Reads that share a request have the results that they have alone.
func TestJoinedReadsHaveTheirOwnResults(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.GetEphemerals)
		f := zktest.Client(t, server)
		const n = 200 // the 50th and the 60th share a request
		paths := createFolder(t, f, n)
		knowVersion(t, f)
		paths[50] = "/folder/missing"
		closed := paths[60]
		require.NoError(t, f.SetACL(t.Context(), closed, zk.DigestACL(zk.PermAll, "user", "password")))
		require.NoError(t, f.Set(t.Context(), paths[180], nil))
		_, err := readTogether(t.Context(), f, paths) // the client learns how long they are
		require.NoError(t, err)
		got := must.Get(readTogether(t.Context(), f, paths))(t)
		for i, path := range paths {
			switch i {
			case 50:
				require.ErrorIs(t, got[i].err, framework.ErrNoNode)
			case 60:
				require.ErrorIs(t, got[i].err, framework.ErrNoAuth)
			case 180:
				require.NoError(t, got[i].err)
				require.Empty(t, got[i].data)
			default:
				require.NoError(t, got[i].err)
				require.Equal(t, string(numbered(i, short)), string(got[i].data))
			}
			var of *framework.OpError
			if got[i].err != nil {
				require.ErrorAs(t, got[i].err, &of)
				require.Equal(t, "get", of.Op)
				require.Equal(t, path, of.Path)
				continue
			}
			require.Equal(t, *must.Get(f.Exists(t.Context(), path))(t), got[i].stat)
		}

		// Without a place for its error, the first that fails names itself.
		reads := make([]framework.Read, n)
		for i, path := range paths {
			reads[i] = framework.ReadData(path, nil)
		}
		err = f.Pipeline(t.Context(), reads...)
		require.ErrorIs(t, err, framework.ErrNoNode)
		var of *framework.OpError
		require.ErrorAs(t, err, &of)
		require.Equal(t, paths[50], of.Path)
	})
}

// existence is what an exists has stored.
type existence struct {
	stat *framework.Stat
	err  error
}

// existTogether asks for the Stats of paths in one pipeline.
func existTogether(ctx context.Context, f *framework.Framework, paths []string) ([]existence, error) {
	into, reads := make([]existence, len(paths)), make([]framework.Read, len(paths))
	for i, path := range paths {
		reads[i] = framework.ReadStat(path, &into[i].stat).StoringErrorIn(&into[i].err)
	}
	return into, f.Pipeline(ctx, reads...)
}

// Exists that share a request have the results that they have alone, also about znodes that may not be read.
func TestJoinedExistsHaveTheirOwnResults(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.GetEphemerals)
		f := zktest.Client(t, server)
		const n = 200
		paths := createFolder(t, f, n)
		knowVersion(t, f)
		paths[50] = "/folder/missing"
		check := func() {
			t.Helper()
			got := must.Get(existTogether(t.Context(), f, paths))(t)
			for i, path := range paths {
				require.NoError(t, got[i].err)
				if i == 50 {
					require.Nil(t, got[i].stat)
					continue
				}
				var stat framework.Stat
				must.Get(f.Children(t.Context(), path, framework.StoringStatIn(&stat)))(t)
				require.Equal(t, &stat, got[i].stat)
			}
		}
		check() // the client learns how long data is
		check()
		for _, i := range []int{60, 61, 199} {
			require.NoError(t, f.SetACL(t.Context(), paths[i], zk.DigestACL(zk.PermAll, "user", "password")))
		}
		for range 2 {
			got := must.Get(existTogether(t.Context(), f, paths))(t)
			for i, path := range paths {
				stat, err := f.Exists(t.Context(), path)
				require.Equal(t, stat, got[i].stat)
				// Some versions of ZooKeeper want the permission to read for a Stat, too.
				require.Equal(t, errors.Is(err, framework.ErrNoAuth), errors.Is(got[i].err, framework.ErrNoAuth))
				require.Equal(t, err == nil, got[i].err == nil, "%v, %v", err, got[i].err)
			}
		}
	})
}

// Data that has grown, so that it does not fit into one reply, is read alone.
func TestJoinedReadsThatAreTooLongTogether(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithMaxReplySize(64<<10))
		paths := createFolder(t, f, 64)
		knowVersion(t, f)
		must.Get(readTogether(t.Context(), f, paths))(t)
		for i, path := range paths {
			require.NoError(t, f.Set(t.Context(), path, numbered(i, 10<<10)))
		}
		alone, together := countReads(n.server)
		got := must.Get(readTogether(t.Context(), f, paths))(t)
		for i := range paths {
			require.Equal(t, numbered(i, 10<<10), got[i].data)
		}
		require.NotZero(t, together.Load())
		once := int32(len(paths))
		require.Contains(t, []int32{once, 2 * once}, alone.Load(), "once, and again in their order if the first time did not keep it")
	})
}

// A caller that keeps the data of one read does not keep the data of the others in memory.
func TestJoinedReadsShareNoMemory(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	paths := createFolder(t, f, 64)
	knowVersion(t, f)
	must.Get(readTogether(t.Context(), f, paths))(t)
	got := must.Get(readTogether(t.Context(), f, paths))(t)
	freed := make(chan struct{})
	runtime.AddCleanup(&got[0].data[0], func(done chan struct{}) { close(done) }, freed)
	kept := got[1].data // and got is not used any more
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}, patience, time.Millisecond)
	require.Equal(t, numbered(1, short), kept)
}

// TestJoinedReadsKeepTheirOrder: reads that the server does not answer together are sent again, after later reads were answered. A
// caller that compares them must not find a change in the first that the last does not show.
func TestJoinedReadsKeepTheirOrder(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server), zktest.Client(t, server)
	paths := createFolder(t, f, 64)
	must.Get(f.Create(t.Context(), "/last", nil))(t)
	knowVersion(t, f)
	var folder, child, last *framework.Stat
	two := []framework.Read{framework.ReadStat("/folder", &folder), framework.ReadStat("/folder/0", &child)}
	for range 2 {
		_, err := existTogether(t.Context(), f, paths) // the client learns that znodes have little data
		require.NoError(t, err)
	}
	refused, changed := false, false
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpMultiRead {
			refused = true
			return zkserver.FailWith(-6) // unimplemented
		}
		if r.Op != zkserver.OpExists || r.Path != "/folder" || changed {
			return zkserver.Pass
		}
		changed = true
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, err := other.Transact(context.Background(), framework.CreateOp("/folder/new", nil), framework.SetDataOp("/last", []byte("new")))
			if err != nil {
				t.Error(err)
			}
		}()
		return zkserver.HoldUntil(written)
	})
	var names []string
	require.NoError(t, f.Pipeline(t.Context(), append(two, framework.ReadChildren("/", &names), framework.ReadStat("/last", &last))...))
	require.True(t, refused && changed)
	require.EqualValues(t, 65, folder.NumChildren)
	require.EqualValues(t, 1, last.Version, "it was read after the folder")
}
