// SPDX-License-Identifier: Apache-2.0

package x_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// mixed is a program with WithCompression, and another without it, on fake time.
type mixed struct {
	compressed   *framework.Framework
	uncompressed *framework.Framework
}

func onMixed(t *testing.T, test func(t *testing.T, m mixed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		test(t, mixed{zktest.Client(t, server, framework.WithCompression()), zktest.Client(t, server)})
	})
}

// TestCompressionOfAMemberHeedsOrders: orders are stored as they are, and a set may be. The member hears of both as they change.
func TestCompressionOfAMemberHeedsOrders(t *testing.T) {
	onMixed(t, func(t *testing.T, m mixed) {
		must.Get(m.uncompressed.Create(t.Context(), "/set", []byte("a\nb")))(t)
		group := must.Get(partition.New(m.compressed, "/group", partition.Stored("/set")))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- group.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
				<-ctx.Done()
				return nil
			})
		}()
		holds := func(expected ...string) {
			time.Sleep(time.Minute)
			state := must.Get(group.Assignment(ctx))(t)
			var held []string
			for _, p := range state.Partitions {
				if p.Holder != "" {
					held = append(held, p.Name)
				}
			}
			require.Equal(t, expected, held)
		}
		holds("a", "b")
		for _, operator := range []*framework.Framework{m.compressed, m.uncompressed} {
			require.NoError(t, partition.Exclude(t.Context(), operator, "/group", "a", true))
			holds("b")
			require.NoError(t, partition.Exclude(t.Context(), operator, "/group", "a", false))
			holds("a", "b")
		}
		require.NoError(t, m.uncompressed.Set(t.Context(), "/set", []byte("a\nb\nc")))
		holds("a", "b", "c")
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
