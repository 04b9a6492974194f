// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

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
							must.Get(observer.Create(t.Context(), "/a", []byte("old")))(t)
							f := n.client(t, framework.WithRetryPolicy(policy))
							requests := faultAt(n, f.Session().ID(), how, k)
							err := w.write(t.Context(), f)
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
								require.Equal(t, w.want, string(must.Get(observer.Get(t.Context(), "/a"))(t)))
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

func TestExistsWhoseParentsCannotBeMadeLeavesNoWatch(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	mustCreate(t, f, "/e", framework.WithMode(framework.Ephemeral))
	var watch *framework.Watch
	_, err := f.Exists(t.Context(), "/e/x/y", framework.CreatingParentsIfNeeded(), framework.Watched(&watch))
	require.ErrorIs(t, err, framework.ErrNoChildrenForEphemerals)
	require.Nil(t, watch)
	zktest.Embedded(server).AwaitCounts(t, zktest.Counts{Ephemerals: 1, Sessions: 1}, patience)
}
