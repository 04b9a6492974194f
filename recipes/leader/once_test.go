// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func newOnce(tb testing.TB, client *framework.Framework, opts ...leader.OnceOption) *leader.Once {
	tb.Helper()
	once := must.Get(leader.NewOnce(client, "/jobs/report", opts...))(tb)
	return once
}

func TestOnceFailedRunIsRepeatedUnlessNever(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []leader.OnceOption
		again bool
	}{
		"by default":  {nil, true},
		"never again": {[]leader.OnceOption{leader.NeverAgain()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			once := newOnce(t, zktest.Client(t, zktest.NewServer(t)), c.opts...)
			failure := errors.New("no paper")

			ran, err := once.Do(zktest.Context(t), "a", func(context.Context) error { return failure })
			require.True(t, ran)
			require.ErrorIs(t, err, failure)
			require.Equal(t, !c.again, must.Get(once.Done(zktest.Context(t), "a"))(t))

			ran = must.Get(once.Do(zktest.Context(t), "a", func(context.Context) error { return nil }))(t)
			require.Equal(t, c.again, ran)
		})
	}
}

func TestOnceRunThatHasLostItsLockIsNotMarked(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	once := newOnce(t, client)

	_, err := once.Do(zktest.Context(t), "a", func(ctx context.Context) error {
		zktest.KillSession(t, client)
		<-ctx.Done()
		return nil // it does not care, and the marker must
	})

	require.ErrorAs(t, err, new(*locks.LostError))
	require.False(t, must.Get(once.Done(zktest.Context(t), "a"))(t))
}

func TestOnceFaultAtTheMarkerIsOneRun(t *testing.T) {
	for _, fault := range []zkserver.Fault{zkserver.LoseReply, zkserver.LoseRequest} {
		for name, opts := range map[string][]leader.OnceOption{"by default": nil, "never again": {leader.NeverAgain()}} {
			t.Run(fault.String()+" "+name, func(t *testing.T) {
				server := zktest.NewServer(t)
				client := zktest.Client(t, server, framework.WithErrorPolicy(framework.SessionErrorPolicy))
				server.Intercept(zkserver.Nth(1, zkserver.OpMulti, fault))
				once := newOnce(t, client, opts...)
				runs := 0

				ran, err := once.Do(zktest.Context(t), "a", func(context.Context) error { runs++; return nil })

				require.NoError(t, err)
				require.True(t, ran)
				require.Equal(t, 1, runs)
				ran = must.Get(once.Do(zktest.Context(t), "a", func(context.Context) error { return errors.New("a second run") }))(t)
				require.False(t, ran)
			})
		}
	}
}

// Once the marker is there the key is done, and what becomes of the lock is no error.
func TestOnceMarkerSettlesTheRun(t *testing.T) {
	for _, fault := range []struct {
		of   string
		op   zkserver.OpCode
		fate zkserver.Fault
	}{
		{"the reply to the marker is lost", zkserver.OpMulti, zkserver.LoseReply},
		{"the reply to the release is lost", zkserver.OpDelete, zkserver.LoseReply},
		{"the release is refused", zkserver.OpDelete, zkserver.FailWith(-102)},
	} {
		t.Run(fault.of, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server, framework.WithErrorPolicy(framework.StandardErrorPolicy))
			server.Intercept(zkserver.Nth(1, fault.op, fault.fate))
			once := newOnce(t, client)

			ran, err := once.Do(zktest.Context(t), "a", func(context.Context) error { return nil })

			require.NoError(t, err)
			require.True(t, ran)
			require.True(t, must.Get(once.Done(zktest.Context(t), "a"))(t))
		})
	}
}

// A marker that the lock's holder finds is of another client. It settles the key, too.
func TestOnceMarkerOfAnotherClientSettlesTheRun(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	once := newOnce(t, client)

	ran, err := once.Do(zktest.Context(t), "a", func(ctx context.Context) error {
		_, err := client.Create(ctx, "/jobs/report/done/a", []byte("by hand"), framework.CreatingParentsIfNeeded())
		server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.FailWith(-102)))
		return err
	})

	require.NoError(t, err)
	require.True(t, ran)
}

// Under NeverAgain a marker that is there keeps the function from running, even if it has come after the look under the lock.
func TestOnceMarkerOfAnotherClientIsNoLeaveToRun(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	created := make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpMulti {
			return zkserver.Pass
		}
		go func() {
			defer close(created)
			_, err := other.Create(context.Background(), "/jobs/report/done/a", []byte("by hand"))
			assert.NoError(t, err)
		}()
		return zkserver.HoldUntil(created)
	})

	ran, err := newOnce(t, client, leader.NeverAgain()).Do(zktest.Context(t), "a", func(context.Context) error { return errors.New("a run") })

	require.NoError(t, err)
	require.False(t, ran)
}

// A run that has lost its lock, and finds the marker of another run, has not succeeded.
func TestOnceMarkerOfAnotherRunDoesNotSettleALostOne(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithErrorPolicy(framework.StandardErrorPolicy))
	once := newOnce(t, client)

	ran, err := once.Do(zktest.Context(t), "a", func(ctx context.Context) error {
		_, err := client.Create(ctx, "/jobs/report/done/a", []byte("17"), framework.CreatingParentsIfNeeded())
		server.Intercept(zkserver.Nth(1, zkserver.OpMulti, zkserver.LoseRequest))
		return err
	})

	require.True(t, ran)
	require.ErrorAs(t, err, new(*locks.LostError))
}

// A lock that is lost while its marker is in doubt does not settle the doubt.
func TestOnceDoubtAboutTheMarkerStays(t *testing.T) {
	for name, opts := range map[string][]leader.OnceOption{"by default": nil, "never again": {leader.NeverAgain()}} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server, framework.WithErrorPolicy(framework.StandardErrorPolicy))
			server.Intercept(zkserver.Nth(1, zkserver.OpMulti, zkserver.LoseRequest))

			ran, err := newOnce(t, client, opts...).Do(zktest.Context(t), "a", func(context.Context) error { return nil })

			require.Equal(t, opts == nil, ran)
			require.True(t, framework.OutcomeUnknown(err), "%v", err)
			require.ErrorAs(t, err, new(*locks.LostError))
		})
	}
}

func TestOnceMarkerOutlivesTheCaller(t *testing.T) {
	once := newOnce(t, zktest.Client(t, zktest.NewServer(t)))
	ctx, cancel := context.WithCancel(t.Context())

	ran, err := once.Do(ctx, "a", func(context.Context) error { cancel(); return nil })

	require.NoError(t, err)
	require.True(t, ran)
	require.True(t, must.Get(once.Done(zktest.Context(t), "a"))(t), "the job was done before its caller left")
}

// TestOnceWithinItsOwnRunIsRefused: the key is not done, and its function must not run beside itself.
func TestOnceWithinItsOwnRunIsRefused(t *testing.T) {
	once, runs := newOnce(t, zktest.Client(t, zktest.NewServer(t))), 0
	ran := must.Get(once.Do(zktest.Context(t), "a", func(ctx context.Context) error {
		runs++
		ran, err := once.Do(ctx, "a", func(context.Context) error {
			runs++
			return nil
		})
		require.False(t, ran)
		require.ErrorIs(t, err, locks.ErrReentered)
		ran, err = once.Do(ctx, "b", func(context.Context) error { return nil })
		require.True(t, ran)
		return err
	}))(t)
	require.True(t, ran)
	require.Equal(t, 1, runs)
}

func TestOnceBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for _, path := range []string{"", "jobs", "/jobs/"} {
		_, err := leader.NewOnce(client, path)
		require.ErrorContains(t, err, fmt.Sprintf("invalid path %q", path))
	}
	_, err := leader.NewOnce(client, "/jobs", nil)
	require.ErrorContains(t, err, "a nil option")
	_, err = leader.NewOnce(client, "/jobs", leader.WithRetention(time.Second))
	require.ErrorContains(t, err, "a minute or more")
	_, err = leader.NewOnce(nil, "/jobs")
	require.ErrorContains(t, err, "client nil")
	once := newOnce(t, client)
	nothing := func(context.Context) error { return nil }
	for _, key := range []string{"", "a/b", "..", "\x00"} {
		_, err := once.Do(t.Context(), key, nothing)
		require.ErrorContains(t, err, "key", "%q", key)
	}
	_, err = once.Do(t.Context(), "a", nil)
	require.ErrorContains(t, err, "function nil")
	//nolint:staticcheck // the nil context is what is refused
	_, err = once.Do(nil, "a", nothing)
	require.ErrorContains(t, err, "context nil")
	//nolint:staticcheck // the nil context is what is refused
	require.ErrorContains(t, once.Purge(nil), "context nil")
}

// The client may meet a server that lags behind when it asks whether the marker in doubt is its own.
func TestOnceMarkerInDoubtIsAskedForAfterASync(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithErrorPolicy(framework.SessionErrorPolicy))
	var thaw func()
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.Op == zkserver.OpMulti && thaw == nil:
			thaw = server.FreezeReads(client.Session().ID())
			return zkserver.LoseReply
		case r.Op == zkserver.OpSync && thaw != nil:
			thaw()
		}
		return zkserver.Pass
	})
	runs := 0

	ran, err := newOnce(t, client, leader.NeverAgain()).Do(zktest.Context(t), "a", func(context.Context) error { runs++; return nil })

	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, 1, runs)
}
