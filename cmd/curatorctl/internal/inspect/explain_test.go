// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// scene is where a situation is made.
type scene struct {
	*testing.T
	server zktest.Backend
	client *framework.Framework
}

// other returns another client, and the proxy through which it is connected.
func (s scene) other() (*framework.Framework, *zkproxy.Proxy) {
	return zktest.ClientViaProxy(s.T, s.server, framework.WithSessionTimeout(6*time.Second))
}

func (s scene) mutex(client *framework.Framework, label string) *locks.InterProcessMutex {
	m := must.Get(locks.NewInterProcessMutex(client, at, locks.WithLabel(label), locks.WithoutReentry(), locks.WithQueuePlaces(0)))(s)
	return m
}

func (s scene) readWrite() *locks.InterProcessReadWriteLock {
	rw := must.Get(locks.NewInterProcessReadWriteLock(s.client, at))(s)
	return rw
}

func (s scene) semaphore(n int) *locks.InterProcessSemaphoreV2 {
	sem := must.Get(locks.NewInterProcessSemaphoreV2(s.client, at, locks.FixedLeases(n)))(s)
	return sem
}

// until waits for so many children.
func (s scene) until(path string, n int) { awaitChildren(s.T, s.client, path, n) }

// kill ends the connections through a proxy as the end of a process does, until the test ends.
func (s scene) kill(proxy *zkproxy.Proxy) {
	proxy.Refuse(true)
	proxy.Cut()
	s.Cleanup(func() { proxy.Refuse(false) })
}

// pause holds everything up, as in a process that is stopped.
func (s scene) pause(proxy *zkproxy.Proxy) {
	proxy.Pause(true)
	s.Cleanup(func() { proxy.Pause(false) })
}

// gone holds a lock with a client that is about to be killed or paused.
func (s scene) gone(lock locks.InterProcessLock) {
	lease := must.Get(lock.Acquire(zktest.Context(s.T)))(s)
	s.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost by then
}

// foreign creates a znode that is named like no contender of a library.
func (s scene) foreign(mode framework.CreateMode, path string) {
	putAs(s.T, s.client, mode, path)
}

// situation is a state of one recipe, and what is to be said of it.
type situation struct {
	name    string
	make    func(s scene)
	opts    []inspect.Option
	reason  inspect.Reason
	trouble bool
	node    string   // that a part of the path of the node is
	says    []string // parts of the text
	advice  string   // a part of the first command
}

const at = "/locks/report"

var situations = []situation{
	{name: "no contender", make: func(s scene) { s.foreign(framework.Persistent, at) }, reason: inspect.ReasonFree},
	{
		name: "one holder", reason: inspect.ReasonHeld, says: []string{"a mutex: 1 hold, 0 wait", "nightly (", "with the token", "is connected from", "No client waits"},
		make: func(s scene) { hold(s.T, s.mutex(s.client, "nightly")) },
	},
	{
		name: "a waiter behind a holder that is alive", reason: inspect.ReasonTurn, says: []string{"1 hold, 2 wait", "second (", "third (", " waits for ", "when the holder releases it"},
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			for n, label := range []string{"second", "third"} {
				contend(s.T, s.mutex(s.client, label))
				s.until(at, n+2)
			}
		},
	},
	{
		name: "more waiters than are named", reason: inspect.ReasonTurn, says: []string{"1 hold, 8 wait", " 3 more wait."},
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			for n := range 8 {
				contend(s.T, s.mutex(s.client, "more"))
				s.until(at, n+2)
			}
		},
	},
	{
		name: "a holder that overstays", reason: inspect.ReasonOverstays, trouble: true, opts: []inspect.Option{inspect.LongerThan(time.Millisecond)},
		says: []string{"has waited for longer than 1ms", "forgotten the release"}, advice: "curatorctl lock revoke -yes " + at,
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
		},
	},
	{
		name: "a wait that is not too long", reason: inspect.ReasonTurn, opts: []inspect.Option{inspect.LongerThan(time.Hour)},
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
		},
	},
	{
		name: "a holder that was asked to give way", reason: inspect.ReasonAsked, trouble: true, opts: []inspect.Option{inspect.LongerThan(time.Millisecond)},
		says: []string{"(asked to give way) holds it", "It was asked to give way, and has not."},
		make: func(s scene) {
			lease := hold(s.T, s.mutex(s.client, "first"))
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
			require.NoError(s, locks.AttemptRevoke(s.Context(), s.client, lease.Path()))
		},
	},
	{
		name: "a holder whose process is paused", reason: inspect.ReasonSilent, trouble: true, node: "0000000000",
		says: []string{"The client of stopped (", "has not been heard for", "of its timeout of 6s", "Its node goes by itself"}, advice: "curatorctl lock break -yes -token ",
		make: func(s scene) {
			client, proxy := s.other()
			s.gone(s.mutex(client, "stopped"))
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
			s.pause(proxy)
		},
	},
	{
		name: "a holder that was killed", reason: inspect.ReasonLost, trouble: true, node: "0000000000",
		says: []string{"The client of killed (", "has no connection to any server", "expires, in "}, advice: "curatorctl lock break -yes -token ",
		make: func(s scene) {
			client, proxy := s.other()
			s.gone(s.mutex(client, "killed"))
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
			s.kill(proxy)
		},
	},
	{
		name: "a killed holder that no client waits for", reason: inspect.ReasonLost, trouble: true,
		make: func(s scene) {
			client, proxy := s.other()
			s.gone(s.mutex(client, "killed"))
			s.kill(proxy)
		},
	},
	{
		name: "a first waiter that was killed", reason: inspect.ReasonLost, trouble: true, node: "0000000001", says: []string{"When the turn of killed (", "1 hold, 2 wait"},
		make: func(s scene) {
			client, proxy := s.other()
			hold(s.T, s.mutex(s.client, "first"))
			ctx, stop := context.WithCancel(s.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.mutex(client, "killed").Acquire(ctx)
				done <- err
			}()
			s.Cleanup(func() {
				stop()
				require.Error(s, <-done)
			})
			s.until(at, 2)
			contend(s.T, s.mutex(s.client, "third"))
			s.until(at, 3)
			s.kill(proxy)
		},
	},
	{
		name: "a znode made by hand is first", reason: inspect.ReasonForeign, trouble: true, node: at + "/my-lock-0000000000",
		says: []string{"is no contender, but its name ends like one, so second (", "It belongs to no session"}, advice: "curatorctl rm " + at + "/my-lock-0000000000",
		make: func(s scene) {
			s.foreign(framework.Persistent, at+"/my-lock-0000000000")
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
		},
	},
	{
		name: "a znode of a contender that was made persistent", reason: inspect.ReasonForeign, trouble: true, node: dashed,
		make: func(s scene) {
			s.foreign(framework.Persistent, at+"/_c_"+dashed+"-lock-0000000000")
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
		},
	},
	{
		name: "a znode made by hand among the waiters", reason: inspect.ReasonForeign, trouble: true, node: "/my-lock-0000000001", says: []string{"so third ("},
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			s.foreign(framework.Persistent, at+"/my-lock-0000000001")
			s.until(at, 2)
			contend(s.T, s.mutex(s.client, "third"))
			s.until(at, 3)
		},
	},
	{
		name: "an ephemeral contender of an unknown library", reason: inspect.ReasonForeign, node: "/my-lock-0000000000", says: []string{"It belongs to session 0x"},
		make: func(s scene) {
			s.foreign(framework.Ephemeral, at+"/my-lock-0000000000")
			contend(s.T, s.mutex(s.client, "second"))
			s.until(at, 2)
		},
	},
	{
		name: "a child that is in no contender's way", reason: inspect.ReasonHeld,
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			s.foreign(framework.Persistent, at+"/README")
		},
	},
	{
		name: "a mutex and a read/write lock on one path", reason: inspect.ReasonMixed, trouble: true, says: []string{"as mutex and as read-write at the same time"},
		make: func(s scene) {
			hold(s.T, s.mutex(s.client, "first"))
			hold(s.T, s.readWrite().WriteLock())
		},
	},
	{
		name: "a holder that may not be read", reason: inspect.ReasonUnreadable, trouble: true, advice: "curatorctl acl ",
		make: func(s scene) {
			lease := hold(s.T, s.mutex(s.client, "first"))
			require.NoError(s, s.client.SetACL(s.Context(), lease.Path(), []framework.ACL{{Perms: framework.PermAdmin, Scheme: "world", ID: "anyone"}}))
		},
	},
	{
		name: "a writer behind readers", reason: inspect.ReasonTurn, says: []string{"a read/write lock: 2 hold, 1 wait"},
		make: func(s scene) {
			hold(s.T, s.readWrite().ReadLock())
			hold(s.T, s.readWrite().ReadLock())
			contend(s.T, s.readWrite().WriteLock())
			s.until(at, 3)
		},
	},
	{
		name: "readers behind a writer", reason: inspect.ReasonWriter, node: "__WRIT__", says: []string{"1 hold, 2 wait", "wait behind that writer"},
		make: func(s scene) {
			hold(s.T, s.readWrite().ReadLock())
			contend(s.T, s.readWrite().WriteLock())
			s.until(at, 2)
			contend(s.T, s.readWrite().ReadLock())
			s.until(at, 3)
		},
	},
	{
		name: "a reader behind a writer that holds", reason: inspect.ReasonTurn,
		make: func(s scene) {
			hold(s.T, s.readWrite().WriteLock())
			contend(s.T, s.readWrite().ReadLock())
			s.until(at, 2)
		},
	},
	{
		name: "permits that are left", reason: inspect.ReasonHeld, says: []string{"a semaphore: 1 hold, 0 wait"},
		make: func(s scene) { hold(s.T, s.semaphore(2)) },
	},
	{
		name: "permits that one session has not given back", reason: inspect.ReasonLimit, says: []string{"2 hold, 2 wait, at most 2 hold", "has 2 of them"},
		make: func(s scene) {
			hold(s.T, s.semaphore(2))
			hold(s.T, s.semaphore(2))
			contend(s.T, s.semaphore(2))
			s.until(at+"/leases", 3)
			contend(s.T, s.semaphore(2))
			s.until(at+"/locks", 2)
		},
	},
	{
		name: "a znode among the permits", reason: inspect.ReasonForeign, trouble: true, node: "/leases/mine", advice: "curatorctl rm " + at + "/leases/mine",
		make: func(s scene) {
			hold(s.T, s.semaphore(1))
			contend(s.T, s.semaphore(1))
			s.until(at+"/leases", 2)
			s.foreign(framework.Persistent, at+"/leases/mine")
		},
	},
	{
		name: "a permit of a client that was killed", reason: inspect.ReasonLost, trouble: true,
		make: func(s scene) {
			client, proxy := s.other()
			sem := must.Get(locks.NewInterProcessSemaphoreV2(client, at, locks.FixedLeases(1), locks.WithLabel("killed")))(s)
			s.gone(sem)
			contend(s.T, s.semaphore(1))
			s.until(at+"/leases", 2)
			s.kill(proxy)
		},
	},
	{
		name: "candidates behind a leader", reason: inspect.ReasonTurn, opts: []inspect.Option{inspect.LongerThan(time.Millisecond)},
		says: []string{"Candidates wait for as long as the leader lives"},
		make: func(s scene) {
			for n := range 3 {
				latch := must.Get(leader.NewLeaderLatch(s.client, at))(s)
				require.NoError(s, latch.Start())
				s.Cleanup(func() { require.NoError(s, latch.Close()) })
				s.until(at, n+1)
			}
		},
	},
	{
		name: "a leader that is cut off", reason: inspect.ReasonSilent, trouble: true,
		make: func(s scene) {
			client, proxy := s.other()
			for n, of := range []*framework.Framework{client, s.client} {
				latch := must.Get(leader.NewLeaderLatch(of, at))(s)
				require.NoError(s, latch.Start())
				s.Cleanup(func() { require.NoError(s, latch.Close()) })
				s.until(at, n+1)
			}
			s.pause(proxy)
		},
	},
	{
		name: "contenders of kazoo", reason: inspect.ReasonTurn, says: []string{"a lock of kazoo: 1 hold, 1 wait"},
		make: func(s scene) {
			s.foreign(framework.Ephemeral, at+"/"+plain+"__lock__0000000001")
			s.foreign(framework.Ephemeral, at+"/"+strings.Repeat("1", 32)+"__lock__0000000002")
		},
	},
	{
		name: "a queue", reason: inspect.ReasonOther, says: []string{"a queue. It is no lock."},
		make: func(s scene) {
			require.NoError(s, must.Get(queues.NewSimpleDistributedQueue(s.client, at))(s).Offer(s.Context(), []byte("work")))
		},
	},
	{
		name: "a barrier", reason: inspect.ReasonOther, says: []string{"a double barrier: 1 hold, 0 wait. It is no lock."},
		make: func(s scene) {
			barrier := must.Get(barriers.NewDistributedDoubleBarrier(s.client, at, 1))(s)
			require.NoError(s, barrier.Enter(s.Context()))
			s.Cleanup(func() { require.NoError(s, barrier.Leave(context.Background())) })
		},
	},
	{
		name: "a partition whose function does not return", reason: inspect.ReasonAsked, trouble: true, node: at + "/locks/",
		opts: []inspect.Option{inspect.LongerThan(time.Millisecond)}, advice: "curatorctl lock break -yes -token ",
		make: func(s scene) {
			ctx, stop := context.WithCancel(s.Context())
			started, done := make(chan string, 4), make(chan error, 2)
			s.Cleanup(func() {
				stop()
				for range 2 {
					require.ErrorIs(s, <-done, context.Canceled)
				}
			})
			for i := range 2 {
				member := must.Get(partition.New(s.client, at, partition.Fixed("a", "b"), partition.WithID(fmt.Sprint("m", i))))(s)
				go func() {
					done <- member.Run(ctx, func(_ context.Context, p partition.Partition) error {
						started <- p.Name
						<-ctx.Done() // and not when the partition is asked for
						return nil
					})
				}()
				for range 2 * (1 - i) {
					zktest.Await(s.T, started, "a partition")
				}
			}
		},
	},
}

// deadlock is a lock that is part of a cycle of so many clients.
func deadlock(n int) situation {
	return situation{
		name: fmt.Sprint("a deadlock of ", n), reason: inspect.ReasonDeadlock, trouble: true, node: at + "/", opts: []inspect.Option{inspect.WithDeadlocks("/")},
		says: []string{"1 hold, 1 wait", fmt.Sprintf("It does not go on by itself: %d clients wait for each other:", n)}, advice: "curatorctl lock revoke -yes " + at,
		make: func(s scene) {
			crossed(s.T, s.server, n, func(client *framework.Framework, _, of int) locks.InterProcessLock {
				m := must.Get(locks.NewInterProcessMutex(client, append([]string{at}, pathOf(1), pathOf(2), pathOf(3), pathOf(4))[of]))(s)
				return m
			})
			s.until(at, 2)
		},
	}
}

// deadlockOfReaders is a cycle of two clients that read, each of which waits to write what the other one reads.
var deadlockOfReaders = situation{
	name: "a deadlock of readers and writers", reason: inspect.ReasonDeadlock, trouble: true, node: at + "/", opts: []inspect.Option{inspect.WithDeadlocks("/")},
	says: []string{"a read/write lock: 1 hold, 1 wait", "2 clients wait for each other:"}, advice: "curatorctl lock revoke -yes " + at,
	make: func(s scene) {
		crossed(s.T, s.server, 2, func(client *framework.Framework, i, of int) locks.InterProcessLock {
			rw := must.Get(locks.NewInterProcessReadWriteLock(client, append([]string{at}, pathOf(1))[of]))(s)
			if i == of {
				return rw.ReadLock()
			}
			return rw.WriteLock()
		})
		s.until(at, 2)
	},
}

// TestExplainSituations makes each situation, and compares what is said of it.
func TestExplainSituations(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat([]situation{deadlock(2), deadlock(5), deadlockOfReaders}, situations, slotSituations) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				s := scene{t, server, zktest.Client(t, server)}
				test.make(s)
				check(t, test, awaitFinding(t, s.client, test))
			})
		})
	}
}

// awaitFinding explains until there is a finding with the reason.
func awaitFinding(t *testing.T, client *framework.Framework, test situation) inspect.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // of which a session takes 6
	defer cancel()
	for {
		e := must.Get(inspect.Explain(ctx, client, at, test.opts...))(t)
		require.Empty(t, e.Unknown)
		for _, f := range e.Findings {
			if f.Reason == test.reason {
				for _, other := range e.Findings {
					require.True(t, test.trouble || !other.Trouble && other.Unknown == "", "%v", e)
				}
				return f
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("want a finding %q, got\n%v", test.reason, e)
		}
	}
}

func check(t *testing.T, test situation, f inspect.Finding) {
	t.Helper()
	require.Equal(t, test.trouble, f.Trouble, f.Text)
	require.Contains(t, f.Node, test.node)
	for _, part := range test.says {
		require.Contains(t, f.Text, part)
	}
	if !test.trouble {
		require.Empty(t, test.advice)
		require.Empty(t, slices.DeleteFunc(f.Advice, func(a inspect.Advice) bool { return !strings.Contains(a.Command, " lock ") }))
		return
	}
	if test.reason != inspect.ReasonMixed {
		require.NotEmpty(t, f.Advice)
		require.Contains(t, f.Advice[0].Command, test.advice)
		require.NotEmpty(t, f.Advice[0].Risk)
	}
}

// TestExplainJSON has what scripts need.
func TestExplainJSON(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	s := scene{t, zktest.Backend{}, client}
	lease := hold(t, s.mutex(client, "first"))
	e := must.Get(inspect.Explain(t.Context(), client, at))(t)
	text := must.Get(json.Marshal(e))(t)
	var back struct {
		Path     string
		Findings []struct {
			Path, Kind, Reason, Node, Text string
			Trouble                        bool
		}
		Recipes  []inspect.Recipe
		Sessions map[string]struct {
			Client  string
			Timeout int
		}
	}
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, at, back.Path)
	require.Equal(t, []string{at, "mutex", "held", lease.Path()}, []string{back.Findings[0].Path, back.Findings[0].Kind, back.Findings[0].Reason, back.Findings[0].Node})
	require.Equal(t, lease.Token(), back.Recipes[0].Participants[0].Token)
	session := back.Sessions[client.Session().String()]
	require.NotEmpty(t, session.Client)
	require.Equal(t, 30_000, session.Timeout)
}

// TestExplainWithoutWords: servers that do not tell of their sessions leave the rest.
func TestExplainWithoutWords(t *testing.T) {
	var deaf atomic.Bool
	client := zktest.Client(t, zktest.NewServer(t), framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if deaf.Load() {
			return nil, errors.New("no word is answered")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}))
	s := scene{t, zktest.Backend{}, client}
	hold(t, s.mutex(client, "first"))
	deaf.Store(true)
	e := must.Get(inspect.Explain(t.Context(), client, at))(t)
	require.Equal(t, inspect.ReasonUnknown, e.Findings[0].Reason)
	require.Equal(t, inspect.Unknown, e.Answer)
	require.Contains(t, e.Unknown, "no word is answered")
	require.Contains(t, e.String(), "\nNot known: whether the client of first ")
}

// TestExplainGrantInFlight is no semaphore without permits, until the client has had the time to learn of it.
func TestExplainGrantInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		putAs(t, client, framework.Ephemeral, at+"/locks/_c_"+dashed+"-lock-0000000000", at+"/leases/_c_"+dashed+"-lease-0000000000")
		for _, want := range []inspect.Reason{inspect.ReasonTurn, inspect.ReasonPaused} {
			e := must.Get(inspect.Explain(t.Context(), client, at))(t)
			require.Equal(t, want, e.Findings[0].Reason)
			require.Equal(t, want == inspect.ReasonPaused, e.Trouble())
			time.Sleep(31 * time.Second)
		}
	})
}

// TestExplainContenderThatLeavesDuringTheLook is no znode that keeps others out.
func TestExplainContenderThatLeavesDuringTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		holder, client := zktest.Client(t, server), zktest.Client(t, server)
		s := scene{t, zktest.Backend{}, client}
		lease := must.Get(s.mutex(holder, "first").Acquire(t.Context()))(t)
		contend(t, s.mutex(holder, "second"))
		s.until(at, 2)
		left := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && (r.Path == lease.Path() || slices.Contains(r.Reads, lease.Path())) {
				return zkserver.HoldUntil(left)
			}
			return zkserver.Pass
		})
		said := explaining(t, client)
		synctest.Wait() // it has listed the queue
		require.NoError(t, lease.Release(t.Context()))
		close(left)
		e := <-said
		require.Equal(t, inspect.ReasonTurn, e.Findings[0].Reason)
		require.Len(t, e.Findings, 1)
	})
}

// explaining begins to explain, and returns what will be said.
func explaining(t *testing.T, client *framework.Framework) <-chan inspect.Explanation {
	t.Helper()
	said := make(chan inspect.Explanation)
	go func() {
		e, err := inspect.Explain(t.Context(), client, at)
		assert.NoError(t, err)
		said <- e
	}()
	return said
}

// TestExplainContenderThatComesDuringTheLook has a session of which the servers were not asked yet, so they are asked again.
func TestExplainContenderThatComesDuringTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		come := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && (r.Path == at || slices.Contains(r.Reads, at)) {
				return zkserver.HoldUntil(come)
			}
			return zkserver.Pass
		})
		said := explaining(t, client)
		synctest.Wait() // it has asked for the sessions, and lists the queue
		s := scene{t, zktest.Backend{}, zktest.Client(t, server)}
		hold(t, s.mutex(s.client, "first"))
		contend(t, s.mutex(s.client, "second"))
		s.until(at, 2)
		close(come)
		e := <-said
		require.Equal(t, inspect.ReasonTurn, e.Findings[0].Reason)
		require.Equal(t, inspect.No, e.Answer)
	})
}

// TestExplainServersThatAreNotAsked may have the connection of a client that seems to have none.
func TestExplainServersThatAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		holder, client := zktest.Client(t, server), zktest.Client(t, server, framework.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := server.Dial(ctx, "tcp", "")
			return &oneOfTwo{Conn: conn}, err
		}))
		s := scene{t, zktest.Backend{}, client}
		hold(t, s.mutex(holder, "first"))
		e := must.Get(inspect.Explain(t.Context(), client, at))(t)
		require.Contains(t, e.String(), "no connection at the servers asked")
		require.Equal(t, inspect.Unknown, e.Answer, "%v", e)
	})
}

// oneOfTwo is a connection to a server that has no client, and says that there is another server.
type oneOfTwo struct {
	net.Conn

	answer io.Reader
}

func (c *oneOfTwo) Write(p []byte) (int, error) {
	switch string(p) {
	case "cons":
		c.answer = strings.NewReader("\n")
	case "conf":
		c.answer = strings.NewReader("serverId=1\nquorumPort=2888\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n")
	default:
		return c.Conn.Write(p)
	}
	return len(p), nil
}

func (c *oneOfTwo) Read(p []byte) (int, error) {
	if c.answer != nil {
		return c.answer.Read(p)
	}
	return c.Conn.Read(p)
}
