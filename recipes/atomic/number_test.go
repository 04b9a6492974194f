// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestNumberArithmetic(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		long := newLong(t, client)
		ctx := zktest.Context(t)
		number := must.Get(long.Get(ctx))(t)
		require.Zero(t, number, "never set")
		for _, step := range []struct {
			change    func(context.Context) (atomic.Value[int64], error)
			pre, post int64
		}{
			{long.Increment, 0, 1},
			{long.Decrement, 1, 0},
			{func(ctx context.Context) (atomic.Value[int64], error) { return long.Add(ctx, 10) }, 0, 10},
			{func(ctx context.Context) (atomic.Value[int64], error) { return long.Subtract(ctx, 30) }, 10, -20},
			{func(ctx context.Context) (atomic.Value[int64], error) { return long.TrySet(ctx, math.MaxInt64) }, -20, math.MaxInt64},
			{long.Increment, math.MaxInt64, math.MinInt64},
		} {
			value := must.Get(step.change(ctx))(t)
			require.Equal(t, step.pre, value.Pre)
			require.Equal(t, step.post, value.Post)
			require.Equal(t, 1, value.Stats.OptimisticTries)
			require.Zero(t, value.Stats.PromotedTries)
		}
		require.NoError(t, long.ForceSet(ctx, 7))
		number = must.Get(long.Get(ctx))(t)
		require.Equal(t, int64(7), number)
	})
}

func TestNumberBytesOfTheCounters(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	ctx := zktest.Context(t)
	long := newLong(t, client)
	require.NoError(t, long.ForceSet(ctx, -2))
	data := must.Get(client.Get(ctx, long.Path()))(t)
	require.Equal(t, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}, data)
	integer := must.Get(atomic.NewDistributedAtomicInteger(client, "/counters/int"))(t)
	must.Get(integer.Add(ctx, 10))(t)
	data = must.Get(client.Get(ctx, integer.Path()))(t)
	require.Equal(t, []byte{0, 0, 0, 10}, data)
}

func TestNumberOddBytes(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ctx := zktest.Context(t)
		long := newLong(t, client)
		for _, c := range []struct {
			data []byte
			want int64
			ok   bool
		}{
			{nil, 0, true},
			{[]byte{}, 0, true},
			{[]byte{1}, 0, false},
			{[]byte("1234567"), 0, false},
			{[]byte{0, 0, 0, 5}, 0, false}, // a number of another size
			{[]byte{0, 0, 0, 0, 0, 0, 0, 5}, 5, true},
			{[]byte{0, 0, 0, 0, 0, 0, 0, 5, 9}, 0, false},
			{[]byte("0123456789"), 0, false},
			{[]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0x62, 0x60}, 0, false}, // of a client that compresses
		} {
			if _, err := client.Create(ctx, long.Path(), c.data, framework.CreatingParentsIfNeeded(), framework.OrSetData()); err != nil {
				require.NoError(t, err)
			}
			number, err := long.Get(ctx)
			_, addErr := long.Add(ctx, 0)
			if !c.ok {
				require.ErrorIs(t, err, atomic.ErrCorrupted)
				require.ErrorIs(t, addErr, atomic.ErrCorrupted)
				_, err = long.CompareAndSet(ctx, number, 7)
				require.ErrorIs(t, err, atomic.ErrCorrupted)
				_, err = long.TrySet(ctx, 7)
				require.ErrorIs(t, err, atomic.ErrCorrupted)
				integer, err := atomic.NewDistributedAtomicInteger(client, long.Path())
				require.NoError(t, err)
				if len(c.data) != 4 {
					_, err = integer.Increment(ctx)
					require.ErrorIs(t, err, atomic.ErrCorrupted)
					require.Equal(t, c.data, must.Get(client.Get(ctx, long.Path()))(t), "it is left alone")
				}
				continue
			}
			require.NoError(t, err)
			require.NoError(t, addErr)
			require.Equal(t, c.want, number)
		}
	})
}

func TestCompareAndSetAndInitialize(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		long := newLong(t, client)
		ctx := zktest.Context(t)
		expect := func(want bool) func(bool, error) {
			return func(got bool, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
		expect(false)(long.CompareAndSet(ctx, 0, 5)) // it was never set
		expect(true)(long.Initialize(ctx, 0))
		expect(false)(long.Initialize(ctx, 1))
		expect(true)(long.CompareAndSet(ctx, 0, 5))
		expect(false)(long.CompareAndSet(ctx, 0, 6))
		require.Equal(t, int64(5), must.Get(long.Get(ctx))(t))
	})
}

// The reply to a creation is lost, and the next try meets the znode, which may be its own.
func TestInitializeWhoseReplyIsLostIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		long := newLong(t, zktest.Client(t, server))
		created := 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path != "/counters/orders" || r.Op != zkserver.OpCreate2 {
				return zkserver.Pass
			}
			created++
			return map[int]zkserver.Fault{2: zkserver.LoseReply}[created] // the first has found no parent
		})

		ok, err := long.Initialize(t.Context(), 5)

		require.False(t, ok)
		require.True(t, framework.OutcomeUnknown(err), "%v", err)
	})
}

// Each of many additions has values of its own, and together they are one
// order from 0 to the sum.
func TestNumberAdditionsOfManyClients(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]atomic.Option{"optimistic": nil, "promoted": {}} {
		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
			const clients, goroutines, each = 4, 5, 20
			var mu sync.Mutex
			var values []atomic.Value[int64]
			var wg sync.WaitGroup
			for range clients {
				client := zktest.Client(t, server)
				if name == "promoted" {
					opts = []atomic.Option{atomic.WithPromotedToLock("/counters/lock", 1)}
				}
				long := newLong(t, client, opts...)
				for range goroutines {
					wg.Go(func() {
						for range each {
							value, err := long.Add(zktest.Context(t), 3)
							if err != nil {
								t.Errorf("add: %v", err)
								return
							}
							mu.Lock()
							values = append(values, value)
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			slices.SortFunc(values, func(a, b atomic.Value[int64]) int { return int(a.Pre - b.Pre) })
			require.Len(t, values, clients*goroutines*each)
			for i, value := range values {
				require.Equal(t, int64(3*i), value.Pre)
				require.Equal(t, int64(3*i+3), value.Post)
			}
		})
	}
}

func TestNumberGoroutinesShareAWrite(t *testing.T) {
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server))
	must.Get(long.Initialize(zktest.Context(t), 0))(t)
	release := make(chan struct{})
	held := server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.HoldUntil(release)))
	defer held()
	const goroutines = 64
	var wg sync.WaitGroup
	add := func() {
		if _, err := long.Increment(zktest.Context(t)); err != nil {
			t.Errorf("increment: %v", err)
		}
	}
	wg.Go(add)
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })
	for range goroutines - 1 {
		wg.Go(add)
	}
	require.Eventually(t, func() bool { return long.Waiting() == goroutines-1 }, limit, 1)

	close(release)
	wg.Wait()

	require.Equal(t, 2, served(server, zkserver.OpSetData), "one for the first, and one for all that came meanwhile")
	require.Equal(t, int64(goroutines), must.Get(long.Get(zktest.Context(t)))(t))
}

func TestNumberAdditionWithAnEndedContextAddsNothing(t *testing.T) {
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server))
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)

	value, err := long.Increment(ctx)

	require.Zero(t, value)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, reason)
	require.False(t, framework.OutcomeUnknown(err))
	require.Zero(t, must.Get(long.Get(zktest.Context(t)))(t))
}

func TestNumberAdditionWaitsNoLongerThanItsContext(t *testing.T) {
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server))
	must.Get(long.Initialize(zktest.Context(t), 0))(t)
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.HoldUntil(release)))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := long.Increment(ctx); first <- err }()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })
	waits, leave := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := long.Increment(waits); second <- err }()
	require.Eventually(t, func() bool { return long.Waiting() == 1 }, limit, 1)

	leave()
	err := zktest.Await(t, second, "the one that waits")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, framework.OutcomeUnknown(err), "it was not part of a write")
	cancel()
	err = zktest.Await(t, first, "the one that is being written")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, framework.OutcomeUnknown(err), "its write may be applied")
	close(release)
}

func TestNumberLostReplyIsNeverCountedTwice(t *testing.T) {
	for _, c := range []struct {
		fault   zkserver.Fault
		unknown bool // to the caller
		counted int64
	}{
		{zkserver.LoseRequest, false, 1}, // the write is repeated, and that is the only one
		{zkserver.LoseReply, true, 1},    // it was counted, but another client may have been it
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			server := zktest.NewServer(t)
			long := newLong(t, zktest.Client(t, server))
			must.Get(long.Initialize(zktest.Context(t), 0))(t)
			server.Intercept(zkserver.Nth(1, zkserver.OpSetData, c.fault))

			value, err := long.Increment(zktest.Context(t))

			require.Equal(t, c.unknown, err != nil, "%v", err)
			require.Equal(t, c.unknown, value == atomic.Value[int64]{}, "%v", value)
			require.Equal(t, c.unknown, framework.OutcomeUnknown(err))
			require.Equal(t, c.counted, must.Get(long.Get(zktest.Context(t)))(t))
		})
	}
}

func TestCachedCountersHandOutBlocks(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		long := newLong(t, client)
		first := must.Get(atomic.NewCachedAtomicLong(long, 10))(t)
		second := must.Get(atomic.NewCachedAtomicLong(newLong(t, zktest.Client(t, server)), 10))(t)
		for i := range int64(10) {
			require.Equal(t, i+1, must.Get(first.Next(zktest.Context(t)))(t))
		}
		number := must.Get(second.Next(zktest.Context(t)))(t)
		require.Equal(t, int64(11), number)
		number = must.Get(first.Next(zktest.Context(t)))(t)
		require.Equal(t, int64(21), number, "the block between is the other's")

		_, err := atomic.NewCachedAtomicLong(long, 0)
		require.ErrorContains(t, err, "blocks of 0")
		_, err = atomic.NewCachedAtomicInteger(nil, 1)
		require.ErrorContains(t, err, "counter nil")
	})
}

func TestNumberNextBlockFails(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		long := newLong(t, client)
		cached := must.Get(atomic.NewCachedAtomicLong(long, 2))(t)
		for range 2 {
			must.Get(cached.Next(zktest.Context(t)))(t)
		}
		require.NoError(t, client.Set(zktest.Context(t), long.Path(), []byte("bad")))

		number, err := cached.Next(zktest.Context(t))
		require.ErrorIs(t, err, atomic.ErrCorrupted)
		require.Zero(t, number)

		require.NoError(t, long.ForceSet(zktest.Context(t), 40))
		number = must.Get(cached.Next(zktest.Context(t)))(t)
		require.Equal(t, int64(41), number)
	})
}

// awaitHeld waits until the server holds the n-th request of those that it has
// given a fate.
func awaitHeld(t *testing.T, server *zkserver.Server, n int) {
	t.Helper()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		if e.Fault.String() != zkserver.Pass.String() {
			n--
		}
		return n == 0
	})
}

// Two goroutines share a write that the server holds. One of them leaves: it
// does not wait for the other, whose addition goes on.
func TestNumberAdditionLeavesAWriteThatOthersWaitFor(t *testing.T) {
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server))
	must.Get(long.Initialize(zktest.Context(t), 0))(t)
	first, second := make(chan struct{}), make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.HoldUntil(first)))
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.HoldUntil(second))) // the next one
	add := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() { _, err := long.Increment(ctx); ended <- err }()
		return ended
	}
	before := add(zktest.Context(t))
	awaitHeld(t, server, 1)
	ctx, leave := context.WithCancelCause(t.Context())
	leaves := add(ctx)
	require.Eventually(t, func() bool { return long.Waiting() == 1 }, limit, 1)
	stays := add(zktest.Context(t))
	require.Eventually(t, func() bool { return long.Waiting() == 2 }, limit, 1)
	close(first)
	awaitHeld(t, server, 2)

	reason := errors.New("enough")
	leave(reason)

	err := zktest.Await(t, leaves, "the one that leaves")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, reason)
	require.True(t, framework.OutcomeUnknown(err), "its write is under way")
	close(second)
	require.NoError(t, zktest.Await(t, before, "the first"))
	require.NoError(t, zktest.Await(t, stays, "the one that stays"))
	require.Equal(t, int64(3), must.Get(long.Get(zktest.Context(t)))(t))
}

// Of two goroutines that wait, one asks that nothing is repeated. The other must not fail with it.
func TestNumberAdditionsOfDifferentPoliciesShareNoWrite(t *testing.T) {
	const throttled = -127
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	long := newLong(t, client)
	must.Get(long.Initialize(zktest.Context(t), 0))(t)
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.HoldUntil(release)))
	server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.FailWith(throttled))) // the next one
	add := func(ctx context.Context, waiting int) <-chan error {
		ended := make(chan error, 1)
		go func() { _, err := long.Increment(ctx); ended <- err }()
		require.Eventually(t, func() bool { return long.Waiting() == waiting }, limit, 1)
		return ended
	}
	first := add(zktest.Context(t), 0)
	awaitHeld(t, server, 1)
	var once, often <-chan error
	require.NoError(t, client.Retry(zktest.Context(t), func(ctx context.Context) error {
		once, often = add(ctx, 1), add(zktest.Context(t), 2)
		close(release)
		require.ErrorAs(t, zktest.Await(t, once, "the one that is not repeated"), new(framework.ServerError))
		return nil
	}, framework.WithRetry(retry.None())))

	require.NoError(t, zktest.Await(t, first, "the first"))
	require.NoError(t, zktest.Await(t, often, "the one that is repeated"))
	require.Equal(t, int64(2), must.Get(long.Get(zktest.Context(t)))(t))
}

type panickingACLs struct{}

func (panickingACLs) DefaultACL() []framework.ACL       { panic("no list of rights") }
func (panickingACLs) ACLForPath(string) []framework.ACL { panic("no list of rights") }

// The write is made on a goroutine of the counter, and its panic is the caller's.
func TestNumberPanicOfUserCodeIsTheCallers(t *testing.T) {
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server, framework.WithACLProvider(panickingACLs{})))
	require.PanicsWithValue(t, "no list of rights", func() {
		_, err := long.Increment(zktest.Context(t))
		t.Errorf("increment: %v", err)
	})
	must.Get(newLong(t, zktest.Client(t, server)).Initialize(zktest.Context(t), 4))(t)
	value, err := long.Increment(zktest.Context(t)) // no znode has to be created
	require.NoError(t, err)
	require.Equal(t, int64(5), value.Post)
}

// A forced set wins whatever others do; a change that has read the value before
// it starts again.
func TestNumberForcedSetReplacesTheValue(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		long, other := newLong(t, zktest.Client(t, server)), newLong(t, zktest.Client(t, server))
		require.NoError(t, long.ForceSet(zktest.Context(t), 5), "there was no znode")
		must.Get(other.Add(zktest.Context(t), 7))(t)
		require.NoError(t, long.ForceSet(zktest.Context(t), 10))
		require.Equal(t, int64(10), must.Get(other.Increment(zktest.Context(t)))(t).Pre)
	})
}
