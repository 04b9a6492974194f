// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestDoubleBarrierMembersBeginAndEndTogether(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const members, rounds = 5, 4
		var entered, left [rounds]atomic.Int32
		observer := zktest.Client(t, server)
		var wg sync.WaitGroup
		for range members {
			b := newDouble(t, zktest.Client(t, server), members)
			wg.Go(func() {
				for round := range rounds {
					entered[round].Add(1)
					if err := b.Enter(zktest.Context(t)); err != nil {
						t.Errorf("enter: %v", err)
						return
					}
					if n := entered[round].Load(); n != members {
						t.Errorf("round %d: let in when %d had come", round, n)
					}
					left[round].Add(1)
					if err := b.Leave(zktest.Context(t)); err != nil {
						t.Errorf("leave: %v", err)
						return
					}
					if n := left[round].Load(); n != members {
						t.Errorf("round %d: let go when %d had left", round, n)
					}
				}
			})
		}
		wg.Wait()
		awaitChildren(t, observer, 0)
	})
}

// A member that has come late is a member like the others: the barrier stays open for it, and
// those who leave wait for it.
func TestDoubleBarrierLateMemberIsOfTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		first, late, third := newDouble(t, client, 1), newDouble(t, client, 1), newDouble(t, client, 1)
		for _, b := range []*barriers.DistributedDoubleBarrier{first, late} {
			require.NoError(t, b.Enter(t.Context()))
		}
		ready := must.Get(client.Exists(t.Context(), path+"/ready"))(t)
		leaving := []<-chan error{later(func() error { return first.Leave(t.Context()) })}
		synctest.Wait()
		require.NoError(t, third.Enter(t.Context()))
		require.Equal(t, ready, must.Get(client.Exists(t.Context(), path+"/ready"))(t), "the barrier stays open for the second member")
		leaving = append(leaving, later(func() error { return late.Leave(t.Context()) }))
		time.Sleep(time.Minute)
		for _, result := range leaving {
			require.Empty(t, result, "the third member is there")
		}
		require.NoError(t, third.Leave(t.Context()))
		for _, result := range leaving {
			require.NoError(t, <-result)
		}
		awaitChildren(t, client, 0)
	})
}

// The member by which a late one would join leaves, and the next round begins, while its request
// is under way. So it is a member of the next round.
func TestDoubleBarrierLateMemberJoinsNoRoundThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, slow := zktest.Client(t, server), zktest.Client(t, server)
		first, late, next := newDouble(t, client, 1), newDouble(t, slow, 1), newDouble(t, client, 1)
		require.NoError(t, first.Enter(t.Context()))
		release := hold(server, slow, zkserver.OpMulti)
		entering := later(func() error { return late.Enter(t.Context()) })
		synctest.Wait()
		leavingFirst := later(func() error { return first.Leave(t.Context()) })
		synctest.Wait()
		require.NoError(t, next.Enter(t.Context()))
		require.NoError(t, <-leavingFirst)

		close(release)

		require.NoError(t, <-entering)
		leaving := later(func() error { return late.Leave(t.Context()) })
		time.Sleep(time.Minute)
		require.Empty(t, leaving, "a member of its round is there")
		require.NoError(t, next.Leave(t.Context()))
		require.NoError(t, <-leaving)
	})
}

// A late member does not hear that it has joined, and the one by which it has joined leaves.
func TestDoubleBarrierLateMemberJoinsWithoutKnowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, deaf := zktest.Client(t, server), zktest.Client(t, server)
		first, late := newDouble(t, client, 1), newDouble(t, deaf, 1)
		require.NoError(t, first.Enter(t.Context()))
		server.Intercept(zkserver.Nth(1, zkserver.OpMulti, zkserver.ApplyNeverAnswer))
		entering := later(func() error { return late.Enter(t.Context()) })
		synctest.Wait()
		leavingFirst := later(func() error { return first.Leave(t.Context()) })
		require.NoError(t, <-entering)
		time.Sleep(time.Minute)
		require.Empty(t, leavingFirst, "the late member is there")
		require.NoError(t, late.Leave(t.Context()))
		require.NoError(t, <-leavingFirst)
	})
}

// While a member looks for others of the round, one joins and the one that was there leaves.
func TestDoubleBarrierMemberThatJoinsDuringALookIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, slow := zktest.Client(t, server), zktest.Client(t, server)
		first, late, looks := newDouble(t, client, 1), newDouble(t, client, 1), newDouble(t, slow, 1)
		require.NoError(t, first.Enter(t.Context()))
		ready := must.Get(client.Exists(t.Context(), path+"/ready"))(t)
		release := hold(server, slow, zkserver.OpGetData)
		entering := later(func() error { return looks.Enter(t.Context()) })
		synctest.Wait()
		require.NoError(t, late.Enter(t.Context()))
		leavingFirst := later(func() error { return first.Leave(t.Context()) })
		synctest.Wait()

		close(release)

		require.NoError(t, <-entering)
		now := must.Get(client.Exists(t.Context(), path+"/ready"))(t)
		require.Equal(t, ready, now, "the barrier stays open for the member that has joined")
		leaving := later(func() error { return looks.Leave(t.Context()) })
		require.NoError(t, late.Leave(t.Context()))
		require.NoError(t, <-leaving)
		require.NoError(t, <-leavingFirst)
	})
}

// CURATOR-318: an enter that times out leaves its member.
func TestDoubleBarrierFailedEnterLeavesNothing(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		b := newDouble(t, client, 2)
		ctx, cancel := context.WithCancel(t.Context())
		result := later(func() error { return b.Enter(ctx) })
		awaitChildren(t, client, 1)

		cancel()

		require.ErrorIs(t, zktest.Await(t, result, "the end of the wait"), context.Canceled)
		awaitChildren(t, client, 0)
		require.ErrorIs(t, b.Leave(zktest.Context(t)), barriers.ErrNotEntered)
	})
}

func TestDoubleBarrierOpeningOfARoundThatDiedIsNotForTheNext(t *testing.T) {
	t.Parallel()
	for members := 1; members <= 3; members += 2 {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				crashed, client := zktest.Client(t, server), zktest.Client(t, server)
				require.NoError(t, newDouble(t, crashed, 1).Enter(zktest.Context(t)))
				zktest.KillSession(t, crashed)
				require.Equal(t, []string{"ready"}, awaitChildren(t, client, 1))

				results := make([]<-chan error, members)
				for i := range results {
					b := newDouble(t, client, members+1)
					results[i] = later(func() error { return b.Enter(zktest.Context(t)) })
				}
				awaitMembers(t, client, members)
				for _, result := range results {
					require.Empty(t, result, "they wait for one more")
				}
				require.NoError(t, newDouble(t, client, members+1).Enter(zktest.Context(t)))
				for _, result := range results {
					require.NoError(t, zktest.Await(t, result, "a member"))
				}
			})
		})
	}
}

// A member that has been told of the opening has passed, even if those that are
// faster have left and closed the barrier before it looks again.
func TestDoubleBarrierFastLeaversStrandNoMember(t *testing.T) {
	server := zktest.NewServer(t)
	slow, fast := zktest.Client(t, server), zktest.Client(t, server)
	first, second := newDouble(t, slow, 2), newDouble(t, fast, 2)
	entering := later(func() error { return first.Enter(zktest.Context(t)) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpExists && e.Request.Path == path
	})
	thaw := server.FreezeReads(slow.Session().ID())

	require.NoError(t, second.Enter(zktest.Context(t)))
	leaving := later(func() error { return second.Leave(zktest.Context(t)) })
	require.NoError(t, fast.Delete(zktest.Context(t), path+"/ready"), "as Curator's members do that do not wait")
	thaw()

	require.NoError(t, zktest.Await(t, entering, "the slow member"))
	require.NoError(t, first.Leave(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, leaving, "the fast member"))
}

func TestDoubleBarrierThoseWhoLeaveNoticeADeadMember(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithSessionTimeout(shortSession))
	dies := zktest.Client(t, server)
	b, other := newDouble(t, client, 2), newDouble(t, dies, 2)
	result := later(func() error { return b.Enter(zktest.Context(t)) })
	require.NoError(t, other.Enter(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, result, "the other member"))
	result = later(func() error { return b.Leave(zktest.Context(t)) })
	awaitChildren(t, client, 2)

	zktest.KillSession(t, dies)

	require.NoError(t, zktest.Await(t, result, "the end"))
	awaitChildren(t, client, 0)
}

// A panic of user code, such as a retry policy, costs the call. The member can be used again, and
// is not counted in the meantime.
func TestDoubleBarrierMemberThatHasPanicked(t *testing.T) {
	server := zktest.NewServer(t)
	var broken atomic.Bool
	client := zktest.Client(t, server, framework.WithRetryPolicy(retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
		if broken.CompareAndSwap(true, false) {
			panic("the user's own fault")
		}
		return time.Millisecond, true
	})))
	fail := func(op zkserver.OpCode) {
		broken.Store(true)
		server.Intercept(zkserver.Nth(1, op, zkserver.FailWith(-127))) // throttled, which a policy may repeat
	}
	b := newDouble(t, client, 2)
	fail(zkserver.OpExists) // the first request of a member that is there
	require.Panics(t, func() { _ = b.Enter(zktest.Context(t)) })
	awaitChildren(t, client, 0)

	single := newDouble(t, client, 1)
	require.NoError(t, single.Enter(zktest.Context(t)))
	fail(zkserver.OpGetData) // while it waits for the others
	require.Panics(t, func() { _ = single.Leave(zktest.Context(t)) })
	require.NoError(t, single.Leave(zktest.Context(t)))
	require.ErrorIs(t, single.Leave(zktest.Context(t)), barriers.ErrNotEntered)
}

func TestDoubleBarrierCallsOfOneMemberDoNotMix(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	b := newDouble(t, client, 2)
	ctx, cancel := context.WithCancel(t.Context())
	result := later(func() error { return b.Enter(ctx) })
	awaitChildren(t, client, 1)
	require.ErrorContains(t, b.Enter(t.Context()), "another call")
	cancel()
	require.Error(t, zktest.Await(t, result, "the end"))
	single := newDouble(t, client, 1)
	require.NoError(t, single.Enter(zktest.Context(t)))
	require.ErrorIs(t, single.Enter(zktest.Context(t)), barriers.ErrEntered)
	require.NoError(t, single.Leave(zktest.Context(t)))
}

func TestDoubleBarrierMemberCostsTheSameInACrowd(t *testing.T) {
	requests := func(members int) float64 {
		server := zktest.NewServer(t)
		client := zktest.Client(t, server)
		var wg sync.WaitGroup
		for range members {
			b := newDouble(t, client, members)
			wg.Go(func() {
				if err := b.Enter(zktest.Context(t)); err != nil {
					t.Errorf("enter: %v", err)
				}
				if err := b.Leave(zktest.Context(t)); err != nil {
					t.Errorf("leave: %v", err)
				}
			})
		}
		wg.Wait()
		n := 0
		for _, e := range server.Log() {
			if e.Kind != zkserver.Served || e.Request.Op == zkserver.OpPing {
				continue
			}
			n++
			if e.Request.Op == zkserver.OpGetChildren2 || e.Request.Op == zkserver.OpGetChildren {
				t.Errorf("a list of %d members", members)
			}
		}
		return float64(n) / float64(members)
	}

	few, many := requests(10), requests(200)

	require.LessOrEqual(t, many, few*1.5, "requests of each member")
}

// A wake-up that is not the opening lets no member pass: the loss of the
// connection ends all watches.
//
// curator#1290: any wake-up opens a double barrier.
func TestDoubleBarrierWakeUpAloneOpensNothing(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		proxy := zktest.NewProxy(t, server)
		client, other := zktest.Client(t, server.ConnectStringVia(proxy.Addr())), zktest.Client(t, server)
		b := newDouble(t, client, 2)
		before := server.Counts(t).Watches
		result := later(func() error { return b.Enter(zktest.Context(t)) })
		watched := func() bool { return server.Counts(t).Watches == before+1 }
		// It waits when it has been told how many members there are.
		looked := func(e zkproxy.Event) bool {
			f := e.Frame
			return f.Kind == zkproxy.Reply && f.Op == zkproxy.OpExists && f.Path == client.FullPath(path)
		}
		first := zktest.AwaitEvent(t, proxy, looked)
		require.Eventually(t, watched, limit, 10*time.Millisecond)

		proxy.Cut()
		zktest.AwaitEvent(t, proxy, func(e zkproxy.Event) bool { return e.Frame.Conn > first.Frame.Conn && looked(e) })
		require.Eventually(t, watched, limit, 10*time.Millisecond, "it waits again")

		require.Empty(t, result, "the other member has not come")
		require.NoError(t, newDouble(t, other, 2).Enter(zktest.Context(t)))
		require.NoError(t, zktest.Await(t, result, "the opening"))
	})
}

// A Leave whose context ends leaves no member for which others wait.
//
// CURATOR-536: a leave goes on after its timeout.
func TestDoubleBarrierLeaveEndsWithItsContext(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		b, other := newDouble(t, client, 2), newDouble(t, client, 2)
		entering := later(func() error { return other.Enter(zktest.Context(t)) })
		require.NoError(t, b.Enter(zktest.Context(t)))
		require.NoError(t, zktest.Await(t, entering, "the other member"))
		ctx, cancel := context.WithCancel(t.Context())
		leaving := later(func() error { return b.Leave(ctx) })
		awaitChildren(t, client, 2) // the other member, and what has opened the barrier

		cancel()

		require.ErrorIs(t, zktest.Await(t, leaving, "the end of the wait"), context.Canceled)
		require.NoError(t, other.Leave(zktest.Context(t)))
		awaitChildren(t, client, 0)
	})
}

// A member that leaves has seen the barrier open, and then one child: a member that is still
// inside, for the barrier was closed in between.
func TestDoubleBarrierLastMemberIsNotTakenForTheOpening(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	leaves, stays := newDouble(t, client, 2), newDouble(t, other, 2)
	entering := later(func() error { return leaves.Enter(zktest.Context(t)) })
	require.NoError(t, stays.Enter(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, entering, "the other member"))
	id := client.Session().ID()
	looks := func(r zkserver.Request) bool {
		return r.SessionID == id && r.Op == zkserver.OpGetData && r.Path == path
	}
	seen, release := make(chan struct{}, 1), make(chan struct{})
	stop := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if !looks(r) {
			return zkserver.Pass
		}
		select {
		case seen <- struct{}{}:
		default:
		}
		return zkserver.HoldUntil(release)
	})
	leaving := later(func() error { return leaves.Leave(zktest.Context(t)) })
	zktest.Await(t, seen, "the look at the folder")
	require.NoError(t, other.Delete(zktest.Context(t), path+"/ready"))
	stop()
	close(release)

	waits := make(chan struct{})
	go func() {
		defer close(waits)
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
			return e.Kind == zkserver.Served && e.Request.SessionID == id && e.Request.Op == zkserver.OpGetData &&
				e.Request.Path != path && e.Request.Path != path+"/ready"
		})
	}()
	select {
	case err := <-leaving:
		require.Fail(t, "it has left before the other", "%v", err)
	case <-waits:
	}
	require.NoError(t, stays.Leave(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, leaving, "the member that leaves"))
}

// A member finds a barrier open that no member is inside of, and its session ends while it
// closes that. The request must not be made in the next session: by then another round may
// have opened the barrier.
func TestDoubleBarrierMemberClosesNoLaterRound(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	require.NoError(t, other.Mkdirs(zktest.Context(t), path+"/ready"))
	seen := make(chan struct{}, 1)
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpMulti || r.SessionID == other.Session().ID() || len(seen) > 0 {
			return zkserver.Pass
		}
		seen <- struct{}{}
		return zkserver.NeverAnswer
	}))
	b := newDouble(t, client, 2)
	entering := later(func() error { return b.Enter(zktest.Context(t)) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Request.Op == zkserver.OpMulti && e.Fault.String() == zkserver.NeverAnswer.String()
	})
	require.NoError(t, other.Delete(zktest.Context(t), path+"/ready"))
	require.NoError(t, other.Mkdirs(zktest.Context(t), path+"/ready"))
	opened := must.Get(other.Exists(zktest.Context(t), path+"/ready"))(t)

	zktest.KillSession(t, client)

	require.ErrorAs(t, zktest.Await(t, entering, "the loss"), new(*framework.LostError))
	require.NoError(t, client.BlockUntilConnected(zktest.Context(t)))
	now := must.Get(other.Exists(zktest.Context(t), path+"/ready"))(t)
	require.NotNil(t, now, "another round has opened it")
	require.Equal(t, opened.Czxid, now.Czxid)
}

// The error is the loss wherever it is noticed: here by a close in the next session, which
// finds no node of the member.
func TestDoubleBarrierLossBetweenTwoLooksIsALoss(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	require.NoError(t, other.Mkdirs(zktest.Context(t), path+"/ready"))
	never := make(chan struct{})
	defer close(never)
	server.Intercept(zkserver.Nth(1, zkserver.OpGetChildren2, zkserver.HoldUntil(never)))
	b := newDouble(t, client, 2)
	entering := later(func() error { return b.Enter(zktest.Context(t)) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Request.Op == zkserver.OpGetChildren2 })

	require.True(t, server.KillSession(client.Session().ID()))

	require.ErrorAs(t, zktest.Await(t, entering, "the loss"), new(*framework.LostError))
}

// A member whose node is gone, as with its session, does not count, and so closes nothing.
func TestDoubleBarrierMemberWithoutItsNodeClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		require.NoError(t, other.Mkdirs(zktest.Context(t), path+"/ready"))
		release := hold(server, client, zkserver.OpMulti)
		b := newDouble(t, client, 2)
		entering := later(func() error { return b.Enter(zktest.Context(t)) })
		synctest.Wait()
		names := must.Get(other.Children(zktest.Context(t), path))(t)
		require.Len(t, names, 2)
		for _, name := range names {
			if name != "ready" {
				require.NoError(t, other.Delete(zktest.Context(t), path+"/"+name))
			}
		}

		close(release)

		require.ErrorIs(t, <-entering, framework.ErrNoNode)
		require.Equal(t, []string{"ready"}, awaitChildren(t, other, 1))
	})
}

// A member that gives up to enter an open barrier closes nothing. Those that leave notice that it is gone.
func TestDoubleBarrierLeaveBesideAMemberThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, late := zktest.Client(t, server), zktest.Client(t, server)
		b := newDouble(t, client, 1)
		require.NoError(t, b.Enter(zktest.Context(t)))
		id := late.Session().ID()
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == id && r.Op == zkserver.OpExists {
				return zkserver.NeverAnswer
			}
			return zkserver.Pass
		})
		ctx, giveUp := context.WithCancel(zktest.Context(t))
		entering := later(func() error { return newDouble(t, late, 1).Enter(ctx) })
		synctest.Wait()
		leaving := later(func() error { return b.Leave(zktest.Context(t)) })
		synctest.Wait()
		began := time.Now()

		giveUp()

		require.ErrorIs(t, <-entering, context.Canceled)
		require.NoError(t, <-leaving)
		require.Less(t, time.Since(began), client.Session().Timeout()/8)
	})
}

// Two members find the opening of a round that has died. The first closes it, opens the next
// round and leaves. The close of the second comes late, and must not hit that round.
func TestDoubleBarrierLateCloseOfADeadRoundSparesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		slow, fast := zktest.Client(t, server), zktest.Client(t, server)
		require.NoError(t, fast.Mkdirs(zktest.Context(t), path+"/ready"))
		release := hold(server, slow, zkserver.OpMulti)
		meeting := func(client *framework.Framework) <-chan error {
			b := newDouble(t, client, 2)
			return later(func() error { return errors.Join(b.Enter(zktest.Context(t)), b.Leave(zktest.Context(t))) })
		}
		second := meeting(slow)
		synctest.Wait()
		first := meeting(fast)
		synctest.Wait()

		close(release)

		require.NoError(t, <-first)
		require.NoError(t, <-second)
		awaitChildren(t, fast, 0)
	})
}

// Two members that leave close the barrier. The close of the second comes when the next round
// has begun, and one of its members has not looked yet.
func TestDoubleBarrierLateCloseOfALeaverSparesTheNextRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		slow, fast, other := zktest.Client(t, server), zktest.Client(t, server), zktest.Client(t, server)
		leaves, again, comes := newDouble(t, slow, 2), newDouble(t, fast, 2), newDouble(t, other, 2)
		entering := later(func() error { return leaves.Enter(zktest.Context(t)) })
		require.NoError(t, again.Enter(zktest.Context(t)))
		require.NoError(t, <-entering)
		release := hold(server, slow, zkserver.OpMulti)
		leavingFirst := later(func() error { return again.Leave(zktest.Context(t)) })
		synctest.Wait()
		leaving := later(func() error { return leaves.Leave(zktest.Context(t)) })
		require.NoError(t, <-leavingFirst, "it looks again after a session timeout")
		look := make(chan struct{})
		id := other.Session().ID()
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == id && r.Op == zkserver.OpExists {
				return zkserver.HoldUntil(look)
			}
			return zkserver.Pass
		})
		entering = later(func() error { return comes.Enter(zktest.Context(t)) })
		synctest.Wait()
		require.NoError(t, again.Enter(zktest.Context(t)))
		leavingFirst = later(func() error { return again.Leave(zktest.Context(t)) })
		synctest.Wait()

		close(release)
		require.NoError(t, <-leaving)
		close(look)

		require.NoError(t, <-entering)
		require.NoError(t, comes.Leave(zktest.Context(t)))
		require.NoError(t, <-leavingFirst)
		awaitChildren(t, fast, 0)
	})
}

// A close whose session has ended is not made in the next one: the folder may be another one of
// that name, with the same version.
func TestDoubleBarrierCloseIsMadeInItsSessionOnly(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	b := newDouble(t, client, 1)
	require.NoError(t, b.Enter(zktest.Context(t)))

	closed, err := b.CloseAfter(zktest.Context(t), func() {
		ended := client.Session()
		zktest.KillSession(t, client)
		zktest.Await(t, ended.Done(), "the end of the session")
		require.NoError(t, client.BlockUntilConnected(zktest.Context(t)))
	})

	require.NoError(t, err)
	require.False(t, closed)
	require.Equal(t, []string{"ready"}, awaitChildren(t, client, 1))
	require.NoError(t, b.Leave(zktest.Context(t)))
	awaitChildren(t, client, 0)
}

// A client that writes the folder of a barrier has not closed it.
func TestDoubleBarrierWriteOfTheFolderClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		b := newDouble(t, client, 1)
		require.NoError(t, b.Enter(zktest.Context(t)))
		release := hold(server, client, zkserver.OpMulti)
		leaving := later(func() error { return b.Leave(zktest.Context(t)) })
		synctest.Wait()
		require.NoError(t, other.Set(zktest.Context(t), path, []byte("a note")))

		close(release)

		require.NoError(t, <-leaving)
		awaitChildren(t, other, 0)
		require.Equal(t, "a note", string(must.Get(other.Get(zktest.Context(t), path))(t)))
	})
}

// hold holds back such requests of a client. Those that close the barrier are transactions.
func hold(server *zkserver.Server, client *framework.Framework, op zkserver.OpCode) (release chan struct{}) {
	release = make(chan struct{})
	id := client.Session().ID()
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID == id && r.Op == op {
			return zkserver.HoldUntil(release)
		}
		return zkserver.Pass
	})
	return release
}

// A member that may not enter leaves no deletion, which would be refused for as long as the client lives. One that may not leave says so.
func TestDoubleBarrierWithoutRights(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(t.Context(), path, nil, framework.CreatingParentsIfNeeded()))(t)
	setRights := func(rights int32) {
		require.NoError(t, client.SetACL(t.Context(), path, []framework.ACL{{Perms: rights | framework.PermRead | framework.PermAdmin, Scheme: "world", ID: "anyone"}}))
	}
	b := newDouble(t, client, 1)
	setRights(0)

	err := b.Enter(zktest.Context(t))

	require.ErrorIs(t, err, framework.ErrNoAuth)
	require.Zero(t, client.Health().PendingCleanups)

	setRights(framework.PermCreate)
	require.NoError(t, b.Enter(zktest.Context(t)))

	err = b.Leave(zktest.Context(t))

	require.ErrorIs(t, err, framework.ErrNoAuth)
	require.ErrorIs(t, err, framework.ErrCleanupPending)
}

// Another member opens the barrier between the look and the creation.
func TestDoubleBarrierThatAnotherMemberHasOpenedIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, release := zktest.NewServer(t, zkserver.WithoutListener()), make(chan struct{})
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		id := client.Session().ID()
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == id && r.Path == path+"/ready" && r.Op == zkserver.OpCreate2 {
				return zkserver.HoldUntil(release)
			}
			return zkserver.Pass
		})
		entering := later(func() error { return newDouble(t, client, 1).Enter(zktest.Context(t)) })
		synctest.Wait()
		_, err := other.Create(zktest.Context(t), path+"/ready", []byte("10.0.0.1")) // as Curator does
		require.NoError(t, err)

		close(release)

		require.NoError(t, <-entering)
	})
}

// A member that leaves alone is gone after five requests, even if an operator closes the barrier before.
func TestDoubleBarrierLastMemberClosesTheBarrier(t *testing.T) {
	for _, isClosedBefore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client, other := zktest.Client(t, server), zktest.Client(t, server)
			b := newDouble(t, client, 1)
			require.NoError(t, b.Enter(zktest.Context(t)))
			requests, id := 0, client.Session().ID()
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.SessionID == id && r.Op != zkserver.OpPing {
					requests++
				}
				return zkserver.Pass
			})
			release := hold(server, client, zkserver.OpMulti)
			leaving := later(func() error { return b.Leave(zktest.Context(t)) })
			synctest.Wait()
			if isClosedBefore {
				require.NoError(t, other.Delete(zktest.Context(t), path+"/ready"))
			}

			close(release)

			require.NoError(t, <-leaving)
			require.Equal(t, 5, requests)
		})
	}
}

// The members that a restored server has are no proof that the barrier is open, whatever their numbers.
func TestDoubleBarrierOlderMemberOfAnotherHistoryOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		require.NoError(t, other.Mkdirs(t.Context(), path+"/member"))
		backup := server.Backup()
		require.NoError(t, other.Delete(t.Context(), path+"/member"))
		require.NoError(t, other.Mkdirs(t.Context(), path+"/ready"))
		server.Intercept(zkserver.Nth(1, zkserver.OpGetChildren2, zkserver.NeverAnswer))
		ctx, cancel := context.WithCancel(t.Context())
		entering := later(func() error { return newDouble(t, client, 3).Enter(ctx) })
		synctest.Wait()

		require.NoError(t, server.Stop())
		require.NoError(t, server.Restore(backup, 1))
		require.NoError(t, server.Restart())

		time.Sleep(time.Minute)
		require.Empty(t, entering)
		cancel()
		require.ErrorIs(t, <-entering, context.Canceled)
	})
}
