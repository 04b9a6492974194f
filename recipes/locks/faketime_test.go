// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestLeaseHolderKnowsFirstOnFakeTime takes the holder's session away in every way in
// which a network can, at random moments of its life, and checks at the moment at
// which the rival's Acquire returns that the holder has been told. Client and server
// share a fake clock, so that no busy machine can hide or feign a loss that comes
// late. (While only replies are lost, the reconnecting client keeps its session.)
//
// See etcd#10811, CURATOR-206, redisson#3636 and consul#18271.
func TestLeaseHolderKnowsFirstOnFakeTime(t *testing.T) {
	t.Parallel()
	random := seeds.New(t)
	try := func(name string, test lossByTime) {
		t.Run(fmt.Sprintf("%s, %v", name, test.policy), func(t *testing.T) {
			for range trials() {
				phase := time.Duration(random.Int64N(int64(20 * time.Second)))
				synctest.Test(t, func(t *testing.T) { test.run(t, phase) })
			}
		})
	}
	silence, lostRequests := blackhole(zkserver.Both), blackhole(zkserver.ToServer)
	standard, session, quorum := framework.StandardErrorPolicy, framework.SessionErrorPolicy, framework.QuorumErrorPolicy
	try("silence", lossByTime{mutexes, standard, silence, framework.ReasonSuspended})
	try("silence", lossByTime{mutexes, session, silence, framework.ReasonLeaseEnd})
	try("silence", lossByTime{mutexes, quorum, silence, framework.ReasonLeaseEnd})
	try("requests lost", lossByTime{mutexes, standard, lostRequests, framework.ReasonSuspended})
	try("requests lost", lossByTime{mutexes, session, lostRequests, framework.ReasonLeaseEnd})
	try("follower cut off", lossByTime{mutexes, quorum, cutOff, framework.ReasonLeaseEnd})
	for _, p := range slices.Concat(pairings, []pairing{handoffs, alone("first semaphore"), alone("semaphore mutex")}) {
		try(p.name, lossByTime{p, standard, silence, framework.ReasonSuspended})
		try(p.name, lossByTime{p, session, lostRequests, framework.ReasonLeaseEnd})
		try(p.name, lossByTime{p, quorum, cutOff, framework.ReasonLeaseEnd})
	}
}

// handoffs are mutexes that are passed on within the process, of which the rival is not a part.
var handoffs = pairing{
	"mutex with local handoff",
	func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
		t.Helper()
		m := newMutex(t, client, path, append(opts, locks.WithLocalHandoff(10))...)
		first := acquire(t, m)
		second := acquireLater(zktest.Context(t), m)
		synctest.Wait() // it waits for the first
		release(t, first)
		o := await(t, second)
		require.NoError(t, o.err)
		require.Equal(t, first.Path(), o.lease.Path(), "handed on")
		return o.lease
	},
	mutexes.rival,
}

// alone is a lock of one of the exclusive kinds, and a rival of the same kind.
func alone(kind string) pairing {
	open := func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) contended {
		t.Helper()
		lock, ok := exclusive[kind](t, client, path, opts...).(contended)
		require.True(t, ok)
		return lock
	}
	return pairing{
		kind,
		func(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
			t.Helper()
			return acquire(t, open(t, client, path, opts...))
		},
		func(t *testing.T, client *framework.Framework, path string) contended {
			t.Helper()
			return open(t, client, path)
		},
	}
}

// lossByTime is a hold that ends by the clock, of the client for its holder and of
// the server for the rival.
type lossByTime struct {
	pairing pairing
	policy  framework.ErrorPolicy
	trouble func(*zkserver.Server, int64) (heal func())
	reason  framework.LostReason
}

// run makes the trouble when holder and rival have lived for as long as phase says.
func (l lossByTime) run(t *testing.T, phase time.Duration) {
	server := zktest.NewServer(t, zkserver.WithoutListener())
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	holder := zktest.Client(t, server)
	lease := l.pairing.hold(t, holder, "/lock", locks.WithErrorPolicy(l.policy))
	work := lease.Context(context.Background())

	rival := l.pairing.rival(t, zktest.Client(t, server), "/lock")
	waiting, told := make(chan outcome, 1), make(chan error, 1)
	go func() {
		next, err := rival.Acquire(context.Background())
		told <- context.Cause(work) // at once, on the rival's own goroutine
		waiting <- outcome{next, err}
	}()
	time.Sleep(phase)
	synctest.Wait()
	require.NoError(t, lease.Err())
	heal := l.trouble(server, holder.Session().ID())
	defer heal()

	var lost *locks.LostError
	require.ErrorAs(t, <-told, &lost, "phase %v", phase)
	require.Equal(t, l.reason, lost.Reason, "phase %v", phase)
	next := <-waiting
	require.NoError(t, next.err)
	require.Greater(t, next.lease.Token(), lease.Token())
	release(t, next.lease)
	require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
}

func blackhole(d zkserver.Direction) func(*zkserver.Server, int64) func() {
	return func(server *zkserver.Server, session int64) (heal func()) { return server.Blackhole(session, d) }
}

// cutOff leaves the session with a follower that has lost its leader, and no other server in reach.
func cutOff(server *zkserver.Server, session int64) (heal func()) {
	rejoin, allow := server.CutOff(session), server.Refuse()
	return func() {
		rejoin()
		allow()
	}
}

// TestLeasePingsProveNothingAtAFollowerThatIsCutOff shows what QuorumErrorPolicy is for: the
// others let a holder go on although the rival has the lock.
func TestLeasePingsProveNothingAtAFollowerThatIsCutOff(t *testing.T) {
	for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				holder, rival := zktest.Client(t, server), zktest.Client(t, server)
				lease := acquire(t, newMutex(t, holder, "/lock", locks.WithErrorPolicy(policy)))
				waiting := acquireLater(context.Background(), newMutex(t, rival, "/lock"))
				synctest.Wait()
				rejoin := server.CutOff(holder.Session().ID())
				next := <-waiting
				require.NoError(t, next.err)
				require.NoError(t, lease.Err(), "two have it, by their own account")
				require.Greater(t, next.lease.Token(), lease.Token(), "but not by the token")
				rejoin()
				<-lease.Done()
				release(t, next.lease)
			})
		})
	}
}

// A holder that asks at its deadline, perhaps before the timer of the session has run, hears of
// a loss for good: the contexts of its lease have ended, and no reply can move the deadline on.
func TestLeaseLossByTheClockIsForGood(t *testing.T) {
	for _, policy := range []framework.ErrorPolicy{framework.SessionErrorPolicy, framework.QuorumErrorPolicy} {
		t.Run(policy.String(), func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) { testAskingAtTheDeadline(t, policy) })
			}
		})
	}
}

func testAskingAtTheDeadline(t *testing.T, policy framework.ErrorPolicy) {
	t.Helper()
	const holders = 20
	server := zktest.NewServer(t, zkserver.WithoutListener())
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	client := zktest.Client(t, server)
	leases := make([]*locks.Lease, holders)
	for i := range leases {
		leases[i] = acquire(t, newMutex(t, client, fmt.Sprintf("/lock-%d", i), locks.WithErrorPolicy(policy)))
	}
	synctest.Wait()
	heal := blackhole(zkserver.Both)(server, client.Session().ID())
	defer heal()
	deadline := client.Session().HoldDeadline(policy)
	var asking sync.WaitGroup
	for _, lease := range leases {
		asking.Go(func() {
			time.Sleep(time.Until(deadline))
			if lease.Err() == nil {
				t.Error("it is the deadline, and the lease is valid")
				return
			}
			select {
			case <-lease.Done():
			default:
				t.Error("Err tells of a loss, and the lease has not ended")
			}
		})
	}
	asking.Wait()
}
