// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestUpdateSeesEachChangeOfOthers(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		value, theirs := newValue(t, client), newValue(t, other)
		ctx := zktest.Context(t)
		calls := 0

		result, err := value.Update(ctx, func(pre []byte) ([]byte, error) {
			if calls++; calls <= 2 {
				// Created by another client after the first read, and changed after the second.
				if err := theirs.ForceSet(ctx, append(pre, 'x')); err != nil {
					return nil, err
				}
			}
			return append(pre, 'y'), nil
		})

		require.NoError(t, err)
		require.Equal(t, 3, calls)
		require.Equal(t, "xx", string(result.Pre))
		require.Equal(t, "xxy", string(result.Post))
		require.Equal(t, 3, result.Stats.OptimisticTries)
		require.Equal(t, "xxy", string(must.Get(theirs.Get(ctx))(t)))
	})
}

func TestValueFailedChangeWritesNothing(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	value := newValue(t, client)
	failure := errors.New("no")

	_, err := value.Update(zktest.Context(t), func([]byte) ([]byte, error) { return nil, failure })

	require.ErrorIs(t, err, failure)
	require.Nil(t, must.Get(client.Exists(zktest.Context(t), value.Path()))(t))
}

func TestCompareAndSetOfBytes(t *testing.T) {
	value := newValue(t, zktest.Client(t, zktest.NewServer(t)))
	ctx := zktest.Context(t)
	ok := must.Get(value.CompareAndSet(ctx, nil, []byte("a")))(t)
	require.False(t, ok, "it was never set")
	must.Get(value.TrySet(ctx, []byte("a")))(t)
	ok = must.Get(value.CompareAndSet(ctx, []byte("b"), []byte("c")))(t)
	require.False(t, ok)
	ok = must.Get(value.CompareAndSet(ctx, []byte("a"), []byte("c")))(t)
	require.True(t, ok)
}

func TestValuePromotion(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	value := newValue(t, client, atomic.WithPromotedToLock("/values/lock", 1))
	calls := 0

	result, err := value.Update(zktest.Context(t), func([]byte) ([]byte, error) {
		if calls++; calls == 1 {
			_, err := client.Create(t.Context(), value.Path(), []byte("x"), framework.CreatingParentsIfNeeded())
			return nil, err
		}
		return []byte("y"), nil
	})

	require.NoError(t, err)
	require.Equal(t, "x", string(result.Pre))
	require.Equal(t, 1, result.Stats.OptimisticTries)
	require.Equal(t, 1, result.Stats.PromotedTries)
	require.Positive(t, result.Stats.PromotedTime)
}

// CURATOR-688: a value freezes when its version overflows.
func TestValueConditionOnTheLastVersionIsRefused(t *testing.T) {
	value := newValue(t, zktest.Client(t, zktest.NewServer(t)))

	require.ErrorContains(t, value.SetVersion(zktest.Context(t), []byte("a"), -1), "must be deleted")
}

func TestValueBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for name, c := range map[string]struct {
		path string
		opts []atomic.Option
		want string
	}{
		"relative path":  {"a", nil, `"a"`},
		"nil option":     {"/a", []atomic.Option{nil}, "a nil option"},
		"tries":          {"/a", []atomic.Option{atomic.WithPromotedToLock("/b", -1)}, "-1 tries"},
		"relative lock":  {"/a", []atomic.Option{atomic.WithPromotedToLock("b", 1)}, `"b"`},
		"the lock's own": {"/a", []atomic.Option{atomic.WithPromotedToLock("/a", 1)}, "same path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := atomic.NewDistributedAtomicValue(client, c.path, c.opts...)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := atomic.NewDistributedAtomicLong(nil, "/a")
	require.ErrorContains(t, err, "client nil")
	value := newValue(t, client)
	_, err = value.Update(t.Context(), nil)
	require.ErrorContains(t, err, "function nil")
	var none context.Context
	_, err = value.TrySet(none, nil)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	_, err = newLong(t, client).Increment(none)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
}

// A change that was made under the lock is made, whatever becomes of the lock: a
// caller that repeats it because of an error would make it twice.
func TestValueReleaseThatFailsDoesNotFailTheChange(t *testing.T) {
	const noAuth = -102
	server := zktest.NewServer(t)
	long := newLong(t, zktest.Client(t, server), atomic.WithPromotedToLock("/values/lock", 0))
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpDelete {
			return zkserver.FailWith(noAuth)
		}
		return zkserver.Pass
	})

	value, err := long.Increment(zktest.Context(t))

	require.NoError(t, err)
	require.Equal(t, int64(1), value.Post)
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Request.Op == zkserver.OpDelete })
}

// The creation of a value may be applied although its context has ended.
func TestValueForcedCreationInDoubtIsReported(t *testing.T) {
	server := zktest.NewServer(t)
	value := newValue(t, zktest.Client(t, server))
	require.NoError(t, zktest.Client(t, server).Mkdirs(zktest.Context(t), "/values"))
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.HoldUntil(release)))
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.HoldUntil(release)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- value.ForceSet(ctx, []byte("a")) }()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })

	cancel()

	err := zktest.Await(t, ended, "the end")
	close(release)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, framework.OutcomeUnknown(err), "%v", err)
}

// Once a client has joined the queue of the lock, the others join it too instead of being
// faster again and again. Each request takes a millisecond.
func TestValuePromotionIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, length = 64, 8 * time.Second
		server := zktest.NewServer(t, zkserver.WithoutListener())
		server.Intercept(func(zkserver.Request) zkserver.Fault { return zkserver.Delay(time.Millisecond) })
		counts := make([]int, clients)
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		var wg sync.WaitGroup
		for i := range counts {
			long := newLong(t, zktest.Client(t, server), atomic.WithPromotedToLock("/values/lock", 3))
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := long.Increment(ctx); err == nil {
						counts[i]++
					}
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, n := range counts {
			sum += n
		}
		t.Logf("least %d, most %d, mean %d", slices.Min(counts), slices.Max(counts), sum/clients)
		require.GreaterOrEqual(t, sum/clients, 10)
		require.GreaterOrEqual(t, 3*slices.Min(counts), sum/clients, "%v", counts)
	})
}

// Changes that wait for the lock have been overtaken often. One that was made under the lock is no
// reason to overtake them again.
func TestValueChangeAfterAPromotedOneJoinsThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		value := newValue(t, client, atomic.WithPromotedToLock("/values/lock", 1))
		calls := 0
		must.Get(value.Update(t.Context(), func([]byte) ([]byte, error) {
			if calls++; calls == 1 { // it is overtaken, and so promoted
				_, err := client.Create(t.Context(), value.Path(), []byte("x"), framework.CreatingParentsIfNeeded())
				return nil, err
			}
			return []byte("y"), nil
		}))(t)
		other := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/values/lock"))(t)
		lease := must.Get(other.Acquire(t.Context()))(t)
		changed := make(chan error, 1)

		go func() { _, err := value.TrySet(t.Context(), []byte("z")); changed <- err }()

		time.Sleep(time.Second)
		require.Equal(t, "y", string(must.Get(client.Get(t.Context(), value.Path()))(t)))
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, <-changed)
	})
}
