// SPDX-License-Identifier: Apache-2.0

package x_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// errWorked ends a recipe that has worked.
var errWorked = errors.New("it worked")

// Recipes may begin before there was ever a server. They work when there is one.
func TestNewcomerRecipesThatBeginBeforeThereWasEverAServer(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, c *framework.Framework, worked func()) error{
		"partition": func(ctx context.Context, c *framework.Framework, worked func()) error {
			m, err := partition.New(c, "/partitions", partition.Fixed("a"))
			if err != nil {
				return err
			}
			return m.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
				worked()
				<-ctx.Done()
				return nil
			})
		},
		"schedule": func(ctx context.Context, c *framework.Framework, worked func()) error {
			s, err := schedule.New(c, "/schedule", schedule.Job{
				Name: "a", Schedule: schedule.Every(100 * time.Millisecond),
				Run: func(context.Context, schedule.Tick) error { worked(); return nil },
			})
			if err != nil {
				return err
			}
			return s.Run(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				var reachable atomic.Bool
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !reachable.Load() {
						return nil, syscall.ECONNREFUSED
					}
					return server.Dial(ctx, network, addr)
				}
				client := must.Get(framework.New("memory:2181", framework.WithDialer(dial), framework.WithLogger(slog.New(slog.DiscardHandler))))(t)
				require.NoError(t, client.Start())
				t.Cleanup(func() { require.NoError(t, client.Close()) })
				ctx, stop := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- run(ctx, client, func() { stop(errWorked) }) }()
				time.Sleep(5 * time.Minute)

				reachable.Store(true)

				require.ErrorIs(t, <-ended, errWorked)
			})
		})
	}
}
