// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// runReporter is the application that the package's documentation tests: it reports
// for as long as it holds the lock.
func runReporter(ctx context.Context, client *framework.Framework, report func(context.Context) error) error {
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	if err != nil {
		return err
	}
	return mutex.Do(ctx, report)
}

func TestAnotherReporterTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client, rival := zktest.Client(t, server), zktest.Client(t, server)

		reporting, stopped := make(chan struct{}), make(chan error, 1)
		go func() {
			stopped <- runReporter(t.Context(), client, func(ctx context.Context) error {
				close(reporting)
				<-ctx.Done() // the work stops with its context
				return context.Cause(ctx)
			})
		}()
		zktest.Await(t, reporting, "the report")

		took := make(chan error, 1)
		go func() {
			took <- runReporter(t.Context(), rival, func(context.Context) error { return nil })
		}()
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { // it waits for the lock
			return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID == rival.Session().ID()
		})

		began := time.Now()
		heal := server.Blackhole(client.Session().ID(), zkserver.Both)
		var lost *locks.LostError
		require.ErrorAs(t, zktest.Await(t, stopped, "the end of the report"), &lost)
		require.Empty(t, took, "the rival comes after that")
		require.NoError(t, zktest.Await(t, took, "the rival's turn"))
		require.Less(t, time.Since(began), 32*time.Second) // of the fake clock
		heal()
	})
}

// TestTakesOverFromAKilledProcess: without a guard the next reporter waits for the session timeout, and with one it does not.
func TestTakesOverFromAKilledProcess(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client, rival := zktest.Client(t, server), zktest.Client(t, server)
			mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report"))(t)
			must.Get(mutex.Acquire(t.Context()))(t)
			began := time.Now()
			heal := server.Blackhole(client.Session().ID(), zkserver.Both)
			defer heal()
			if guarded {
				require.True(t, server.KillSession(client.Session().ID()))
			}
			require.NoError(t, runReporter(t.Context(), rival, func(context.Context) error { return nil }))
			if guarded {
				require.Less(t, time.Since(began), time.Second) // of the fake clock
			} else {
				require.GreaterOrEqual(t, time.Since(began), client.Session().Timeout())
			}
		})
	}
}

func TestReporterWhoseCreateGetsLost(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	client := zktest.Client(t, server)
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply))

	turns := 0
	require.NoError(t, runReporter(t.Context(), client, func(context.Context) error { turns++; return nil }))
	require.Equal(t, 1, turns)
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault == zkserver.LoseReply })
}
