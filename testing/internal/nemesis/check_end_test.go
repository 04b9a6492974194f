// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckEndLeftBehind(t *testing.T) {
	t.Parallel()
	kept(t, leftBehind, goodPlan())
	for want, spoil := range map[string]func(*roundRecord){
		"orphans: round round1: 2 ephemeral nodes or nodes of locks were left when all workers had stopped":  func(r *roundRecord) { r.Left.LockNodes = 2 },
		"orphans: round round1: 3 ephemeral nodes or nodes of locks were left when all sessions were closed": func(r *roundRecord) { r.After.Ephemerals = 3 },
		"watches: round round1: 4 watches were left when all workers had stopped":                            func(r *roundRecord) { r.Left.Watches = 4 },
		"watches: round round1: 5 watches were left when all sessions were closed":                           func(r *roundRecord) { r.After.Watches = 5 },
	} {
		p := goodPlan()
		spoil(p.round())
		found := leftBehind(p.load(t))
		require.Len(t, found, 1)
		require.Equal(t, want, found[0].String())
		require.Contains(t, found[0].what, string(rune('0'+found[0].count)))
	}
	p := goodPlan()
	p.commit(txnCreate2, 'b', 20, 50, node("mutex-s", "lock-", 9))
	require.Contains(t, broken(t, leftBehind, noOrphan, p), "lock-0000000009 of session 0x62, created by 0x14, was never deleted")
}

func TestCheckEndUnconfirmed(t *testing.T) {
	t.Parallel()
	kept(t, unconfirmed, goodPlan())

	p := goodPlan()
	p.events["b"][len(p.events["b"])-1].Unconfirmed = "no server answers"
	require.Contains(t, broken(t, unconfirmed, nobodyStuck, p), "client b: no server answers")

	last := len(p.events["b"]) - 1
	p.events["b"][last].At = at(0) + 2*p.round().SessionTimeout
	p.events["b"] = slices.Insert(p.events["b"], last, event{At: at(1) + p.round().SessionTimeout, Kind: dialed, Server: "1", Conn: "2"})
	kept(t, unconfirmed, p) // its connection was lost meanwhile
	p.events["b"][last].At = at(-1) + p.round().SessionTimeout
	broken(t, unconfirmed, nobodyStuck, p)
}

func TestCheckEndUnfinished(t *testing.T) {
	t.Parallel()
	kept(t, unfinished, goodPlan())

	p := goodPlan()
	p.add("a", event{At: at(50), Kind: called, Hold: "a/mutex-s/4", Lock: "mutex-s"})
	require.Contains(t, broken(t, unfinished, nobodyStuck, p), "acquisition a/mutex-s/4 of mutex-s was called and has never returned")
	p.add("a", event{At: at(51), Kind: failed, Hold: "a/mutex-s/4", Lock: "mutex-s", Error: "not acquired"})
	kept(t, unfinished, p)

	p = goodPlan()
	last := len(p.events["b"]) - 1
	p.events["b"][last].Error = "a goroutine"
	require.Contains(t, broken(t, unfinished, nobodyStuck, p), "client b has left something behind: a goroutine")

	p.events["b"] = p.events["b"][:last]
	require.Contains(t, broken(t, unfinished, nobodyStuck, p), "client b was not closed, and not killed")
	p.round().Faults[0].Clients = []string{"b"}
	broken(t, unfinished, nobodyStuck, p) // it was only stopped
	p.round().Faults[0].Killed = true
	kept(t, unfinished, p)
}

// A node that goes with its session, long after the workers have stopped, was left behind.
func TestCheckEndDeletedOnlyWhenAllWasClosed(t *testing.T) {
	t.Parallel()
	settled := 90 + settleTime.Milliseconds()
	p := goodPlan()
	p.commit(txnCreate2, 'b', 20, 50, node("mutex-s", "lock-", 9))
	p.commit(txnCloseSession, 'b', 21, settled, "")
	kept(t, leftBehind, p)
	p = goodPlan()
	p.commit(txnCreate2, 'b', 20, 50, node("mutex-s", "lock-", 9))
	p.commit(txnCloseSession, 'b', 21, settled+1, "")
	require.Contains(t, broken(t, leftBehind, noOrphan, p), "was deleted only when all was closed")
}
