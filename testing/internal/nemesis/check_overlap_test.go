// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

var (
	mutexSpec     = lockSpec{Name: "mutex-s", Workload: "mutex"}
	readWriteSpec = lockSpec{Name: "readwrite-s", Workload: "readwrite"}
	semaphoreSpec = lockSpec{Name: "semaphore-s", Workload: "semaphore", Permits: 2}
	handoffSpec   = lockSpec{Name: "handoff-s", Workload: "handoff"}
	reentrantSpec = lockSpec{Name: "reentrant-s", Workload: "reentrant"}
)

// asReader makes the hold a reader's.
func asReader(e *event) { e.Shared, e.Node = true, node("readwrite-s", "__READ__", int(e.Token)) }

func ownedBy(owner string, token int64) func(*event) {
	return func(e *event) { e.Owner, e.Token = owner, token }
}

func TestCheckOverlapOverlaps(t *testing.T) {
	t.Parallel()
	kept(t, overlaps, goodPlan())
	kept(t, overlaps, only(mutexSpec, nil, take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 10, 15)))
	text := broken(t, overlaps, noOverlap, only(mutexSpec, []faultRecord{{Fault: "N4", Name: "cut", Start: at(3), End: at(8)}},
		take("a", "mutex-s", 1, 5, 10), take("b", "mutex-s", 2, 9, 15)))
	require.Contains(t, text, "mutex-s is held twice for 1ms")
	require.Contains(t, text, "hold a/mutex-s/1#0")
	require.Contains(t, text, "0.003000s to 0.008000s: N4 cut")

	// The third one overlaps with the first, though the second ends between them.
	long := take("a", "reentrant-s", 1, 5, 30)
	again := change(take("a", "reentrant-s", 2, 8, 10), ownedBy(long[1].Owner, 1))
	kept(t, overlaps, only(reentrantSpec, nil, long, again))
	broken(t, overlaps, noOverlap, only(reentrantSpec, nil, long, again, take("b", "reentrant-s", 3, 20, 25)))
	broken(t, overlaps, noOverlap, only(reentrantSpec, nil, long, change(take("a", "reentrant-s", 2, 8, 10), ownedBy(long[1].Owner, 2))))
}

func TestCheckOverlapReadersAreTogether(t *testing.T) {
	t.Parallel()
	reader := func(client string, token int, from, to int64) []event {
		return change(take(client, "readwrite-s", token, from, to), asReader)
	}
	writer := take("a", "readwrite-s", 1, 5, 10)
	downgraded := change(reader("a", 2, 8, 20), ownedBy(writer[1].Owner, 1))
	kept(t, overlaps, only(readWriteSpec, nil, writer, downgraded, reader("b", 3, 11, 30)))
	broken(t, overlaps, noOverlap, only(readWriteSpec, nil, writer, reader("b", 3, 9, 30)))
	broken(t, overlaps, noOverlap, only(readWriteSpec, nil, reader("b", 1, 5, 30), take("a", "readwrite-s", 3, 20, 25)))
}

// What is over by no fault of the lock's is no overlap.
func TestCheckOverlapHoldsThatWereHurtFromOutside(t *testing.T) {
	t.Parallel()
	first, second := take("a", "mutex-s", 1, 5, 40), take("b", "mutex-s", 2, 30, 35)
	lostIt := take("a", "mutex-s", 1, 5, 40)
	lostIt[2].Kind = lost
	for _, f := range []faultRecord{
		{Nodes: []string{first[1].Node}},
		{Sessions: []int64{'a'}},
		{Voids: []framework.ErrorPolicy{framework.SessionErrorPolicy}},
		{Clients: []string{"client0"}},
	} {
		spec := mutexSpec
		spec.Policy = framework.SessionErrorPolicy
		f.Start, f.End = at(20), at(25)
		kept(t, overlaps, only(spec, []faultRecord{f}, lostIt, second))
		f.Start, f.End = at(36), at(38) // too late to be the cause
		broken(t, overlaps, noOverlap, only(spec, []faultRecord{f}, lostIt, second))
	}
	// A policy promises nothing only to clients of the servers that were cut off.
	for server, excused := range map[string]bool{"s1": true, "s2": false} {
		spec := mutexSpec
		spec.Policy = framework.SessionErrorPolicy
		cut := faultRecord{Voids: []framework.ErrorPolicy{framework.SessionErrorPolicy}, Servers: []string{"s1"}, Start: at(20), End: at(25)}
		p := only(spec, []faultRecord{cut}, lostIt, second)
		p.dial("client1", "s2", 2, 50)
		p.dial("client0", server, 2, 50)
		require.Equal(t, excused, len(overlaps(p.load(t))) == 0, server)
		p.dial("client0", "s1", 3, 19)
		p.dial("client0", "s1", 26, 30)
		require.Equal(t, excused, len(overlaps(p.load(t))) == 0, server)
	}
	// A server that dies may not have told of a session, which ends with the hold then. Only SessionErrorPolicy relies on it.
	dies := faultRecord{Servers: []string{"s1"}, Start: at(20), End: at(25)}
	for _, c := range []struct {
		policy        framework.ErrorPolicy
		server        string
		over, excused bool
	}{
		{framework.SessionErrorPolicy, "s1", true, true},
		{framework.SessionErrorPolicy, "s1", false, false},
		{framework.SessionErrorPolicy, "s2", true, false},
		{framework.StandardErrorPolicy, "s1", true, false},
	} {
		spec := mutexSpec
		spec.Policy = c.policy
		lostIt[2].SessionOver = c.over
		p := only(spec, []faultRecord{dies}, lostIt, second)
		p.dial("client0", c.server, 2, 50)
		require.Equal(t, c.excused, len(overlaps(p.load(t))) == 0, c)
	}
	// A node that was created after it was over is not concerned. One that was handed on is.
	over := faultRecord{Sessions: []int64{'a'}, Start: at(2), End: at(3)}
	broken(t, overlaps, noOverlap, only(handoffSpec, []faultRecord{over}, take("a", "handoff-s", 1, 5, 40), take("b", "handoff-s", 2, 30, 35)))
	handedOn := change(take("a", "handoff-s", 2, 5, 40), func(e *event) { e.Token, e.Node = 1, node("handoff-s", "lock-", 1) })
	kept(t, overlaps, only(handoffSpec, []faultRecord{over}, append(take("a", "handoff-s", 1, 2, 4), handedOn...), take("b", "handoff-s", 2, 30, 35)))
	// A node that its own session deleted was not deleted by hand, even if somebody tried.
	for session, excused := range map[int64]bool{'a': false, 'v': true} {
		p := only(mutexSpec, []faultRecord{{Nodes: []string{first[1].Node}, Start: at(20), End: at(25)}}, lostIt, second)
		p.commit(txnCreate2, 'a', 1, 4, first[1].Node)
		p.commit(txnCreate2, 'b', 2, 4, second[1].Node)
		p.commit(txnDelete, session, 3, 22, first[1].Node)
		require.Equal(t, excused, len(overlaps(p.load(t))) == 0, "session %#x", session)
	}
	// One that was stopped and releases in good order has had the lock all the time.
	broken(t, overlaps, noOverlap, only(mutexSpec, []faultRecord{{Clients: []string{"client0"}, Start: at(20), End: at(25)}}, first, second))
	// One that was stopped while it asked may be told too late that it has the lock.
	stopped := faultRecord{Clients: []string{"client0"}, Start: at(4), End: at(6)}
	kept(t, overlaps, only(mutexSpec, []faultRecord{stopped}, lostIt, take("b", "mutex-s", 2, 4, 30)))
	// One that asks after it went on is told in time.
	stopped.Start, stopped.End = at(1), at(3)
	broken(t, overlaps, noOverlap, only(mutexSpec, []faultRecord{stopped}, lostIt, take("b", "mutex-s", 2, 9, 30)))
}

// A client that gets a new session while it acquires does not know whose its node is. The servers do.
func TestCheckOverlapSessionsAreCompleted(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	change(p.events["b"][1:], func(e *event) { e.Session = 0 })
	require.EqualValues(t, 'b', p.load(t).holds[1].session)
	p.committed = nil
	require.Zero(t, p.load(t).holds[1].session)
}

func TestCheckOverlapPermits(t *testing.T) {
	t.Parallel()
	one, two := take("a", "semaphore-s", 1, 5, 20), take("b", "semaphore-s", 2, 6, 10)
	kept(t, permits, only(semaphoreSpec, nil, one, two, take("c", "semaphore-s", 3, 10, 15)))
	require.Contains(t, broken(t, permits, withinPermits, only(semaphoreSpec, nil, one, two, take("c", "semaphore-s", 3, 9, 15))),
		"semaphore-s has 3 holders, expected at most 2")
	kept(t, overlaps, only(semaphoreSpec, nil, one, two))
}
