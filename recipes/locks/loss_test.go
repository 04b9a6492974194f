// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	fastReaping  = time.Millisecond
	trialsAtOnce = 10

	// shortSession is for holders that are to lose their session by its timeout, but not before: a busy
	// machine keeps them from their pings for seconds.
	shortSession = 8 * time.Second
)

// contest is one trial: a holder, and a rival that waits for the lock, each on a
// session and a link of its own.
type contest struct {
	server zktest.Backend
	link   *zkproxy.Proxy // the holder's
	holder *framework.Framework
	admin  *framework.Framework
	lease  *locks.Lease
}

// pairing is what holder and rival contend for, such that one excludes the other.
type pairing struct {
	name  string
	hold  func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease
	rival func(t *testing.T, client *framework.Framework, path string) contended
}

type contended interface {
	locks.InterProcessLock
	queue
}

var mutexes = pairing{
	"mutex",
	func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
		t.Helper()
		return acquire(t, newMutex(t, client, path, opts...))
	},
	func(t *testing.T, client *framework.Framework, path string) contended {
		t.Helper()
		return newMutex(t, client, path)
	},
}

// TestLeaseHolderKnowsFirst does to a holder whatever ends a hold, and checks at the
// moment at which the rival's Acquire returns that the holder has been told.
//
// See etcd#10811, CURATOR-206, redisson#3636 and consul#18271.
func TestLeaseHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		policy  framework.ErrorPolicy
		trouble func(t *testing.T, c *contest)
		reasons []framework.LostReason

		// together says that the server tells holder and rival with one transaction. Who hears of it first
		// is then up to their links, so the rival's is held up until the holder has been told: the test is
		// whether it is told at all.
		together bool
	}{
		{
			"session killed", framework.StandardErrorPolicy,
			func(t *testing.T, c *contest) { zktest.KillSession(t, c.holder, c.server.Addr()) },
			// The second connection takes the session over, which ends the first.
			[]framework.LostReason{framework.ReasonSuspended, framework.ReasonNodeDeleted},
			true,
		},
		{
			"blackhole", framework.StandardErrorPolicy,
			func(_ *testing.T, c *contest) { c.link.Blackhole(zkproxy.Both) },
			[]framework.LostReason{framework.ReasonSuspended},
			false,
		},
		{
			"blackhole, held to the end of the lease", framework.SessionErrorPolicy,
			func(_ *testing.T, c *contest) { c.link.Blackhole(zkproxy.Both) },
			[]framework.LostReason{framework.ReasonLeaseEnd},
			false,
		},
		{
			"one-way blackhole to the server", framework.SessionErrorPolicy,
			func(_ *testing.T, c *contest) { c.link.Blackhole(zkproxy.ToServer) },
			[]framework.LostReason{framework.ReasonLeaseEnd},
			false,
		},
		{
			"node deleted by hand", framework.StandardErrorPolicy,
			func(t *testing.T, c *contest) { require.NoError(t, c.admin.Delete(zktest.Context(t), c.lease.Path())) },
			[]framework.LostReason{framework.ReasonNodeDeleted},
			true,
		},
		{
			"node deleted by hand", framework.SessionErrorPolicy,
			func(t *testing.T, c *contest) { require.NoError(t, c.admin.Delete(zktest.Context(t), c.lease.Path())) },
			[]framework.LostReason{framework.ReasonNodeDeleted},
			true,
		},
	} {
		t.Run(fmt.Sprintf("%s, %v", test.name, test.policy), func(t *testing.T) {
			t.Parallel() // a trial waits for most of its time
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				if server.Name() == "zkserver" && !test.together {
					t.Skip("takes a session timeout for each trial; faketime_test.go has it on a fake clock")
				}
				admin := zktest.Client(t, server.ConnectString())
				gate := make(chan struct{}, trialsAtOnce)
				var wg sync.WaitGroup
				for trial := range trials() {
					wg.Go(func() {
						gate <- struct{}{}
						defer func() { <-gate }()
						c := &contest{server: server, admin: admin}
						reason := c.run(t, mutexes, fmt.Sprintf("/locks/%d", trial), test.policy, test.together, test.trouble)
						if !slices.Contains(test.reasons, reason) {
							t.Errorf("trial %d: lost because %q, want one of %q", trial, reason, test.reasons)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// run returns the reason that the holder was given.
func (c *contest) run(
	t *testing.T, p pairing, path string, policy framework.ErrorPolicy, together bool,
	trouble func(*testing.T, *contest),
) framework.LostReason {
	var opts []framework.Option
	if !together {
		opts = append(opts, framework.WithSessionTimeout(shortSession))
	}
	c.link = zktest.NewProxy(t, c.server.Addr())
	defer c.link.Heal()
	seen := newObserved()
	c.holder = zktest.Client(t, c.server.ConnectStringVia(c.link.Addr()), seen.options(opts...)...)
	c.lease = p.hold(t, c.holder, path, locks.WithErrorPolicy(policy))
	work := c.lease.Context(context.Background())
	require.Eventually(t, func() bool { return seen.value(t, "watch.active{}") >= 1 }, limit, tick, "that it watches its node")

	rivalLink := zktest.NewProxy(t, c.server.Addr())
	defer rivalLink.Pause(false)
	rival := p.rival(t, zktest.Client(t, c.server.ConnectStringVia(rivalLink.Addr())), path)
	waiting := make(chan outcome, 1)
	told := make(chan error, 1)
	go func() {
		lease, err := rival.Acquire(zktest.Context(t))
		told <- context.Cause(work) // at once, on the rival's own goroutine
		waiting <- outcome{lease, err}
	}()
	awaitQueue(t, rival, 2)
	rivalLink.Pause(together)
	trouble(t, c)
	if together {
		select {
		case <-work.Done():
		case <-time.After(limit):
			t.Errorf("%s: nobody has told the holder", path)
		}
		rivalLink.Pause(false)
	}

	o := await(t, waiting)
	require.NoError(t, o.err)
	cause := <-told
	var lost *locks.LostError
	if !errors.As(cause, &lost) {
		t.Errorf("%s: the rival has the lock and the holder's context says %v", path, cause)
		return ""
	}
	require.ErrorAs(t, c.lease.Err(), &lost)
	require.Greater(t, o.lease.Token(), c.lease.Token())
	require.ErrorAs(t, c.lease.Release(zktest.Context(t)), &lost, "Release tells of the loss")
	release(t, o.lease)
	return lost.Reason
}

var pairings = []pairing{
	{
		"reader before writer",
		func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
			t.Helper()
			return acquire(t, newReadWrite(t, client, path, opts...).ReadLock())
		},
		rivalWriter,
	},
	{
		"writer before reader",
		func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
			t.Helper()
			return acquire(t, newReadWrite(t, client, path, opts...).WriteLock())
		},
		func(t *testing.T, client *framework.Framework, path string) contended {
			t.Helper()
			return bothSides{newReadWrite(t, client, path).ReadLock(), newReadWrite(t, client, path)}
		},
	},
	{
		"downgraded reader before writer",
		func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
			t.Helper()
			rw := newReadWrite(t, client, path, opts...)
			writer := acquire(t, rw.WriteLock())
			reader, err := rw.ReadLock().Acquire(writer.Context(zktest.Context(t)))
			require.NoError(t, err)
			release(t, writer)
			return reader
		},
		rivalWriter,
	},
	{
		"permit of a semaphore",
		func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
			t.Helper()
			return acquire(t, newSemaphore(t, client, path, locks.FixedLeases(1), opts...))
		},
		func(t *testing.T, client *framework.Framework, path string) contended {
			t.Helper()
			return newSemaphore(t, client, path, locks.FixedLeases(1))
		},
	},
}

func rivalWriter(t *testing.T, client *framework.Framework, path string) contended {
	t.Helper()
	return bothSides{newReadWrite(t, client, path).WriteLock(), newReadWrite(t, client, path)}
}

// bothSides is one side of a read/write lock, with the queue of both.
type bothSides struct {
	locks.InterProcessLock
	queue
}

// TestLeaseHolderKnowsFirstWhateverTheLock does to the holders of other locks what
// the server or the client's clock has to tell them. That of the clock takes a session
// timeout, so here are only a few, with real ZooKeeper: faketime_test.go has more, and more
// locks.
//
// See etcd#10811, CURATOR-206, redisson#3636 and consul#18271.
func TestLeaseHolderKnowsFirstWhateverTheLock(t *testing.T) {
	t.Parallel()
	const cutOff = 3
	// One gate for all pairings: four times as many trials would keep each other from their pings.
	gate := make(chan struct{}, trialsAtOnce)
	for _, p := range pairings {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // a trial waits for most of its time
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				admin := zktest.Client(t, server.ConnectString())
				var wg sync.WaitGroup
				for trial := range trials() {
					wg.Go(func() {
						gate <- struct{}{}
						defer func() { <-gate }()
						c := &contest{server: server, admin: admin}
						reason := c.run(t, p, fmt.Sprintf("/locks/deleted/%d", trial), framework.SessionErrorPolicy, true,
							func(t *testing.T, c *contest) { require.NoError(t, c.admin.Delete(zktest.Context(t), c.lease.Path())) })
						if reason != framework.ReasonNodeDeleted {
							t.Errorf("deleted, trial %d: lost because %q", trial, reason)
						}
					})
					if server.Name() == "zkserver" || trial >= cutOff {
						continue
					}
					wg.Go(func() {
						c := &contest{server: server, admin: admin}
						reason := c.run(t, p, fmt.Sprintf("/locks/cut/%d", trial), framework.SessionErrorPolicy, false,
							func(_ *testing.T, c *contest) { c.link.Blackhole(zkproxy.ToServer) })
						if reason != framework.ReasonLeaseEnd {
							t.Errorf("cut off, trial %d: lost because %q", trial, reason)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// After a loss, the same mutex works again, and the lost node does not stay.
//
// See client-go#1155 and kuberhealthy#1533.
func TestLeaseAcquireAgainAfterALoss(t *testing.T) {
	tryInTurn(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		before := server.Counts(t)
		client, proxy := zktest.ClientViaProxy(t, server)
		before.Sessions++
		m := newMutex(t, client, "/locks/again")
		lease := acquire(t, m)
		proxy.Cut()
		require.NoError(t, client.Sync(zktest.Context(t), "/")) // over another connection
		var lost *locks.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, framework.ReasonSuspended, lost.Reason)

		next := acquire(t, m)
		require.Greater(t, next.Token(), lease.Token())
		require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
		require.NoError(t, next.Err(), "the release of the lost lease does not touch the next")
		release(t, next)
		server.AwaitCounts(t, before, limit)
	})
}

// Under the session policy a short interruption costs nothing, and what happened
// to the node meanwhile is found out.
func TestLeaseSessionPolicySurvivesAnInterruption(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		client, proxy := zktest.ClientViaProxy(t, server)
		admin := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/through", locks.WithErrorPolicy(framework.SessionErrorPolicy))
		lease := acquire(t, m)

		states := make(chan framework.ConnectionState, 10)
		defer client.OnConnectionState(func(s framework.ConnectionState) { states <- s }).Remove()
		proxy.Cut()
		for _, want := range []framework.ConnectionState{framework.Suspended, framework.Reconnected} {
			select {
			case got := <-states:
				require.Equal(t, want, got)
			case <-time.After(limit):
				t.Fatalf("%v has not come", want)
			}
		}
		require.NoError(t, lease.Err())
		_, err := lease.Transact(zktest.Context(t), framework.CheckOp("/", framework.AnyVersion))
		require.NoError(t, err)

		// While the link is cut the node is deleted: no watch can tell.
		proxy.Refuse(true)
		proxy.Cut()
		require.Equal(t, framework.Suspended, <-states)
		require.NoError(t, admin.Delete(zktest.Context(t), lease.Path()))
		require.NoError(t, lease.Err())
		proxy.Refuse(false)
		awaitDone(t, lease.Done(), "the loss")
		var lost *locks.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, framework.ReasonNodeDeleted, lost.Reason)
	})
}

// TestLeasePolicyOfOnesOwn: a listener ends holds after an interruption of two seconds, long before the deadline.
func TestLeasePolicyOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithErrorPolicy(framework.SessionErrorPolicy))
		lease := acquire(t, newMutex(t, client, "/locks/own"))
		released := make(chan error, 10)
		interrupt := func(d time.Duration) {
			patience := new(time.Timer)
			defer client.OnConnectionState(func(s framework.ConnectionState) {
				if s == framework.Suspended {
					patience = time.AfterFunc(2*time.Second, func() { released <- lease.Release(t.Context()) })
				} else {
					patience.Stop()
				}
			}).Remove()
			allow := server.Refuse()
			server.Cut(client.Session().ID(), 1)
			time.Sleep(d)
			allow()
			time.Sleep(time.Minute)
		}
		interrupt(time.Second)
		require.NoError(t, lease.Err())
		began := time.Now()
		go func() {
			<-lease.Done()
			released <- nil
			if held := time.Since(began); held < 2*time.Second || held > 3*time.Second {
				t.Errorf("the hold has lasted for %v of the interruption, expected two seconds", held)
			}
		}()
		interrupt(4 * time.Second)
		require.NoError(t, zktest.Await(t, released, "the end"))
		require.NoError(t, zktest.Await(t, released, "the release"))
	})
}

// A waiter keeps its place through an interruption.
//
// See kazoo#170.
func TestLeaseWaiterSurvivesAnInterruption(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		server.Requires(t, ensemble.ResumedSessions)
		holder := newMutex(t, zktest.Client(t, server.ConnectString()), path)
		lease := acquire(t, holder)
		proxy := zktest.NewProxy(t, server.Addr())
		waiter := newMutex(t, zktest.Client(t, server.ConnectStringVia(proxy.Addr())), path)
		result := acquireLater(zktest.Context(t), waiter)
		place := awaitQueue(t, holder, 2)[1]
		proxy.Cut()
		later := acquireLater(zktest.Context(t), holder)
		awaitQueue(t, holder, 3)
		release(t, lease)
		o := await(t, result)
		require.NoError(t, o.err)
		require.Equal(t, place.Token, o.lease.Token())
		release(t, o.lease)
		o = await(t, later)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// A waiter whose node, or whose session, is taken away joins the queue again.
func TestLeaseWaiterJoinsTheQueueAgain(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		admin := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, admin, path)
		lease := acquire(t, holder)
		client := zktest.Client(t, server.ConnectString())
		result := acquireLater(zktest.Context(t), newMutex(t, client, path))

		first := awaitQueue(t, holder, 2)[1]
		require.NoError(t, admin.Delete(zktest.Context(t), first.Path))
		second := awaitOther(t, holder, first)
		zktest.KillSession(t, client, server.Addr())
		third := awaitOther(t, holder, second)
		require.Greater(t, third.Token, second.Token)
		require.NotEqual(t, second.Session, third.Session)

		release(t, lease)
		o := await(t, result)
		require.NoError(t, o.err)
		require.Equal(t, third.Token, o.lease.Token())
		require.Equal(t, client.Session().ID(), third.Session)
		release(t, o.lease)
	})
}

// awaitOther waits until the second in the queue is another node than before.
func awaitOther(t *testing.T, m queue, before locks.Participant) locks.Participant {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if queue := awaitQueue(t, m, 2); queue[1].Path != before.Path {
			return queue[1]
		}
	}
	t.Fatalf("the waiter has not joined the queue again")
	return locks.Participant{}
}

func TestLeaseClosingTheClientEndsItsHolds(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/close")
		lease := acquire(t, m)
		waiting := acquireLater(zktest.Context(t), m)
		awaitQueue(t, m, 2)
		require.NoError(t, client.Close())
		var lost *locks.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, framework.ReasonClosed, lost.Reason)
		require.ErrorIs(t, await(t, waiting).err, framework.ErrClosed)
		require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
		release(t, acquire(t, newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/close")))
	})
}

func TestLeaseDroppedLeaseIsReported(t *testing.T) {
	server := zktest.NewServer(t)
	reports := &reportWriter{lines: make(chan string, 100)}
	client := zktest.Client(t, server.Addr(),
		framework.WithLogger(slog.New(slog.NewTextHandler(reports, &slog.HandlerOptions{Level: slog.LevelError}))))
	m := newMutex(t, client, "/locks/dropped")
	func() {
		lease := acquire(t, m)
		require.NoError(t, lease.Err())
	}()
	path := awaitQueue(t, m, 1)[0].Path
	deadline := time.After(limit)
	for {
		runtime.GC()
		select {
		case line := <-reports.lines:
			require.Contains(t, line, "curator.path="+path)
			require.Contains(t, line, "dropped before its release")
			return
		case <-deadline:
			t.Fatal("the dropped lease was not reported")
		case <-time.After(time.Millisecond):
		}
	}
}

type reportWriter struct{ lines chan string }

var _ io.Writer = (*reportWriter)(nil)

func (w *reportWriter) Write(line []byte) (int, error) {
	w.lines <- strings.TrimSpace(string(line))
	return len(line), nil
}
