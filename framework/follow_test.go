// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// followed is one pair of a sequence.
type followed[T any] struct {
	state T
	err   error
}

// following runs a loop over a sequence and passes on what it yields, one pair at a time:
// the body of the loop lasts until the pair is taken.
type following[T any] struct {
	t      *testing.T
	pairs  chan followed[T]
	cancel context.CancelFunc
	ended  chan struct{}
}

func followIn[T any](t *testing.T, sequence func(ctx context.Context) iter.Seq2[T, error]) *following[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &following[T]{t, make(chan followed[T]), cancel, make(chan struct{})}
	go func() {
		defer close(l.ended)
		for state, err := range sequence(ctx) {
			select {
			case l.pairs <- followed[T]{state, err}:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(l.stop)
	return l
}

func (l *following[T]) next() followed[T] {
	l.t.Helper()
	return zktest.Await(l.t, l.pairs, "the next state")
}

func (l *following[T]) stop() {
	l.cancel()
	zktest.Await(l.t, l.ended, "the end of the loop")
}

// requireData checks that the next state is a znode with this data.
func requireData(t *testing.T, l *following[framework.Node], want string) framework.Node {
	t.Helper()
	got := l.next()
	require.NoError(t, got.err)
	require.True(t, got.state.Exists(), "there is a znode")
	require.Equal(t, want, string(got.state.Data))
	return got.state
}

func requireAbsent(t *testing.T, l *following[framework.Node]) {
	t.Helper()
	got := l.next()
	require.NoError(t, got.err)
	require.False(t, got.state.Exists(), "there is a znode with %q", got.state.Data)
}

// eachFollowed runs the test with persistent watches on every backend, and with one-shot
// watches on a server that has no others.
func eachFollowed(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	zktest.EachBackend(t, test)
	t.Run("3.5.9", func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		test(t, zktest.Embedded(server))
	})
}

func TestFollowSeesEveryState(t *testing.T) {
	eachFollowed(t, func(t *testing.T, server zktest.Backend) {
		f, writer := zktest.Client(t, server), zktest.Client(t, server)
		must.Get(writer.Create(t.Context(), "/parent", nil, framework.CreatingParentsIfNeeded()))(t)
		before := server.Counts(t)
		loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Node, error] {
			return f.Follow(ctx, "/parent/node")
		})
		requireAbsent(t, loop)
		var first, second framework.Node
		for _, incarnation := range []*framework.Node{&first, &second} {
			must.Get(writer.Create(t.Context(), "/parent/node", []byte("created")))(t)
			*incarnation = requireData(t, loop, "created")
			require.NoError(t, writer.Set(t.Context(), "/parent/node", []byte("changed")))
			requireData(t, loop, "changed")
			require.NoError(t, writer.Delete(t.Context(), "/parent/node"))
			requireAbsent(t, loop)
		}
		require.Greater(t, second.Stat.Czxid, first.Stat.Czxid)
		require.Equal(t, "/parent/node", first.Path)

		loop.stop()
		server.AwaitCounts(t, before, patience)
	})
}

// inBubble is a subtest on the fake clock.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// A loop that is slow gets the newest state.
func TestFollowConflates(t *testing.T) {
	eachFollowed(t, func(t *testing.T, server zktest.Backend) {
		f, writer := zktest.Client(t, server), zktest.Client(t, server)
		must.Get(writer.Create(t.Context(), "/node", []byte("first"), framework.CreatingParentsIfNeeded()))(t)
		const changes = 50
		yielded := 0
		for node, err := range f.Follow(t.Context(), "/node") {
			require.NoError(t, err)
			yielded++
			if string(node.Data) == strconv.Itoa(changes) {
				break
			}
			require.Equal(t, "first", string(node.Data), "a state that was superseded")
			for i := range changes {
				require.NoError(t, writer.Set(t.Context(), "/node", []byte(strconv.Itoa(i+1))))
			}
			require.NoError(t, f.Sync(t.Context(), "/node"))
		}
		require.Equal(t, 2, yielded)
	})
}

// A sequence that nobody ranges over, and what is refused before anything is sent.
func TestFollowRefusesBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	requests := countRequests(server)
	_ = f.Follow(t.Context(), "/node")
	for name, sequence := range map[string]iter.Seq2[framework.Node, error]{
		"path":   f.Follow(t.Context(), "node"),
		"option": f.Follow(t.Context(), "/node", nil),
		"nil":    f.Follow(nil, "/node"), //nolint:staticcheck // what a mistake does
	} {
		pairs := 0
		for node, err := range sequence {
			pairs++
			require.Error(t, err, name)
			require.False(t, node.Exists())
		}
		require.Equal(t, 1, pairs, name)
	}
	require.Zero(t, requests(), "nothing was sent")
}

// Data that cannot be decompressed is reported once, with the last good state; the next good
// data end the trouble.
func TestFollowReportsDamagedData(t *testing.T) {
	for _, version := range []string{"3.9.3", "3.5.9"} {
		inBubble(t, version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
			f, writer := zktest.Client(t, server), zktest.Client(t, server)
			must.Get(writer.Create(t.Context(), "/node", []byte("good"), framework.Compressed()))(t)
			loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Node, error] {
				return f.Follow(ctx, "/node", framework.Decompressed())
			})
			requireData(t, loop, "good")
			for range 2 {
				require.NoError(t, writer.Set(t.Context(), "/node", []byte("damaged")))
				got := loop.next()
				require.ErrorIs(t, got.err, framework.ErrCompression)
				require.Equal(t, "good", string(got.state.Data))
			}
			server.Cut(f.Session().ID(), 1) // reading the same again is no news
			require.NoError(t, writer.Set(t.Context(), "/node", []byte("better"), framework.Compressed()))
			requireData(t, loop, "better")
		})
	}
}

// While reads fail the error comes again and again, with the last state. The first pair after
// that is current, even though nothing has changed.
func TestFollowReportsReadsThatFail(t *testing.T) {
	const throttled, systemError = -127, -1
	for _, code := range []int32{throttled, systemError} {
		inBubble(t, fmt.Sprint(code), func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			f := zktest.Client(t, server, framework.WithRetryPolicy(retry.None()))
			mustCreate(t, f, "/node")
			require.NoError(t, f.Set(t.Context(), "/node", []byte("known")))
			loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Node, error] { return f.Follow(ctx, "/node") })
			requireData(t, loop, "known")

			remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpGetData {
					return zkserver.FailWith(code)
				}
				return zkserver.Pass
			})
			server.Cut(f.Session().ID(), 1) // a reason to read again
			for range 3 {
				began := time.Now()
				got := loop.next()
				require.ErrorAs(t, got.err, new(framework.ServerError))
				require.Equal(t, "known", string(got.state.Data))
				require.LessOrEqual(t, time.Since(began), 5*time.Second)
			}
			remove()
			got := loop.next()
			if got.err != nil { // read before the end of the trouble
				got = loop.next()
			}
			require.NoError(t, got.err)
			require.Equal(t, "known", string(got.state.Data))
			loop.stop()
		})
	}
}

func TestFollowChildren(t *testing.T) {
	eachFollowed(t, func(t *testing.T, server zktest.Backend) {
		f, writer := zktest.Client(t, server), zktest.Client(t, server)
		must.Get(writer.Create(t.Context(), "/parent", nil, framework.CreatingParentsIfNeeded()))(t)
		before := server.Counts(t)
		loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Folder, error] {
			return f.FollowChildren(ctx, "/parent/folder")
		})
		expect := func(exists bool, names ...string) {
			t.Helper()
			got := loop.next()
			require.NoError(t, got.err)
			require.Equal(t, exists, got.state.Exists())
			require.ElementsMatch(t, names, got.state.Names)
			require.IsIncreasing(t, append([]string{""}, append(got.state.Names, "~")...))
		}
		expect(false)
		for range 2 {
			mustCreate(t, writer, "/parent/folder")
			expect(true)
			mustCreate(t, writer, "/parent/folder/b")
			expect(true, "b")
			mustCreate(t, writer, "/parent/folder/a")
			expect(true, "a", "b")
			// What is below or beside the list is no news.
			require.NoError(t, writer.Set(t.Context(), "/parent/folder/a", []byte("x")))
			require.NoError(t, writer.Set(t.Context(), "/parent/folder", []byte("x")))
			require.NoError(t, writer.Delete(t.Context(), "/parent/folder/b"))
			expect(true, "a")
			require.NoError(t, writer.Delete(t.Context(), "/parent/folder/a"))
			expect(true)
			require.NoError(t, writer.Delete(t.Context(), "/parent/folder"))
			expect(false)
		}
		loop.stop()
		server.AwaitCounts(t, before, patience)
	})
}

// After 2^31 creations the numbers of a folder no longer move with a creation.
func TestFollowChildrenAtTheEndOfTheNumbers(t *testing.T) {
	for _, version := range []string{"3.9.3", "3.5.9"} {
		inBubble(t, version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
			f, writer := zktest.Client(t, server), zktest.Client(t, server)
			mustCreate(t, writer, "/folder")
			require.NoError(t, server.SetSequence("/folder", math.MaxInt32))
			loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Folder, error] {
				return f.FollowChildren(ctx, "/folder")
			})
			expect := func(names ...string) {
				t.Helper()
				got := loop.next()
				require.NoError(t, got.err)
				require.ElementsMatch(t, names, got.state.Names)
			}
			expect()
			mustCreate(t, writer, "/folder/a")
			expect("a")
			mustCreate(t, writer, "/folder/b")
			expect("a", "b")
			require.NoError(t, writer.Delete(t.Context(), "/folder/a"))
			expect("b")
		})
	}
}
