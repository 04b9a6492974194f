// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestMembersShareAndLeave: partitions are divided, a join and a leave move one share, and
// nothing is left in the end.
func TestMembersShareAndLeave(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		began := time.Now()
		a := w.join("a")
		w.await(map[string]int{"a": 12})
		require.Less(t, time.Since(began), 100*time.Millisecond, "the first member waits for nothing")
		time.Sleep(2 * time.Second)
		joined := time.Now()
		b := w.join("b")
		w.await(map[string]int{"a": 6, "b": 6})
		require.GreaterOrEqual(t, time.Since(joined), time.Second, "the group settles first")
		require.Less(t, time.Since(joined), 3*time.Second, "and not for longer")
		require.Equal(t, 6, w.takenMoves())
		c := w.join("c")
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		require.Equal(t, 4, w.takenMoves())
		left := time.Now()
		b.leave()
		w.await(map[string]int{"a": 6, "c": 6})
		require.Less(t, time.Since(left), 100*time.Millisecond, "an orderly leave takes a few round trips")
		require.Equal(t, 4, w.takenMoves())
		a.leave()
		w.await(map[string]int{"c": 12})
		c.leave()
		w.requireNothingLeft()
	})
}

// TestMemberOnEachBackend: two members share, and one takes over from the other, whatever the server.
func TestMemberOnEachBackend(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		held := make(chan string, 20)
		run := func(id string) (stop func()) {
			member := must.Get(partition.New(zktest.Client(t, server), root, partition.Fixed(numbered(4)...),
				partition.WithID(id), partition.WithSettle(10*time.Millisecond)))(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- member.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
					held <- id
					<-ctx.Done()
					return context.Cause(ctx)
				})
			}()
			return func() {
				cancel()
				require.ErrorIs(t, zktest.Await(t, ended, "the end of "+id), context.Canceled)
			}
		}
		next := func(want string, n int) {
			for range n {
				require.Equal(t, want, zktest.Await(t, held, "a partition of "+want))
			}
		}
		stopA := run("a")
		next("a", 4)
		stopB := run("b")
		next("b", 2)
		stopA()
		next("b", 2)
		stopB()
		require.Nil(t, must.Get(zktest.Client(t, server).Exists(t.Context(), root+"/plan"))(t), "the plan is left")
		require.Empty(t, held)
	})
}

// TestMemberBurstMovesOnce: members that join within the settle time of each other cause one plan.
func TestMemberBurstMovesOnce(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		w.join("a")
		w.await(map[string]int{"a": 12})
		time.Sleep(5 * time.Second)
		for _, id := range []string{"b", "c", "d"} {
			w.join(id)
			time.Sleep(700 * time.Millisecond)
			require.Equal(t, map[string]int{"a": 12}, w.counts())
		}
		w.await(map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		require.Equal(t, 9, w.takenMoves())
	})
}

// TestMemberFlappingMemberMovesNothing: a member that comes and goes within the settle time gets
// nothing, and another one that joins meanwhile gets its share all the same.
func TestMemberFlappingMemberMovesNothing(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		w.join("a")
		w.await(map[string]int{"a": 12})
		time.Sleep(5 * time.Second)
		for range 5 {
			flapper := w.join("flapper")
			time.Sleep(600 * time.Millisecond)
			flapper.leave()
		}
		require.Zero(t, w.takenMoves())
		joined := time.Now()
		w.join("b")
		for w.counts()["b"] == 0 {
			flapper := w.join("flapper")
			time.Sleep(600 * time.Millisecond)
			flapper.leave()
			require.Less(t, time.Since(joined), 12*time.Second, w.told())
		}
		w.await(map[string]int{"a": 6, "b": 6})
	})
}

// TestMemberSuccessorQueuesFirst: the old owner works until the new one stands in the queue and
// has asked. Then its context ends with ErrMoved, and it keeps the lease until it has returned.
func TestMemberSuccessorQueuesFirst(t *testing.T) {
	play(t, partition.Fixed("p", "q"), func(t *testing.T, w *world) {
		type end struct {
			cause, lease, late error
			queue              int
		}
		ends := make(chan end, 10)
		a := w.joinWith("a", func(ctx context.Context, p partition.Partition) error {
			names, err := w.theirs.Children(context.Background(), root+"/locks/"+p.Name)
			e := end{cause: context.Cause(ctx), lease: errors.Join(err, p.Lease.Err()), queue: len(names)}
			time.Sleep(5 * time.Second) // within the grace
			e.late = p.Lease.Err()
			ends <- e
			return nil
		}, partition.WithSettle(0))
		w.await(map[string]int{"a": 2})
		joined := time.Now()
		w.join("b", partition.WithSettle(0))
		require.Equal(t, end{cause: partition.ErrMoved, queue: 2}, zktest.Await(t, ends, "the end of the function"))
		w.await(map[string]int{"a": 1, "b": 1})
		require.Less(t, time.Since(joined), 6*time.Second)
		require.Equal(t, 1, w.takenMoves())
		a.stop()
	})
}

// TestMemberHolderThatHangs is reported, and not robbed.
func TestMemberHolderThatHangs(t *testing.T) {
	play(t, partition.Fixed("p", "q"), func(t *testing.T, w *world) {
		release := make(chan struct{})
		a := w.joinWith("a", func(context.Context, partition.Partition) error {
			<-release
			return nil
		}, partition.WithGrace(time.Second))
		defer a.stop()
		changes := make(chan partition.Change, 10)
		a.OnChange(func(c partition.Change) { changes <- c })
		w.await(map[string]int{"a": 2})
		w.join("b")
		for c := range changes {
			if c.Phase == partition.Overdue {
				require.Equal(t, "q", c.Partition)
				require.ErrorIs(t, c.Err, partition.ErrMoved)
				break
			}
		}
		time.Sleep(time.Hour)
		require.Equal(t, "a", w.owner("q"))
		state := must.Get(a.Assignment(t.Context()))(t)
		require.Len(t, state.Partitions, 2)
		q := state.Partitions[1]
		require.Equal(t, "q", q.Name)
		require.Equal(t, "b", q.Owner)
		require.Equal(t, "a", q.Holder)
		require.Equal(t, 1, q.Waiting)
		require.True(t, q.Asked)
		require.True(t, q.OnItsWay())
		require.False(t, state.Partitions[0].OnItsWay())
		require.Equal(t, []partition.Peer{
			{ID: "a", Capacity: 1, Alive: true, Wanted: 1, Held: 2},
			{ID: "b", Capacity: 1, Alive: true, Wanted: 1},
		}, state.Members)
		close(release)
		w.await(map[string]int{"a": 1, "b": 1})
		require.Equal(t, partition.Ended, zktest.Await(t, changes, "the end").Phase)
	})
}

// hurts notes that the session of a member is about to be ended from outside: the server may
// then tell a successor first.
func (w *world) hurts(k *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurt[k.client.Session().ID()] = true
}

// TestMemberDies: whatever members die together, the rest has all partitions one session
// timeout later.
func TestMemberDies(t *testing.T) {
	for _, dead := range []string{"a", "b", "c", "d", "ab", "bc", "cd", "da", "ac", "abc", "bcd"} {
		playAs(t, dead, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
			workers := make(map[string]*worker)
			for _, id := range []string{"a", "b", "c", "d"} {
				workers[id] = w.join(id)
			}
			w.await(map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
			died := time.Now()
			for id, k := range workers {
				if strings.Contains(dead, id) {
					k.link.Refuse(true)
					k.link.Cut()
					w.didf("%s is cut off", id)
				}
			}
			time.Sleep(sessionTimeout(workers["a"].client) + time.Second)
			want := make(map[string]int)
			for id := range workers {
				if !strings.Contains(dead, id) {
					want[id] = 12 / (4 - len(dead))
				}
			}
			w.await(want)
			require.Less(t, time.Since(died), sessionTimeout(workers["a"].client)+2*time.Second)
		})
	}
}

func sessionTimeout(client *framework.Framework) time.Duration { return client.Session().Timeout() }

// TestMemberGroupThatHasDied: a newcomer takes over a plan whose members are all gone, whichever of them was its earlier process. It waits for
// no settle time.
func TestMemberGroupThatHasDied(t *testing.T) {
	for _, id := range []string{"a", "b", "c"} {
		play(t, partition.Fixed(numbered(4)...), func(t *testing.T, w *world) {
			members := []*worker{w.join("a"), w.join("b")}
			w.await(map[string]int{"a": 2, "b": 2})
			for _, k := range members {
				k.link.Refuse(true)
				k.link.Cut()
			}
			time.Sleep(5 * time.Minute)
			began := time.Now()
			newcomer := w.join(id, partition.WithSettle(time.Minute))
			w.await(map[string]int{id: 4})
			require.Less(t, time.Since(began), time.Second)
			newcomer.leave()
		})
	}
}

// total is how many partitions have a holder.
func (w *world) total() (n int) {
	for _, of := range w.counts() {
		n += of
	}
	return n
}

// debris are what no member has made, below the folder of the members.
var debris = []struct {
	data string
	mode framework.CreateMode
}{
	{`{"capacity":1}`, framework.Persistent},
	{`{"capacity":3}`, framework.Container},
	{`{"capacity":0}`, framework.Ephemeral},
	{`{"capacity":1000001}`, framework.Ephemeral},
	{`10.0.0.1:8080`, framework.Ephemeral},
	{``, framework.Ephemeral},
	{``, framework.Persistent},
}

// TestMemberWhatIsNoMember: a znode that does not go with its member gets no partition, takes no part in
// noticing deaths, and is not shown as alive. Names before, between and after those of the members.
func TestMemberWhatIsNoMember(t *testing.T) {
	for _, d := range debris {
		playAs(t, fmt.Sprintf("mode %d, %q", d.mode, d.data), partition.Fixed(numbered(6)...), func(t *testing.T, w *world) {
			require.NoError(t, w.theirs.Mkdirs(t.Context(), root+"/members"))
			put := func(ids ...string) {
				for _, id := range ids {
					must.Get(w.theirs.Create(t.Context(), root+"/members/"+id, []byte(d.data), framework.WithMode(d.mode)))(t)
				}
			}
			put("a-ghost", "c-ghost")
			b := w.join("b")
			w.await(map[string]int{"b": 6})
			d := w.join("d")
			w.await(map[string]int{"b": 3, "d": 3})
			put("e-ghost")
			e := w.join("e")
			w.await(map[string]int{"b": 2, "d": 2, "e": 2})

			put("f-ghost")
			got := must.Get(b.Assignment(t.Context()))(t)
			require.Len(t, got.Members, 3)
			require.True(t, got.Balanced)

			d.link.Refuse(true)
			d.link.Cut()
			w.await(map[string]int{"b": 3, "e": 3})
			e.leave()
			w.await(map[string]int{"b": 6})
			b.leave()
			require.Nil(t, must.Get(w.theirs.Exists(t.Context(), root+"/plan"))(t), "the last member has left")
		})
	}
}

// copied copies a group of members as a tool does that makes each znode persistent.
func (w *world) copied(from *world, at string) {
	w.tb.Helper()
	ctx := w.tb.Context()
	data := must.Get(from.theirs.Get(ctx, at))(w.tb)
	must.Get(w.theirs.Create(ctx, at, data, framework.CreatingParentsIfNeeded()))(w.tb)
	names := must.Get(from.theirs.Children(ctx, at))(w.tb)
	for _, name := range names {
		w.copied(from, framework.JoinPath(at, name))
	}
}

// TestMemberOfACopiedGroup: plan, shares and members of other servers are there, with the names of these
// members and others.
func TestMemberOfACopiedGroup(t *testing.T) {
	for _, ids := range [][]string{{"a", "b"}, {"x", "y"}, {"a", "x"}, {"b", "x"}} {
		t.Run(fmt.Sprint(ids), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := newWorld(t, partition.Fixed(numbered(6)...))
				for _, id := range []string{"a", "b", "c"} {
					from.join(id)
				}
				from.await(map[string]int{"a": 2, "b": 2, "c": 2})
				w := newWorld(t, partition.Fixed(numbered(6)...))
				w.copied(from, root+"/members")
				w.copied(from, root+"/plan")
				began := time.Now()

				w.join(ids[0])
				second := w.join(ids[1])

				w.await(map[string]int{ids[0]: 3, ids[1]: 3})
				require.Less(t, time.Since(began), 3*partition.DefaultSettle)
				require.Len(t, must.Get(second.Assignment(t.Context()))(t).Members, 2)
				second.link.Refuse(true)
				second.link.Cut()
				w.await(map[string]int{ids[0]: 6})
			})
		})
	}
}

// TestMemberIsReplacedByAPersistentZnode, as by hand: it makes room for itself.
func TestMemberIsReplacedByAPersistentZnode(t *testing.T) {
	play(t, partition.Fixed(numbered(6)...), func(t *testing.T, w *world) {
		w.join("a")
		w.join("b")
		w.await(map[string]int{"a": 3, "b": 3})

		must.Get(w.theirs.Transact(t.Context(), framework.DeleteOp(root+"/members/a"),
			framework.CreateOp(root+"/members/a", []byte(`{"capacity":1}`))))(t)
		time.Sleep(10 * partition.DefaultSettle)

		w.await(map[string]int{"a": 3, "b": 3})
		require.NotZero(t, must.Get(w.theirs.Exists(t.Context(), root+"/members/a"))(t).EphemeralOwner)
	})
}

// TestMemberThatComesAndGoesWithOneIDWaitsForTheSettleTime, however soon it is back.
func TestMemberThatComesAndGoesWithOneIDWaitsForTheSettleTime(t *testing.T) {
	play(t, partition.Fixed(numbered(12)...), func(t *testing.T, w *world) {
		a := w.join("a")
		a.link.Delay(20 * time.Millisecond) // it plans late
		w.await(map[string]int{"a": 12})
		looper := w.join("looper")
		w.await(map[string]int{"a": 6, "looper": 6})
		for range 20 {
			w.takenMoves()
			looper.leave()
			looper.begin("looper", nil)
			back := time.Now()
			for time.Since(back) < partition.DefaultSettle-100*time.Millisecond {
				require.Zero(t, w.counts()["looper"], w.told())
				time.Sleep(time.Millisecond)
			}
			w.await(map[string]int{"a": 6, "looper": 6})
		}
	})
}

// workersOfSmallRequests are members that cannot send a plan for all of them in one request.
func (w *world) workersOfSmallRequests(n int) []*worker {
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = w.workerOfSmallRequests()
		workers[i].begin(fmt.Sprintf("member-%02d", i), nil)
	}
	return workers
}

func (w *world) workerOfSmallRequests() *worker {
	link := zktest.NewProxy(w.tb, w.server)
	client := zktest.Client(w.tb, link, framework.WithMaxRequestSize(6<<10))
	return &worker{w: w, link: link, client: client, ended: make(chan error, 1)}
}

// TestMemberPlanThatTakesSeveralRequests is made all the same, also when one of the requests fails.
func TestMemberPlanThatTakesSeveralRequests(t *testing.T) {
	play(t, partition.Fixed(numbered(60)...), func(t *testing.T, w *world) {
		multis := 0
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti && r.SessionID != w.theirs.Session().ID() {
				if multis++; multis%5 == 0 {
					return []zkserver.Fault{zkserver.LoseReply, zkserver.LoseRequest, zkserver.FailWith(-1)}[multis/5%3]
				}
			}
			return zkserver.Pass
		})
		workers := w.workersOfSmallRequests(30)
		time.Sleep(time.Minute)
		w.check()
		want := make(map[string]int)
		for _, k := range workers {
			want[k.ID()] = 2
		}
		require.Equal(t, want, w.counts())
		got := must.Get(workers[0].Assignment(t.Context()))(t)
		require.True(t, got.Balanced)
		require.Len(t, got.Partitions, 60)
	})
}

// TestMemberPlanThatFailsInItsSecondRequest is completed, although the first one has made it the plan.
func TestMemberPlanThatFailsInItsSecondRequest(t *testing.T) {
	play(t, partition.Fixed(numbered(61)...), func(t *testing.T, w *world) {
		w.workersOfSmallRequests(30)
		time.Sleep(time.Minute)
		newcomer := w.workerOfSmallRequests()
		multis := 0
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti && r.SessionID == newcomer.client.Session().ID() {
				if multis++; multis == 2 {
					return zkserver.FailWith(-1)
				}
			}
			return zkserver.Pass
		})
		newcomer.begin("a-newcomer", nil, partition.WithCapacity(30)) // whose own share is in the first request

		time.Sleep(time.Minute)

		w.check()
		require.Greater(t, multis, 2)
		require.GreaterOrEqual(t, w.counts()["a-newcomer"], 30, "%v", w.counts())
		require.Equal(t, 61, w.total())
	})
}

// TestMemberThatDiesWithinAPlanOfSeveralRequests is noticed, and the plan is completed.
func TestMemberThatDiesWithinAPlanOfSeveralRequests(t *testing.T) {
	play(t, partition.Fixed(numbered(61)...), func(t *testing.T, w *world) {
		w.workersOfSmallRequests(30)
		time.Sleep(time.Minute)
		require.Equal(t, 61, w.total())
		newcomer := w.workerOfSmallRequests()
		died := make(chan struct{})
		multis := 0
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpMulti || r.SessionID != newcomer.client.Session().ID() {
				return zkserver.Pass
			}
			if multis++; multis == 2 {
				close(died)
			}
			if multis >= 2 {
				return zkserver.LoseRequest
			}
			return zkserver.Pass
		})
		newcomer.begin("member-25-newcomer", nil, partition.WithCapacity(30)) // it takes from each share
		select {
		case <-died:
		case <-time.After(time.Minute):
			t.Fatalf("%d transactions of the newcomer, expected a plan of two", multis)
		}
		w.hurts(newcomer)
		newcomer.link.Refuse(true)
		newcomer.link.Cut()
		w.server.KillSession(newcomer.client.Session().ID())
		time.Sleep(time.Minute)

		w.check()
		require.Equal(t, 61, w.total())
		require.Zero(t, w.counts()[newcomer.ID()])
		got := must.Get(partition.Read(t.Context(), w.theirs, root))(t)
		require.True(t, got.Balanced)
		require.Len(t, got.Partitions, 61)
		for _, p := range got.Partitions {
			require.False(t, p.OnItsWay(), "%+v", p)
		}
	})
}

// TestMemberPlansAsSoonAsItsClientIsBack: the requests for a plan that was due when the servers
// went away have failed all the time, and the pauses between them have grown.
func TestMemberPlansAsSoonAsItsClientIsBack(t *testing.T) {
	play(t, partition.Fixed(numbered(4)...), func(t *testing.T, w *world) {
		var workers []*worker
		for _, id := range []string{"a", "b"} {
			client := zktest.Client(t, w.server, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.None()))
			k := &worker{w: w, client: client, ended: make(chan error, 1)}
			k.begin(id, nil)
			workers = append(workers, k)
			w.await(map[string]int{"a": 4})
		}
		time.Sleep(partition.DefaultSettle / 2)
		require.NoError(t, w.server.Stop())
		time.Sleep(5*time.Minute + 17*time.Second)
		require.NoError(t, w.server.Restart())
		for _, k := range workers {
			require.NoError(t, k.client.BlockUntilConnected(t.Context()))
		}
		back := time.Now()

		w.await(map[string]int{"a": 2, "b": 2})

		require.Less(t, time.Since(back), 3*partition.DefaultSettle)
		for _, k := range workers {
			k.leave()
		}
	})
}

// TestMemberThatHasLeftIsNotWatched by those that have followed it.
func TestMemberThatHasLeftIsNotWatched(t *testing.T) {
	play(t, partition.Fixed(numbered(4)...), func(t *testing.T, w *world) {
		w.join("a")
		b := w.join("b")
		w.join("c")
		time.Sleep(10 * partition.DefaultSettle)
		require.Equal(t, 4, w.total())
		watches := func() string {
			text := must.Get(w.server.FourLetterWord(t.Context(), "wchp"))(t)
			return text
		}
		require.Contains(t, watches(), root+"/members/b")

		b.leave()

		w.await(map[string]int{"a": 2, "c": 2})
		time.Sleep(time.Minute)
		require.NotContains(t, watches(), root+"/members/b")
		require.Contains(t, watches(), root+"/members/c")
	})
}

// TestMemberShareWrittenByHand: what no plan has is replaced, and no member gets such a partition.
func TestMemberShareWrittenByHand(t *testing.T) {
	for _, data := range []string{"partitions", `{"capacity":1,"partitions":["","a/b"]}`, `{"capacity":5,"partitions":["p00"]}`} {
		play(t, partition.Fixed(numbered(4)...), func(t *testing.T, w *world) {
			a := w.join("a")
			w.join("b")
			w.await(map[string]int{"a": 2, "b": 2})
			require.NoError(t, w.theirs.Set(t.Context(), root+"/plan/b", []byte(data)))

			time.Sleep(5 * time.Second)

			w.await(map[string]int{"a": 2, "b": 2}, "", "a/b")
			got := must.Get(a.Assignment(t.Context()))(t)
			for _, p := range got.Partitions {
				require.Equal(t, "held", p.Describe())
			}
		})
	}
}

// TestMemberTwoMembersOfOneID: the newer one takes the place of the older one, which is perhaps dead.
// If it lives it hands its partitions over, and waits.
func TestMemberTwoMembersOfOneID(t *testing.T) {
	play(t, partition.Fixed(numbered(3)...), func(_ *testing.T, w *world) {
		first := w.join("a")
		w.await(map[string]int{"a": 3})
		second := w.join("a")
		time.Sleep(time.Minute)
		w.requireAllOf(second, 3)
		second.leave()
		time.Sleep(time.Minute)
		w.requireAllOf(first, 3)
	})
}

// requireAllOf checks that a member has all n partitions.
func (w *world) requireAllOf(k *worker, n int) {
	w.tb.Helper()
	w.check()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w.tb, w.held, n)
	for name, p := range w.held {
		require.Same(w.tb, k, p.of, name)
		require.NoError(w.tb, p.Lease.Err(), name)
	}
}

// TestMemberSetChanges: new partitions are placed, the functions of removed ones end, and the rest
// stays where it is.
func TestMemberSetChanges(t *testing.T) {
	play(t, partition.Stored("/set"), func(t *testing.T, w *world) {
		a := w.join("a")
		b := w.join("b")
		time.Sleep(5 * time.Second)
		require.Empty(t, w.counts(), "there is no set yet")
		must.Get(w.theirs.Create(t.Context(), "/set", []byte("p1\np2\n\n  p3\np4\n")))(t)
		w.await(map[string]int{"a": 2, "b": 2})
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p1\np3\np4\np5\np6\np7")))
		w.await(map[string]int{"a": 3, "b": 3}, "p2")
		require.Zero(t, w.takenMoves())
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("bad/name")))
		time.Sleep(5 * time.Second)
		require.NoError(t, w.theirs.Delete(t.Context(), "/set"))
		time.Sleep(5 * time.Second)
		require.Equal(t, map[string]int{"a": 3, "b": 3}, w.counts(), "the last set stays in force")
		must.Get(w.theirs.Create(t.Context(), "/set", nil))(t)
		w.await(map[string]int{})
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p9")))
		w.await(map[string]int{"a": 1})
		a.leave()
		w.await(map[string]int{"b": 1})
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p8\np9")))
		w.await(map[string]int{"b": 2})
		b.leave()
		w.requireNothingLeft()
	})
}

// TestMemberRemovedPartitionOnItsWay: a partition that its next owner never asked for ends when the
// set no longer has it.
func TestMemberRemovedPartitionOnItsWay(t *testing.T) {
	play(t, partition.Stored("/set"), func(t *testing.T, w *world) {
		must.Get(w.theirs.Create(t.Context(), "/set", []byte("p\nq")))(t)
		a := w.join("a")
		w.await(map[string]int{"a": 2})
		// b is in the plan, and its requests for the partition's lock do not arrive.
		remove := w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if strings.HasPrefix(r.Path, root+"/locks/q/") && r.SessionID != a.client.Session().ID() {
				return zkserver.FailWith(-102) // no permission
			}
			return zkserver.Pass
		})
		w.join("b")
		time.Sleep(5 * time.Second)
		require.Equal(t, "a", w.owner("q"))
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p")))
		w.await(map[string]int{"a": 1})
		remove()
	})
}

// TestMemberFunctionThatFails ends alone, and is called again after pauses that grow. The partition
// stays, and moves as any other.
func TestMemberFunctionThatFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errBroken },
		"panic":  func() error { panic(errBroken) },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testFunctionThatFails(t, fail) }) })
	}
}

func testFunctionThatFails(t *testing.T, fail func() error) {
	w := newWorld(t, partition.Fixed("p01", "p02"))
	client := zktest.Client(t, w.server)
	member := must.Get(partition.New(client, root, w.names, partition.WithID("m")))(t)
	changes := make(chan partition.Change, 1000)
	registration := member.OnChange(func(c partition.Change) {
		if c.Partition == "p01" && c.Phase != partition.Waiting {
			changes <- c
		}
	})
	var mu sync.Mutex // guards the calls and their tokens
	var tokens []int64
	var calls []time.Time
	var others atomic.Int32
	var lasts atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			if p.Name == "p02" {
				others.Add(1)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			mu.Lock()
			calls, tokens = append(calls, time.Now()), append(tokens, p.Lease.Token())
			mu.Unlock()
			if lasts.Load() {
				time.Sleep(time.Minute)
			}
			return fail()
		})
	}()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	lasts.Store(true)
	mu.Lock()
	for i := range calls[:min(len(calls), 9)] {
		require.Equal(t, min(100*time.Millisecond<<i, 30*time.Second), calls[i+1].Sub(calls[i]))
	}
	require.Greater(t, len(calls), 9)
	before := len(calls)
	mu.Unlock()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	mu.Lock()
	require.Equal(t, time.Minute+100*time.Millisecond, calls[before+2].Sub(calls[before+1]), "a call that has lasted begins again")
	require.Len(t, slices.Compact(tokens), 1, "the partition has stayed")
	require.Equal(t, partition.Held, (<-changes).Phase)
	for range calls[1:] {
		c := <-changes
		require.Equal(t, partition.Failed, c.Phase)
		require.Error(t, c.Err)
		require.Equal(t, tokens[0], c.Token)
	}
	mu.Unlock()
	require.Equal(t, int32(1), others.Load(), "the other function has run on")

	w.join("n")
	time.Sleep(time.Hour)
	w.check()
	require.Equal(t, map[string]int{"n": 1}, w.counts())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	registration.Remove()
	<-registration.Done()
}

func TestRunEndsWithAnErrorOfItsFunction(t *testing.T) {
	play(t, partition.Fixed(numbered(3)...), func(t *testing.T, w *world) {
		client := zktest.Client(t, w.server)
		for name, fail := range map[string]func() error{
			"error": func() error { return errBroken },
			"panic": func() error { panic(errBroken) },
		} {
			member := must.Get(partition.New(client, root, w.names, partition.WithEndOnError()))(t)
			ends := make(chan error, 3)
			err := member.Run(t.Context(), func(ctx context.Context, p partition.Partition) error {
				if p.Name == "p01" {
					time.Sleep(time.Second)
					return fail()
				}
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return context.Cause(ctx)
			})
			require.ErrorContains(t, err, "p01", name)
			require.ErrorContains(t, err, "broken", name)
			require.ErrorContains(t, <-ends, "broken")
			require.ErrorContains(t, <-ends, "broken")
		}
		w.requireNothingLeft()
	})
}

var errBroken = errors.New("broken")

// TestMemberFunctionThatReturns keeps its partition, and is called again only after the partition
// has come back.
func TestMemberFunctionThatReturns(t *testing.T) {
	play(t, partition.Fixed("p"), func(t *testing.T, w *world) {
		client := zktest.Client(t, w.server)
		member := must.Get(partition.New(client, root, w.names))(t)
		calls := make(chan partition.Partition, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- member.Run(ctx, func(_ context.Context, p partition.Partition) error {
				calls <- p
				return nil
			})
		}()
		first := <-calls
		time.Sleep(time.Minute)
		require.NoError(t, first.Lease.Err())
		require.Empty(t, calls)
		w.server.KillSession(client.Session().ID())
		second := <-calls
		require.Greater(t, second.Lease.Token(), first.Lease.Token())
		require.ErrorAs(t, first.Lease.Err(), new(*locks.LostError))
		require.ErrorIs(t, member.Run(ctx, func(context.Context, partition.Partition) error { return nil }), partition.ErrRunning)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestDeadlineOfARunEndsItsFunctions with the error of a deadline.
func TestDeadlineOfARunEndsItsFunctions(t *testing.T) {
	play(t, partition.Fixed("one"), func(t *testing.T, w *world) {
		member := must.Get(partition.New(zktest.Client(t, w.server), root, w.names))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		err := member.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, context.DeadlineExceeded, <-ended)
	})
}

// TestMemberThatIsRefusedForNow: a quota, an error inside a server, and servers without a quorum.
func TestMemberThatIsRefusedForNow(t *testing.T) {
	for _, code := range []int32{-125, -1, -119} {
		play(t, partition.Fixed(numbered(2)...), func(t *testing.T, w *world) {
			var creations atomic.Int32
			w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if isCreate := r.Op == zkserver.OpCreate || r.Op == zkserver.OpCreate2; isCreate && r.Path == root+"/members/a" && creations.Add(1) <= 3 {
					return zkserver.FailWith(code)
				}
				return zkserver.Pass
			})
			a := w.join("a")
			w.await(map[string]int{"a": 2})
			require.Greater(t, creations.Load(), int32(3))
			a.leave()
		})
	}
}

// TestRunEndsWithoutPermission, and with a policy that the session does not allow.
func TestRunEndsWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		nothing := func(context.Context, partition.Partition) error { return nil }
		client := zktest.Client(t, server, framework.WithSessionTimeout(4*time.Second), framework.WithServerTiming(4*time.Second, 5))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		short := must.Get(partition.New(client, root, partition.Fixed("p"), partition.WithLockOptions(locks.WithErrorPolicy(framework.QuorumErrorPolicy))))(t)
		require.ErrorIs(t, short.Run(ctx, nothing), framework.ErrInvalidOption)
		must.Get(client.Create(ctx, "/closed", nil, framework.WithACL(framework.ACL{Scheme: "world", ID: "anyone", Perms: 1})))(t)
		require.ErrorIs(t, must.Get(partition.New(client, "/closed/jobs", partition.Fixed("p")))(t).Run(ctx, nothing), framework.ErrNoAuth)
	})
}

func TestMemberBadArguments(t *testing.T) {
	client := must.Get(framework.New("127.0.0.1:1"))(t)
	good := partition.Fixed("a")
	for want, build := range map[string]func() (*partition.Member, error){
		"client nil":      func() (*partition.Member, error) { return partition.New(nil, root, good) },
		"partitions nil":  func() (*partition.Member, error) { return partition.New(client, root, nil) },
		"path /,":         func() (*partition.Member, error) { return partition.New(client, "/", good) },
		"path":            func() (*partition.Member, error) { return partition.New(client, "work", good) },
		`partition "a/b"`: func() (*partition.Member, error) { return partition.New(client, root, partition.Fixed("a/b")) },
		`partition ""`:    func() (*partition.Member, error) { return partition.New(client, root, partition.Fixed("")) },
		`partition ".."`:  func() (*partition.Member, error) { return partition.New(client, root, partition.Fixed("..")) },
		"no partitions, expected at least one name": func() (*partition.Member, error) { return partition.New(client, root, partition.Fixed()) },
		`"a" twice`: func() (*partition.Member, error) { return partition.New(client, root, partition.Fixed("a", "a")) },
		"bytes, compressed if there are many, expected at most 600000": func() (*partition.Member, error) {
			return partition.New(client, root, partition.Fixed(atRandom(35_000)...))
		},
		"set":        func() (*partition.Member, error) { return partition.New(client, root, partition.Stored("set")) },
		"nil option": func() (*partition.Member, error) { return partition.New(client, root, good, nil) },
		"capacity 0": func() (*partition.Member, error) { return partition.New(client, root, good, partition.WithCapacity(0)) },
		"settle -1s": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithSettle(-time.Second))
		},
		"moves -1 at once": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithMoves(-1, 0))
		},
		"cool-down of -1s": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithMoves(0, -time.Second))
		},
		"return -1s": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithReturn(-time.Second))
		},
		"return 1s without an id": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithReturn(time.Second))
		},
		"grace -1s": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithGrace(-time.Second))
		},
		`locks: `: func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithLocks("a", "lock"))
		},
		`locks below "a/b"`: func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithLocks("/a", "a/b"))
		},
		`id "a/b"`: func() (*partition.Member, error) { return partition.New(client, root, good, partition.WithID("a/b")) },
		"locks": func() (*partition.Member, error) {
			return partition.New(client, root, good, partition.WithLockOptions(nil))
		},
	} {
		_, err := build()
		require.ErrorContains(t, err, "partition: ")
		require.ErrorContains(t, err, want)
	}
	member := must.Get(partition.New(client, root, good))(t)
	require.ErrorContains(t, member.Run(t.Context(), nil), "function nil")
	require.ErrorContains(t, member.Run(nil, func(context.Context, partition.Partition) error { return nil }), "context nil") //nolint:staticcheck // on purpose
	var none context.Context
	_, err := partition.Read(none, client, root)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
}

// atRandom returns names of 32 digits that no compression makes shorter than a half.
func atRandom(n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())
	}
	return names
}
