// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
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

const memTick = 500 * time.Millisecond

func holdQuorum(t *testing.T, f *framework.Framework) (held context.Context, release func()) {
	t.Helper()
	held, release, err := f.Session().Hold(t.Context(), framework.QuorumErrorPolicy)
	require.NoError(t, err)
	require.NoError(t, context.Cause(held))
	t.Cleanup(release)
	return held, release
}

// heartbeats are the names of the znodes that heartbeats are written to.
func heartbeats(t *testing.T, f *framework.Framework) []string {
	t.Helper()
	children := must.Get(f.Children(t.Context(), "/"))(t)
	var names []string
	for _, name := range children {
		if strings.HasPrefix(name, framework.HeartbeatPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// TestHeartbeatsAreWrittenWhileSomethingIsHeld: to one znode, in a quarter of the
// session timeout each, and not before or after.
func TestHeartbeatsAreWrittenWhileSomethingIsHeld(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithServerTiming(memTick, 2))
		time.Sleep(time.Minute) // a session that has been idle
		require.Error(t, context.Cause(f.Session().Context(framework.QuorumErrorPolicy)))
		require.Empty(t, heartbeats(t, f))

		first, releaseFirst := holdQuorum(t, f)
		second, releaseSecond := holdQuorum(t, f)
		require.Same(t, first, second)
		require.Equal(t, first, f.Session().Context(framework.QuorumErrorPolicy))
		require.Len(t, heartbeats(t, f), 1)
		var before, after framework.Stat
		path := "/" + heartbeats(t, f)[0]
		must.Get(f.Get(t.Context(), path, framework.StoringStatIn(&before)))(t)
		require.Equal(t, f.Session().ID(), before.EphemeralOwner)
		time.Sleep(10 * memSession)
		must.Get(f.Get(t.Context(), path, framework.StoringStatIn(&after)))(t)
		require.InDelta(t, 40, after.Version-before.Version, 1)

		releaseFirst()
		releaseFirst() // which takes only one hold away
		time.Sleep(10 * memSession)
		require.NoError(t, context.Cause(second))
		releaseSecond()
		require.Error(t, second.Err())
		synctest.Wait()
		require.Empty(t, heartbeats(t, f))
		require.False(t, time.Now().Before(f.Session().HoldDeadline(framework.QuorumErrorPolicy).Add(-memSession)))
	})
}

// TestQuorumOnlyWritesKeepAQuorumHold: a server that acknowledges pings, reads and sync but
// commits nothing is what a leader without its followers is. The hold ends in time,
// and it ends with a cause, while the session goes on.
func TestQuorumOnlyWritesKeepAQuorumHold(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithServerTiming(memTick, 2))
		held, _ := holdQuorum(t, f)
		time.Sleep(3 * memSession)
		n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSetData {
				return zkserver.FailWith(-7) // operation timeout
			}
			return zkserver.Pass
		})
		select {
		case <-held.Done():
		case <-time.After(memSession):
			t.Fatal("the hold goes on although nothing is committed")
		}
		var lost *framework.LostError
		require.ErrorAs(t, context.Cause(held), &lost)
		require.Equal(t, framework.ReasonLeaseEnd, lost.Reason)
		require.NoError(t, f.Session().Err(), "which pings have confirmed all the time")
	})
}

// TestQuorumHoldOutlivesAReconnect and the loss of its znode.
func TestQuorumHoldOutlivesAReconnect(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithServerTiming(memTick, 2))
		held, _ := holdQuorum(t, f)
		for range 5 {
			time.Sleep(memSession / 2)
			n.cut()
			time.Sleep(memSession / 2)
			require.NoError(t, f.Delete(t.Context(), "/"+heartbeats(t, f)[0]))
		}
		time.Sleep(memSession)
		require.NoError(t, context.Cause(held))
		require.Len(t, heartbeats(t, f), 1)
	})
}

// TestQuorumHoldEndsInSilence: no later than the session can expire.
func TestQuorumHoldEndsInSilence(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithServerTiming(memTick, 2))
		held, _ := holdQuorum(t, f)
		time.Sleep(memSession)
		synctest.Wait() // a heartbeat may be on its way
		deadline := f.Session().HoldDeadline(framework.QuorumErrorPolicy)
		require.True(t, deadline.Before(f.Session().Deadline()))
		n.setHole(true)
		<-held.Done()
		require.WithinDuration(t, deadline, time.Now(), time.Millisecond)
		n.setHole(false)
		again, _ := holdQuorum(t, f)
		require.NoError(t, context.Cause(again))
	})
}

// TestHoldThatCannotBe: for want of a permission, of time, of a client.
func TestHoldThatCannotBe(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		session := f.Session()
		remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreate2 || r.Op == zkserver.OpDelete {
				return zkserver.FailWith(-102) // no auth
			}
			return zkserver.Pass
		})
		_, _, err := session.Hold(t.Context(), framework.QuorumErrorPolicy)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		leave := session.JoinHeartbeat()
		synctest.Wait()
		require.Zero(t, f.Health().PendingCleanups, "there is nothing to delete")
		remove()
		_, release, err := session.Hold(t.Context(), framework.QuorumErrorPolicy)
		require.NoError(t, err, "it tries itself, although one that has failed has not left yet")
		leave()
		release()
		synctest.Wait()

		n.server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = session.Hold(ctx, framework.QuorumErrorPolicy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		n.server.Resume()
		synctest.Wait()
		require.Empty(t, heartbeats(t, f))

		held, _ := holdQuorum(t, f)
		require.NoError(t, f.Close())
		require.ErrorIs(t, context.Cause(held), framework.ErrClosed)
		held, _, err = session.Hold(t.Context(), framework.QuorumErrorPolicy)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(held), framework.ErrClosed)
	})
}

// TestQuorumHeartbeatThatIsDeletedIsWrittenAgain, also while the hold waits to be confirmed.
func TestQuorumHeartbeatThatIsDeletedIsWrittenAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithServerTiming(memSession*3/4, 2)) // so the first confirms nothing
		time.Sleep(10 * memSession)
		defer n.server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.FailWith(-101)))()
		holdQuorum(t, f)
		require.Len(t, heartbeats(t, f), 1)
	})
}

// TestHold: on both kinds of server, and with the other policies, which write
// nothing.
func TestHold(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		f := zktest.Client(t, server.ConnectString())
		must.Get(f.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
		for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
			held, release, err := f.Session().Hold(t.Context(), policy)
			require.NoError(t, err)
			require.Equal(t, f.Session().Context(policy), held)
			require.Equal(t, f.Session().Deadline(), f.Session().HoldDeadline(policy))
			release()
			require.Empty(t, heartbeats(t, f))
		}
		require.Error(t, f.Session().Context(framework.QuorumErrorPolicy).Err(), "nothing is held")
		held, release := holdQuorum(t, f)
		require.Equal(t, held, f.Session().Context(framework.QuorumErrorPolicy))
		require.Len(t, heartbeats(t, f), 1)
		deadline := f.Session().HoldDeadline(framework.QuorumErrorPolicy)
		require.True(t, time.Now().Before(deadline))
		require.False(t, f.Session().Deadline().Before(deadline))
		release()
		require.Error(t, held.Err())
		before.Sessions++
		server.AwaitCounts(t, before, patience)
	})
}

// TestQuorumWarningOfTooShortATimeout is given below the bound of the hold's policy.
func TestQuorumWarningOfTooShortATimeout(t *testing.T) {
	for name, test := range map[string]struct {
		warns bool
		opts  []framework.Option
	}{
		"the usual timing asks for 18 s": {true, nil},
		"slower servers ask for more": {true, []framework.Option{
			framework.WithServerTiming(2600*time.Millisecond, 2),
		}},
		"faster servers for less": {false, []framework.Option{framework.WithServerTiming(memTick, 2)}},
		"just at the bound":       {false, []framework.Option{framework.WithServerTiming(2*time.Second, 2)}},
		"just below it":           {true, []framework.Option{framework.WithServerTiming(2001*time.Millisecond, 2)}},
		"another policy":          {false, []framework.Option{framework.WithErrorPolicy(framework.SessionErrorPolicy)}},
		"four ticks are enough for a quorum": {false, []framework.Option{
			framework.WithErrorPolicy(framework.QuorumErrorPolicy),
		}},
		"less is not": {true, []framework.Option{
			framework.WithErrorPolicy(framework.QuorumErrorPolicy), framework.WithServerTiming(3*time.Second, 1),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				var said bytes.Buffer
				log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
				framework.ForgetTheTiming()
				n.server.Intercept(withoutConfig)
				f := n.client(t, append(test.opts, framework.WithLogger(log))...)
				_, release, err := f.Session().Hold(t.Context(), f.ErrorPolicy())
				require.NoError(t, err)
				synctest.Wait()
				release()
				require.NoError(t, f.Close())
				want := 0
				if test.warns {
					want = 1
				}
				require.Equal(t, want, strings.Count(said.String(), "timeout is short for the error policy"), said.String())
			})
		})
	}
}

// misbehaving is an ACL provider that ends what calls it.
type misbehaving func()

func (m misbehaving) DefaultACL() []framework.ACL       { m(); return nil }
func (m misbehaving) ACLForPath(string) []framework.ACL { m(); return nil }

// TestQuorumUserCodeThatMisbehaves for a request of a session costs that request, and not the process.
func TestQuorumUserCodeThatMisbehaves(t *testing.T) {
	for want, misbehave := range map[string]func(){"panicked": func() { panic("the user's own fault") }, "runtime.Goexit": runtime.Goexit} {
		t.Run(want, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				framework.ForgetTheTiming()
				asked := make(chan struct{}, 1)
				f := n.client(t, framework.WithRetryPolicy(retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
					asked <- struct{}{}
					misbehave()
					return 0, false
				})))
				n.server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.LoseRequest)) // for the configuration
				_, release, err := f.Session().Hold(t.Context(), framework.StandardErrorPolicy)
				require.NoError(t, err)
				<-asked
				release()
			})
		})
		server := zktest.NewServer(t)
		f := zktest.Client(t, server.Addr()+"/missing", framework.WithACLProvider(misbehaving(misbehave)))
		_, _, err := f.Session().Hold(zktest.Context(t), framework.QuorumErrorPolicy)
		require.ErrorContains(t, err, want)
	}
}

// TestQuorumUserCodeThatClosesTheClient from a request in the background does not wait for itself.
func TestQuorumUserCodeThatClosesTheClient(t *testing.T) {
	framework.ForgetTheTiming()
	server := zktest.NewServer(t)
	for of, begin := range map[string]func(ctx context.Context, closes func()) (*framework.Framework, framework.ErrorPolicy, error){
		"an ACL provider": func(ctx context.Context, closes func()) (*framework.Framework, framework.ErrorPolicy, error) {
			f, err := framework.Connect(ctx, server.Addr()+"/missing", framework.WithACLProvider(misbehaving(closes)))
			return f, framework.QuorumErrorPolicy, err
		},
		"a retry policy": func(ctx context.Context, closes func()) (*framework.Framework, framework.ErrorPolicy, error) {
			f, err := framework.Connect(ctx, server.Addr(), framework.WithSessionTimeout(5*time.Second),
				framework.WithRetryPolicy(retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
					closes()
					return 0, true
				})))
			server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.LoseRequest)) // for the configuration
			return f, framework.StandardErrorPolicy, err
		},
	} {
		t.Run(of, func(t *testing.T) {
			var client atomic.Pointer[framework.Framework]
			closed := make(chan error, 9)
			f, policy, err := begin(zktest.Context(t), func() { closed <- client.Load().Close() })
			require.NoError(t, err)
			client.Store(f)
			_, release, err := f.Session().Hold(zktest.Context(t), policy)
			require.NoError(t, err)
			defer release()
			_ = zktest.Await(t, closed, "the end of Close") // its connection may be lost
		})
	}
}

// withoutConfig makes a server look as before ZooKeeper 3.5, which does not say whether it is alone.
func withoutConfig(r zkserver.Request) zkserver.Fault {
	const noNode = -101
	if r.Op == zkserver.OpGetData && r.Path == "/zookeeper/config" {
		return zkserver.FailWith(noNode)
	}
	return zkserver.Pass
}
