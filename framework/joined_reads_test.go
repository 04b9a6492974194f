// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
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

// When the client knows that the server is new enough and the data short, many reads are few
// requests. A read that sets a watch stays alone, at its place.
func TestJoinedReadsOfDataShareRequests(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		const many = 300
		paths := createFolder(t, f, many)
		knowVersion(t, f)
		must.Get(readTogether(t.Context(), f, paths))(t)

		alone, together := countReads(n.server)
		must.Get(readTogether(t.Context(), f, paths))(t)
		require.Zero(t, alone.Load())
		require.EqualValues(t, 5, together.Load())

		var watch *framework.Watch
		reads := make([]framework.Read, many)
		for i, path := range paths {
			reads[i] = framework.ReadData(path, nil)
		}
		reads[10] = framework.ReadData(paths[10], nil, framework.Watched(&watch))
		require.NoError(t, f.Pipeline(t.Context(), reads...))
		defer watch.Cancel()
		require.EqualValues(t, 1, alone.Load())
		require.EqualValues(t, 5+1+5, together.Load())
		require.NoError(t, f.Set(t.Context(), paths[10], nil))
		zktest.Await(t, watch.Fired(), "the watch")
		require.Equal(t, zk.EventNodeDataChanged, watch.Event().Type)

		must.Get(f.Get(t.Context(), paths[0]))(t)
		require.EqualValues(t, 2, alone.Load(), "there was nothing to share with")
	})
}

// Many goroutines that read by themselves share requests too, as soon as the client knows the
// version of the server.
func TestJoinedReadsGoroutinesShareRequests(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	paths := createFolder(t, f, 20)
	_, together := countReads(server)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := g; together.Load() < 100; i++ {
				var stat framework.Stat
				data, err := f.Get(ctx, paths[i%len(paths)], framework.StoringStatIn(&stat))
				if want := string(numbered(i%len(paths), short)); err != nil || string(data) != want || int(stat.DataLength) != len(want) {
					t.Errorf("got %q of length %d and %v, want %q", data, stat.DataLength, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

// Servers that lack the request get single reads: those that say so by their version, and those
// that only refuse it.
func TestJoinedReadsAreSentAloneToOlderServers(t *testing.T) {
	for _, version := range []string{"3.5.5", "3.5.10"} {
		t.Run(version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithVersion(version))
			f := zktest.Client(t, server)
			paths := createFolder(t, f, 100)
			_, together := countReads(server)
			for range 3 {
				for _, n := range []int{10, len(paths)} { // the client does not ask for the version for a few
					must.Get(readTogether(t.Context(), f, paths[:n]))(t)
				}
			}
			require.Zero(t, together.Load())
		})
	}
	t.Run("refused", func(t *testing.T) {
		const unimplemented = -6
		server := zktest.NewServer(t)
		f := zktest.Client(t, server)
		paths := createFolder(t, f, 100)
		knowVersion(t, f)
		var refused atomic.Int32
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMultiRead {
				refused.Add(1)
				return zkserver.FailWith(unimplemented)
			}
			return zkserver.Pass
		})
		for i := range 3 {
			before := refused.Load()
			got := must.Get(readTogether(t.Context(), f, paths))(t)
			for i := range paths {
				require.Equal(t, string(numbered(i, short)), string(got[i].data))
			}
			require.True(t, i == 0 || refused.Load() == before, "it is not asked again")
		}
		require.NotZero(t, refused.Load())
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

// A lost reply and a server that is too busy are repeated for all of them.
func TestJoinedReadsAreRepeated(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server, framework.WithRetryPolicy(retry.NTimes(3, 0)))
	paths := createFolder(t, f, 64)
	knowVersion(t, f)
	must.Get(readTogether(t.Context(), f, paths))(t)
	const throttled = -127
	server.Intercept(zkserver.Nth(1, zkserver.OpMultiRead, zkserver.FailWith(throttled)))
	server.Intercept(zkserver.Nth(1, zkserver.OpMultiRead, zkserver.LoseReply))
	got := must.Get(readTogether(t.Context(), f, paths))(t)
	for i := range paths {
		require.Equal(t, numbered(i, short), got[i].data)
	}
}

// A reply with other results than those asked for is malformed, and the next one is read.
func TestJoinedReadsMalformedReplies(t *testing.T) {
	result := func(op uint32, rest ...byte) []byte {
		header := binary.BigEndian.AppendUint32(nil, op)
		return append(append(header, 0, 0xff, 0xff, 0xff, 0xff), rest...)
	}
	for name, body := range map[string][]byte{
		"nothing":               {},
		"one of many":           result(4, append([]byte{0, 0, 0, 0}, make([]byte, 68)...)...),
		"data without a Stat":   result(4, 0, 0, 0, 1, 'x'),
		"data without its end":  result(4, 0, 0, 1, 0, 'x'),
		"data of length -2":     result(4, append([]byte{0xff, 0xff, 0xff, 0xfe}, make([]byte, 68)...)...),
		"an error without code": result(0xffffffff),
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f := n.client(t, framework.WithRetryPolicy(retry.None()))
				paths := createFolder(t, f, 64)
				knowVersion(t, f)
				must.Get(readTogether(t.Context(), f, paths))(t)
				remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpMultiRead {
						return zkserver.RespondWith(replyFrame(r.Xid, 0, body))
					}
					return zkserver.Pass
				})
				_, err := readTogether(t.Context(), f, paths)
				require.ErrorIs(t, err, framework.ErrMalformedReply)
				remove()
				require.NoError(t, f.Sync(t.Context(), "/")) // waits for the connection
				require.Equal(t, numbered(63, short), must.Get(readTogether(t.Context(), f, paths))(t)[63].data)
			})
		})
	}
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
