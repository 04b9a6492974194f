// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

const path = "/shared/limit"

func started(tb testing.TB, client *framework.Framework, seed int32) *shared.SharedCount {
	tb.Helper()
	c := must.Get(shared.NewSharedCount(client, path, seed))(tb)
	require.NoError(tb, c.Start(zktest.Context(tb)))
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// counts returns the numbers that listeners of c hear.
func counts(tb testing.TB, c *shared.SharedCount) <-chan int32 {
	tb.Helper()
	heard := make(chan int32, 1000)
	registration := c.OnChange(func(v shared.VersionedCount) { heard <- v.Count })
	tb.Cleanup(func() {
		registration.Remove()
		<-registration.Done()
	})
	return heard
}

func awaitCount(tb testing.TB, heard <-chan int32, want int32) {
	tb.Helper()
	last := int32(math.MinInt32)
	for last < want {
		next := zktest.Await(tb, heard, fmt.Sprintf("%d, after %d", want, last))
		require.Greater(tb, next, last, "numbers that only grow are heard in their order")
		last = next
	}
	require.Equal(tb, want, last)
}

func TestSharedListenersHearNumbersInOrder(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const clients, changes = 5, 100
		heard := make([]<-chan int32, clients)
		for i := range heard {
			heard[i] = counts(t, started(t, zktest.Client(t, server), 0))
		}
		writer := started(t, zktest.Client(t, server), 0)
		for n := range int32(changes) {
			require.NoError(t, writer.SetCount(zktest.Context(t), n+1))
		}
		for _, each := range heard {
			awaitCount(t, each, changes)
		}
	})
}

// CURATOR-329: a value is not read when it is started.
func TestSharedFirstSeedWins(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		first, second := started(t, zktest.Client(t, server), 10), started(t, zktest.Client(t, server), 20)
		for _, c := range []*shared.SharedCount{first, second} {
			require.Equal(t, int32(10), must.Get(c.Count())(t))
		}
		require.Equal(t, []byte{0, 0, 0, 10}, must.Get(zktest.Client(t, server).Get(zktest.Context(t), path))(t), "as Curator writes it")
	})
}

func TestSharedTrySucceedsOnlyOnTheNewestValue(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		a, b := started(t, zktest.Client(t, server), 1), started(t, zktest.Client(t, server), 1)
		heard := counts(t, b)
		old := must.Get(b.VersionedCount())(t)

		ok := must.Get(a.TrySetCount(zktest.Context(t), old, 2))(t)
		require.True(t, ok)
		ok = must.Get(b.TrySetCount(zktest.Context(t), old, 3))(t)
		require.False(t, ok)

		require.Equal(t, int32(2), zktest.Await(t, heard, "the change"))
		now := must.Get(b.VersionedCount())(t)
		require.Equal(t, old.Version+1, now.Version)
		require.Greater(t, now.Zxid, old.Zxid)
		ok = must.Get(b.TrySetCount(zktest.Context(t), now, 3))(t)
		require.True(t, ok)
		require.Equal(t, int32(3), zktest.Await(t, heard, "its own change, once"))
		require.Empty(t, heard)
	})
}

// Curator: TestSharedCount.testMultiClientVersioned.
func TestSharedTryThatWasOvertakenShowsTheNewestValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, proxy := zktest.ClientViaProxy(t, server)
		a, b := started(t, zktest.Client(t, server), 1), started(t, client, 1)
		proxy.Delay(time.Second) // a read takes longer than a goroutine
		old := must.Get(b.VersionedCount())(t)
		require.NoError(t, a.SetCount(t.Context(), 2))
		ok := must.Get(b.TrySetCount(t.Context(), old, 3))(t)
		require.False(t, ok)

		now := must.Get(b.VersionedCount())(t)
		require.Equal(t, int32(2), now.Count)
		ok = must.Get(b.TrySetCount(t.Context(), now, 3))(t)
		require.True(t, ok)
	})
}

// The caller knows of the newest value before this copy does.
func TestSharedTryOfAValueThatTheCopyDoesNotHaveYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, proxy := zktest.ClientViaProxy(t, server)
		a, b := started(t, zktest.Client(t, server), 1), started(t, client, 1)
		proxy.Delay(time.Second)
		require.NoError(t, a.SetCount(t.Context(), 2))
		now := must.Get(a.VersionedCount())(t)

		ok, err := b.TrySetCount(t.Context(), shared.VersionedCount{Count: now.Count, Version: now.Version, Zxid: now.Zxid}, 3)

		require.NoError(t, err)
		require.True(t, ok)
	})
}

// A Start that is under way succeeds only if no other call was faster.
func TestSharedStartBesideOthers(t *testing.T) {
	for name, test := range map[string]struct {
		other func(*shared.SharedCount) error
		want  string
	}{
		"a Close": {func(c *shared.SharedCount) error { return c.Close() }, "closed"},
		"a Start": {func(c *shared.SharedCount) error { return c.Start(context.Background()) }, "started already"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				c := must.Get(shared.NewSharedCount(zktest.Client(t, server), path, 1))(t)
				held, first := make(chan struct{}), true
				server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Path == path && first {
						first = false
						return zkserver.HoldUntil(held)
					}
					return zkserver.Pass
				})
				results := make(chan error, 2)
				go func() { results <- c.Start(t.Context()) }()
				synctest.Wait()
				go func() { results <- test.other(c) }()
				synctest.Wait()
				close(held)

				failed := errors.Join(<-results, <-results)

				require.EqualError(t, failed, "shared: start "+path+": "+test.want)
				require.NoError(t, c.Close())
			})
		})
	}
}

// Curator: TestSharedCount.testSimpleVersioned.
func TestSharedTryOfAValueThatNeverWasIsRefused(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		c := started(t, zktest.Client(t, server), 1)
		now := must.Get(c.VersionedCount())(t)
		for _, other := range []shared.VersionedCount{
			{Count: now.Count + 1, Version: now.Version, Zxid: now.Zxid},
			{Count: now.Count, Version: now.Version + 1, Zxid: now.Zxid},
			{Count: now.Count, Version: now.Version, Zxid: now.Zxid + 1},
		} {
			require.False(t, must.Get(c.TrySetCount(zktest.Context(t), other, 2))(t))
		}
		require.True(t, must.Get(c.TrySetCount(zktest.Context(t), now, 2))(t))
	})
}

// CURATOR-688: a value freezes when its version overflows.
func TestSharedVersionMinusOneIsNoCondition(t *testing.T) {
	c := started(t, zktest.Client(t, zktest.NewServer(t)), 1)

	_, err := c.TrySetCount(zktest.Context(t), shared.VersionedCount{Version: -1, Zxid: math.MaxInt64}, 2)

	require.ErrorContains(t, err, "version -1")
}

// CURATOR-311: a value is stale after a reconnection.
func TestSharedChangesDuringAnOutageAreSeen(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		c := started(t, client, 1)
		heard := counts(t, c)
		writer := started(t, zktest.Client(t, server), 1)

		zktest.KillSession(t, client)
		require.NoError(t, writer.SetCount(zktest.Context(t), 7))

		require.Equal(t, int32(7), zktest.Await(t, heard, "the change"))
	})
}

// CURATOR-344: a watcher blocks in a retry loop.
func TestSharedReconnectTellsNothingThatIsNotNew(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, proxy := zktest.ClientViaProxy(t, server)
		c := started(t, client, 1)
		heard := counts(t, c)

		proxy.Cut()
		zktest.AwaitState(t, client, framework.Reconnected)
		require.NoError(t, c.SetCount(zktest.Context(t), 2))

		require.Equal(t, int32(2), zktest.Await(t, heard, "the change"))
		require.Empty(t, heard)
	})
}

func TestSharedLostReplyIsNeverAppliedTwice(t *testing.T) {
	server := zktest.NewServer(t)
	c := started(t, zktest.Client(t, server), 1)
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.LoseReply))
	old := must.Get(c.VersionedCount())(t)

	_, err := c.TrySetCount(zktest.Context(t), old, 2)

	require.True(t, framework.OutcomeUnknown(err), "%v", err)
}

func TestCloseLeavesNothing(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		before := server.Counts(t)
		c := must.Get(shared.NewSharedCount(client, path, 1))(t)
		require.NoError(t, c.Start(zktest.Context(t)))
		require.ErrorContains(t, c.Start(zktest.Context(t)), "started already")

		require.NoError(t, c.Close())
		require.NoError(t, c.Close())

		server.AwaitCounts(t, before, limit)
		require.ErrorIs(t, c.SetCount(zktest.Context(t), 2), shared.ErrClosed)
		require.ErrorIs(t, c.Start(zktest.Context(t)), shared.ErrClosed)
	})
}

func TestSharedWhatIsNoCountIsRefused(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	c := started(t, client, 1)
	require.NoError(t, client.Set(zktest.Context(t), path, []byte("many")[:3]))
	require.Eventually(t, func() bool {
		_, err := c.Count()
		return err != nil
	}, limit, time.Millisecond)
	_, err := c.Count()
	require.ErrorIs(t, err, shared.ErrCorrupted)
	require.ErrorIs(t, must.Get(shared.NewSharedCount(client, path, 1))(t).Start(zktest.Context(t)), shared.ErrCorrupted)
}

func TestSharedListenersPanicAndDataThatIsNoCountAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		c := started(t, client, 1)
		c.OnChange(func(shared.VersionedCount) { panic("the user's own fault") })
		require.NoError(t, c.SetCount(t.Context(), 2))
		synctest.Wait()
		require.Contains(t, log.String(), "a listener of a shared value panicked")
		require.NotContains(t, log.String(), "not a count")

		require.NoError(t, client.Set(t.Context(), path, []byte("abc")))

		synctest.Wait()
		require.Contains(t, log.String(), "a shared count has data that is not a count")
	})
}

func TestSharedBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	_, err := shared.NewSharedValue(nil, path, nil)
	require.ErrorContains(t, err, "client nil")
	_, err = shared.NewSharedCount(client, "limit", 1)
	require.ErrorContains(t, err, `"limit"`)
	v := must.Get(shared.NewSharedValue(client, path, nil))(t)
	require.ErrorIs(t, v.SetValue(t.Context(), nil), shared.ErrNotStarted)
	require.Nil(t, v.Value())
	c := must.Get(shared.NewSharedCount(client, path, 1))(t)
	require.Panics(t, func() { c.OnChange(nil) })
	require.Zero(t, must.Get(c.Count())(t), "before Start")
}

// A read that was slow may bring a value that has since been replaced.
//
// CURATOR-688: a value freezes when its version overflows.
func TestSharedOlderValueNeverReplacesANewerOne(t *testing.T) {
	v := must.Get(shared.NewSharedValue(zktest.Client(t, zktest.NewServer(t)), path, nil))(t)
	require.NoError(t, v.Start(zktest.Context(t)))
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	first := v.VersionedValue()
	newest := first // of this history
	newest.Value, newest.Version, newest.Zxid = []byte("new"), 1, math.MaxInt64
	v.Learn(newest)

	old := newest
	old.Value, old.Version, old.Zxid = []byte("old"), 7, math.MaxInt64-1
	v.Learn(old)

	require.Equal(t, newest, v.VersionedValue())
	require.False(t, must.Get(v.TrySetValue(t.Context(), first, nil))(t), "the server would set it, but the value is known to be replaced")
}

func TestSharedCountThatWasNoneCanBeStartedLater(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(zktest.Context(t), path, []byte("abc"), framework.CreatingParentsIfNeeded()))(t)
	c := must.Get(shared.NewSharedCount(client, path, 1))(t)
	require.ErrorIs(t, c.Start(zktest.Context(t)), shared.ErrCorrupted)
	require.NoError(t, client.Set(zktest.Context(t), path, []byte{0, 0, 0, 5}))

	require.NoError(t, c.Start(zktest.Context(t)))

	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Equal(t, int32(5), must.Get(c.Count())(t))
}

func TestSharedStartSurvivesThatItsZnodeIsDeleted(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	c := must.Get(shared.NewSharedCount(client, path, 7))(t)
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.HoldUntil(release)))
	started := make(chan error, 1)
	go func() { started <- c.Start(zktest.Context(t)) }()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })
	require.NoError(t, other.Delete(zktest.Context(t), path))

	close(release)

	require.NoError(t, zktest.Await(t, started, "the start"))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Equal(t, int32(7), must.Get(c.Count())(t))
}

// What keeps a copy from being read may pass: rights that come back, user code
// that panics once. The copy then goes on.
//
// CURATOR-344: a watcher blocks in a retry loop.
func TestSharedCopyOutlivesAReadThatFails(t *testing.T) {
	const noAuth, throttled = -102, -127
	for name, code := range map[string]int32{"a lack of rights": noAuth, "a retry policy that panics": throttled} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) { panic("the user's own fault") })
			client := zktest.Client(t, server, framework.WithRetryPolicy(policy))
			c := started(t, client, 1)
			heard := counts(t, c)
			writer := started(t, zktest.Client(t, server), 1)
			require.NoError(t, writer.SetCount(zktest.Context(t), 2))
			require.Equal(t, int32(2), zktest.Await(t, heard, "a change"))
			session, first := client.Session().ID(), zkserver.Nth(1, zkserver.OpGetData, zkserver.FailWith(code))
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.SessionID != session { // the writer reads as well
					return zkserver.Pass
				}
				return first(r)
			})
			require.NoError(t, writer.SetCount(zktest.Context(t), 3))

			require.Equal(t, int32(3), zktest.Await(t, heard, "the change whose first read fails"))
		})
	}
}

// A closed copy would stay as it is, however old it grows.
func TestSharedWhatIsClosedSaysSo(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	value := must.Get(shared.NewSharedValue(client, "/value", []byte("seed")))(t)
	count := must.Get(shared.NewSharedCount(client, "/count", 7))(t)
	for _, one := range []interface {
		Start(ctx context.Context) error
		Err() error
		Close() error
	}{value, count} {
		require.ErrorIs(t, one.Err(), shared.ErrNotStarted)
		require.NoError(t, one.Start(t.Context()))
		require.NoError(t, one.Err())
		require.NoError(t, one.Close())
		require.ErrorIs(t, one.Err(), shared.ErrClosed)
	}
	require.Nil(t, value.Value())
	require.Zero(t, value.VersionedValue())
	_, err := count.Count()
	require.ErrorIs(t, err, shared.ErrClosed)
	_, err = count.VersionedCount()
	require.ErrorIs(t, err, shared.ErrClosed)

	another := must.Get(shared.NewSharedValue(client, "/value", nil))(t)
	require.NoError(t, another.Start(t.Context()))
	require.NoError(t, client.Close())
	require.ErrorIs(t, another.Err(), framework.ErrClosed)
	require.NoError(t, another.Close())
}

// Servers that begin again may have another value with the same version and the same Zxid.
func TestSharedTryReplacesNoOtherValueWithTheSameNumbers(t *testing.T) {
	for restored, want := range map[string]struct {
		set         bool
		data, known string
		heard       []string
	}{
		"before":  {true, "after", "after", []string{"after"}},
		"another": {false, "another", "another", []string{"another"}},
		"":        {false, "", "before", nil},
	} {
		t.Run(restored, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := func(content string) (*zkserver.Server, *framework.Framework, *shared.SharedValue) {
					server := zktest.NewServer(t, zkserver.WithoutListener())
					client := zktest.Client(t, server)
					v := must.Get(shared.NewSharedValue(client, "/value", []byte(content)))(t)
					if content != "" {
						require.NoError(t, v.Start(t.Context()))
						t.Cleanup(func() { require.NoError(t, v.Close()) })
					}
					return server, client, v
				}
				server, client, v := open("before")
				other, _, w := open(restored)
				known := v.VersionedValue()
				if restored != "" {
					require.Equal(t, known.Version, w.VersionedValue().Version)
					require.Equal(t, known.Zxid, w.VersionedValue().Zxid)
				}
				var heard []string
				v.OnChange(func(value shared.VersionedValue) { heard = append(heard, string(value.Value)) })
				session := client.Session()
				require.NoError(t, server.Stop())
				require.NoError(t, server.Restore(other.Backup(), 0))
				pass := server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.FailWith(-102))) // the follower has a pause
				require.NoError(t, server.Restart())
				zktest.Await(t, session.Done(), "the end of the session")
				require.NoError(t, client.BlockUntilConnected(t.Context()))
				synctest.Wait()
				pass() // it may rest since the end of the session, and not have read

				set, err := v.TrySetValue(t.Context(), known, []byte("after"))

				require.NoError(t, err)
				require.Equal(t, want.set, set)
				require.Equal(t, want.known, string(v.Value()))
				data, err := client.Get(t.Context(), "/value")
				require.Equal(t, restored == "", errors.Is(err, framework.ErrNoNode))
				require.Equal(t, want.data, string(data))
				synctest.Wait()
				require.Equal(t, want.heard, heard)
			})
		})
	}
}

func TestCloseWaitsForItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const throttled = -127
		server, release := zktest.NewServer(t, zkserver.WithoutListener()), make(chan struct{})
		policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) { <-release; return 0, true })
		client := zktest.Client(t, server, framework.WithRetryPolicy(policy))
		v := must.Get(shared.NewSharedValue(client, path, nil))(t)
		require.NoError(t, v.Start(t.Context()))
		synctest.Wait()
		server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.FailWith(throttled)))
		require.NoError(t, v.SetValue(t.Context(), []byte("new")))
		synctest.Wait() // its goroutine is in the policy now
		closed := make(chan error, 1)
		go func() { closed <- v.Close() }()
		synctest.Wait()
		require.Empty(t, closed)

		close(release)

		require.NoError(t, <-closed)
	})
}
