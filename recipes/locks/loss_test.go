// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	fastReaping  = time.Millisecond
	trialsAtOnce = 10
)

// contest is one trial: a holder, and a rival that waits for the lock.
type contest struct {
	server zktest.Backend
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

// TestLeaseHolderKnowsFirst does to holders of every kind what a server tells them, and checks at the moment at
// which the rival's Acquire returns that the holder has been told. What ends a hold by the clock is in
// faketime_test.go, and in cutoff_test.go with real servers.
//
// See etcd#10811, CURATOR-206, redisson#3636 and consul#18271.
func TestLeaseHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	type trouble struct {
		name    string
		holds   pairing
		policy  framework.ErrorPolicy
		does    func(t *testing.T, c *contest)
		reasons []framework.LostReason
	}
	deleted := func(p pairing, policy framework.ErrorPolicy) trouble {
		return trouble{
			"node deleted by hand", p, policy,
			func(t *testing.T, c *contest) { require.NoError(t, c.admin.Delete(zktest.Context(t), c.lease.Path())) },
			[]framework.LostReason{framework.ReasonNodeDeleted},
		}
	}
	troubles := []trouble{
		{
			"session killed", mutexes, framework.StandardErrorPolicy,
			func(t *testing.T, c *contest) { zktest.KillSession(t, c.holder, c.server.Addr()) },
			// The second connection takes the session over, which ends the first.
			[]framework.LostReason{framework.ReasonSuspended, framework.ReasonNodeDeleted},
		},
		deleted(mutexes, framework.StandardErrorPolicy), deleted(mutexes, framework.SessionErrorPolicy),
	}
	for _, p := range pairings {
		troubles = append(troubles, deleted(p, framework.SessionErrorPolicy))
	}
	for _, test := range troubles {
		t.Run(fmt.Sprintf("%s, %s, %v", test.holds.name, test.name, test.policy), func(t *testing.T) {
			tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
				c := &contest{server: server, admin: zktest.Client(t, server.ConnectString())}
				require.Contains(t, test.reasons, c.run(t, test.holds, path, test.policy, test.does))
			})
		})
	}
}

// run returns the reason that the holder was given. The server tells holder and rival with one transaction. Who hears
// of it first is then up to their links, so the rival's is held up until the holder has been told.
func (c *contest) run(t *testing.T, p pairing, path string, policy framework.ErrorPolicy, trouble func(*testing.T, *contest)) framework.LostReason {
	t.Helper()
	seen := newObserved()
	c.holder = zktest.Client(t, c.server, seen.options()...)
	c.lease = p.hold(t, c.holder, path, locks.WithErrorPolicy(policy))
	work := c.lease.Context(context.Background())
	require.Eventually(t, func() bool { return seen.value(t, "watch.active{}") >= 1 }, limit, tick, "that it watches its node")

	client, link := zktest.ClientViaProxy(t, c.server)
	defer link.Pause(false)
	rival := p.rival(t, client, path)
	waiting := make(chan outcome, 1)
	told := make(chan error, 1)
	go func() {
		lease, err := rival.Acquire(zktest.Context(t))
		told <- context.Cause(work) // at once, on the rival's own goroutine
		waiting <- outcome{lease, err}
	}()
	awaitQueue(t, rival, 2)
	link.Pause(true)
	trouble(t, c)
	awaitDone(t, work.Done(), "the end of the holder's context")
	link.Pause(false)

	o := await(t, waiting)
	require.NoError(t, o.err)
	var lost *locks.LostError
	require.ErrorAs(t, <-told, &lost, "the rival has the lock")
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
			reader := must.Get(rw.ReadLock().Acquire(writer.Context(zktest.Context(t))))(t)
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
		lost := must.As[*locks.LostError](t, lease.Err())
		require.Equal(t, framework.ReasonSuspended, lost.Reason)

		next := acquire(t, m)
		require.Greater(t, next.Token(), lease.Token())
		require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
		require.NoError(t, next.Err(), "the release of the lost lease does not touch the next")
		release(t, next)
		server.AwaitCounts(t, before, limit)
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

// TestLeaseWaiterKeepsItsPlaceWhenALookFails, and the retry policy gives up.
func TestLeaseWaiterKeepsItsPlaceWhenALookFails(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		client := zktest.Client(t, w.server, framework.WithRetryPolicy(retry.None()))
		holder := newMutex(t, w.holder, "/lock")
		lease := acquire(t, holder)
		result := acquireLater(context.Background(), newMutex(t, client, "/lock"))
		place := awaitQueue(t, holder, 2)[1]
		time.Sleep(time.Minute)
		w.server.Intercept(zkserver.Nth(1, zkserver.OpGetChildren2, zkserver.LoseReply))
		release(t, lease)
		o := await(t, result)
		require.NoError(t, o.err)
		require.Equal(t, place.Path, o.lease.Path())
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

		second := awaitQueue(t, holder, 2)[1]
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
