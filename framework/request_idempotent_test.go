// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Curator: TestCreate.testIdempotentCreate, testIdempotentCreateConnectionLoss,
// TestSetData.testIdempotentSet, testIdempotentSetConnectionLoss, TestDelete.testIdempotentDelete,
// testIdempotentDeleteConnectionLoss.
func TestIdempotentCreate(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		create := func(data string, opts ...framework.CreateOption) (framework.Stat, error) {
			var stat framework.Stat
			opts = append(opts, framework.Idempotent(), framework.StoringStatIn(&stat))
			path, err := f.Create(ctx, "/a", []byte(data), opts...)
			if err == nil {
				require.Equal(t, "/a", path)
			}
			return stat, err
		}
		first, err := create("one")
		require.NoError(t, err)
		again, err := create("one")
		require.NoError(t, err)
		require.Equal(t, first, again)
		_, err = create("two")
		require.ErrorIs(t, err, framework.ErrNodeExists)
		require.False(t, framework.OutcomeUnknown(err))
		require.NoError(t, f.Set(ctx, "/a", []byte("two")))
		_, err = create("two")
		require.ErrorIs(t, err, framework.ErrNodeExists, "it has been changed since it was created")

		other := zktest.Client(t, server.ConnectString())
		ephemeral := framework.WithMode(framework.Ephemeral)
		mustCreate(t, other, "/e", ephemeral)
		_, err = f.Create(ctx, "/e", nil, ephemeral, framework.Idempotent())
		require.ErrorIs(t, err, framework.ErrNodeExists, "an ephemeral node of another session is not ours")
		_, err = other.Create(ctx, "/e", nil, ephemeral, framework.Idempotent())
		require.NoError(t, err)
	})
}

// Curator: TestCreate.testIdempotentCreate, testIdempotentCreateConnectionLoss,
// TestSetData.testIdempotentSet, testIdempotentSetConnectionLoss, TestDelete.testIdempotentDelete,
// testIdempotentDeleteConnectionLoss.
func TestIdempotentSetAndDelete(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		set := func(data string, version int32) (framework.Stat, error) {
			var stat framework.Stat
			err := f.Set(ctx, "/start", []byte(data), framework.Idempotent(), framework.WithVersion(version),
				framework.StoringStatIn(&stat))
			return stat, err
		}
		first, err := set("one", 0)
		require.NoError(t, err)
		again, err := set("one", 0)
		require.NoError(t, err)
		require.Equal(t, first, again)
		_, err = set("two", 0)
		require.ErrorIs(t, err, framework.ErrBadVersion, "other data")
		_, err = set("two", 1)
		require.NoError(t, err)
		_, err = set("two", 0)
		require.ErrorIs(t, err, framework.ErrBadVersion, "it has been set twice since")
		require.ErrorIs(t, f.Set(ctx, "/none", nil, framework.Idempotent()), framework.ErrNoNode)

		require.NoError(t, f.Delete(ctx, "/start", framework.Idempotent()))
		require.NoError(t, f.Delete(ctx, "/start", framework.Idempotent()))
		require.NoError(t, f.Delete(ctx, "/start", framework.Quietly()))
		require.ErrorIs(t, f.Delete(ctx, "/start"), framework.ErrNoNode)
	})
}

// idempotentWrites are the writes that may be repeated in doubt, and what they leave
// behind: version and data of the znode /a, which exists before with version 0.
var idempotentWrites = map[string]struct {
	write   func(ctx context.Context, f *framework.Framework) error
	want    string // "" when the znode is to be gone
	version int32
}{
	"create": {func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Create(ctx, "/a/b", []byte("new"), framework.Idempotent())
		return err
	}, "old", 0},
	"create or set": {func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Create(ctx, "/a", []byte("new"), framework.OrSetData(0), framework.Idempotent())
		return err
	}, "new", 1},
	"set": {func(ctx context.Context, f *framework.Framework) error {
		return f.Set(ctx, "/a", []byte("new"), framework.WithVersion(0), framework.Idempotent())
	}, "new", 1},
	"delete": {func(ctx context.Context, f *framework.Framework) error {
		return f.Delete(ctx, "/a", framework.Idempotent())
	}, "", 0},
}

// TestIdempotentWritesSurviveEveryLoss does every fault to every request of each
// write: with retries it succeeds and is applied exactly once; without, an error
// that says the write was not applied is true.
//
// Curator: TestCreate.testIdempotentCreate, testIdempotentCreateConnectionLoss,
// TestSetData.testIdempotentSet, testIdempotentSetConnectionLoss, TestDelete.testIdempotentDelete,
// testIdempotentDeleteConnectionLoss.
func TestIdempotentWritesSurviveEveryLoss(t *testing.T) {
	for name, w := range idempotentWrites {
		for fault, how := range faults {
			for k := 1; k <= 3; k++ {
				t.Run(fmt.Sprintf("%s/%s/request %d", name, fault, k), func(t *testing.T) {
					for _, policy := range []retry.Policy{patient, retry.None()} {
						inMemory(t, func(t *testing.T, n *memnet) {
							observer := n.client(t)
							_, err := observer.Create(t.Context(), "/a", []byte("old"))
							require.NoError(t, err)
							f := n.client(t, framework.WithRetryPolicy(policy))
							requests := faultAt(n, f.Session().ID(), how, k)
							err = w.write(t.Context(), f)
							hit := requests() >= k
							if policy == patient || !hit {
								require.NoError(t, err)
							}
							if err != nil && framework.OutcomeUnknown(err) {
								return
							}
							stat, readErr := observer.Exists(t.Context(), "/a")
							require.NoError(t, readErr)
							switch {
							case err != nil:
								require.NotNil(t, stat)
								require.Zero(t, stat.Version+stat.NumChildren, "%v", err)
							case w.want == "":
								require.Nil(t, stat)
							default:
								data, err := observer.Get(t.Context(), "/a")
								require.NoError(t, err)
								require.Equal(t, w.want, string(data))
								require.Equal(t, w.version, stat.Version)
							}
						})
					}
				})
			}
		}
	}
}

// holdWhile keeps a request from being served until another client has done
// something.
func holdWhile(do func()) zkserver.Fault {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	return zkserver.HoldUntil(done)
}

// TestIdempotentDoubtOutlivesALaterRefusal: the first try has been applied, and others have
// changed the znode before the second, which is refused. That refusal must not be
// taken for "not applied".
//
// Curator: TestCreate.testIdempotentCreate, testIdempotentCreateConnectionLoss,
// TestSetData.testIdempotentSet, testIdempotentSetConnectionLoss, TestDelete.testIdempotentDelete,
// testIdempotentDeleteConnectionLoss.
func TestIdempotentDoubtOutlivesALaterRefusal(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, other := n.client(t, framework.WithRetryPolicy(patient)), n.client(t)
		creates := 0
		n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpCreate2 {
				return zkserver.Pass
			}
			if creates++; creates == 1 {
				return zkserver.LoseReply
			}
			return holdWhile(func() {
				if err := other.Set(context.Background(), "/a", []byte("theirs")); err != nil {
					t.Error(err)
				}
			})
		})
		_, err := f.Create(t.Context(), "/a", []byte("ours"), framework.Idempotent())
		require.Equal(t, 2, creates)
		require.ErrorIs(t, err, framework.ErrNodeExists)
		require.True(t, framework.OutcomeUnknown(err), "%v", err)
		var op *framework.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "create", op.Op)
	})
}

// Curator: TestCreate.testOrSetData, testOrSetDataMetrics.
func TestOrSetData(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		var stat framework.Stat
		put := func(path, data string, version ...int32) error {
			created, err := f.Create(ctx, path, []byte(data), framework.OrSetData(version...),
				framework.CreatingParentsIfNeeded(), framework.StoringStatIn(&stat))
			if err == nil {
				require.Equal(t, path, created)
			}
			return err
		}
		require.NoError(t, put("/x/y", "one", 7))
		require.Zero(t, stat.Version, "a version is for a znode that exists")
		require.NoError(t, put("/x/y", "two"))
		require.EqualValues(t, 1, stat.Version)
		require.NoError(t, put("/x/y", "three", 1))
		require.EqualValues(t, 2, stat.Version)
		err := put("/x/y", "four", 1)
		require.ErrorIs(t, err, framework.ErrBadVersion)
		require.False(t, framework.OutcomeUnknown(err))
		data, err := f.Get(ctx, "/x/y")
		require.NoError(t, err)
		require.Equal(t, "three", string(data))

		names := []string{"stale"}
		_, err = f.Create(ctx, "/x/y", nil, framework.OrSetData(), framework.ListingSiblingsIn(&names))
		require.NoError(t, err)
		require.Nil(t, names)
	})
}

// TestOrSetDataAgainstDeletes has the znode vanish between the create that finds it
// and the set (CURATOR-719).
//
// Curator: TestCreate.testOrSetData, testOrSetDataMetrics.
func TestOrSetDataAgainstDeletes(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server.Addr()), zktest.Client(t, server.Addr())
	mustCreate(t, f, "/a")
	deleted := 0
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpSetData || deleted > 0 {
			return zkserver.Pass
		}
		deleted++
		return holdWhile(func() {
			if err := other.Delete(context.Background(), "/a"); err != nil {
				t.Error(err)
			}
		})
	})
	defer remove()
	var stat framework.Stat
	_, err := f.Create(t.Context(), "/a", []byte("x"), framework.OrSetData(), framework.StoringStatIn(&stat))
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.Zero(t, stat.Version, "created anew")
}

func TestIdempotentOptionsThatContradictEachOther(t *testing.T) {
	f := unstarted(t)
	sequential := framework.WithMode(framework.PersistentSequential)
	for name, opts := range map[string][]framework.CreateOption{
		"or set, sequential":           {framework.OrSetData(), sequential},
		"or set, protected":            {framework.OrSetData(), framework.WithProtection()},
		"or set, two versions":         {framework.OrSetData(1, 2)},
		"idempotent, sequential":       {framework.Idempotent(), sequential},
		"idempotent, protected":        {framework.Idempotent(), framework.WithProtection()},
		"parents' list without a list": {framework.ApplyingACLToParents(), framework.CreatingParentsIfNeeded()},
		"parents' list, no parents": {
			framework.ApplyingACLToParents(), framework.WithACL(framework.ACL{Perms: 1, Scheme: "world", ID: "anyone"}),
		},
	} {
		_, err := f.Create(t.Context(), "/a", nil, opts...)
		require.ErrorIs(t, err, framework.ErrInvalidOption, name)
	}
	for name, op := range map[string]framework.Op{
		"create or set": framework.CreateOp("/a", nil, framework.OrSetData()),
		"create":        framework.CreateOp("/a", nil, framework.Idempotent()),
		"set":           framework.SetDataOp("/a", nil, framework.Idempotent()),
		"delete":        framework.DeleteOp("/a", framework.Idempotent()),
		"children":      framework.DeleteOp("/a", framework.DeletingChildrenIfNeeded()),
		"quietly":       framework.DeleteOp("/a", framework.Quietly()),
	} {
		_, err := f.Transact(t.Context(), op)
		require.ErrorIs(t, err, framework.ErrInvalidOption, name)
	}
	_, err := f.Exists(t.Context(), "/zookeeper/x", framework.CreatingParentsIfNeeded())
	require.ErrorIs(t, err, framework.ErrInvalidPath)
}

func TestExistsCreatingParents(t *testing.T) {
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		var watch *framework.Watch
		stat, err := f.Exists(ctx, "/x/y/z", framework.CreatingParentContainersIfNeeded(), framework.Watched(&watch))
		require.NoError(t, err)
		require.Nil(t, stat)
		mustCreate(t, f, "/x/y/z")
		select {
		case <-watch.Fired():
		case <-time.After(patience):
			require.FailNow(t, "the watch was not set")
		}
		stat, err = f.Exists(ctx, "/x/y/z", framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		require.NotNil(t, stat)
		stat, err = f.Exists(ctx, "/top", framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		require.Nil(t, stat)

		mustCreate(t, f, "/e", framework.WithMode(framework.Ephemeral))
		before := server.Counts(t)
		watch = nil
		_, err = f.Exists(ctx, "/e/x/y", framework.CreatingParentsIfNeeded(), framework.Watched(&watch))
		require.ErrorIs(t, err, framework.ErrNoChildrenForEphemerals)
		require.Nil(t, watch)
		server.AwaitCounts(t, before, patience)
	})
}
