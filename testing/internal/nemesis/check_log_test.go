// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckLogServerTokens(t *testing.T) {
	t.Parallel()
	kept(t, serverTokens, goodPlan())
	for what, spoil := range map[string]func(*plan){
		"the servers have never had the node of this hold": func(p *plan) { p.committed[0].path = "/elsewhere/lock-0000000000" },
		"the node of this hold is of session 0x62":         func(p *plan) { p.committed[0].session = 'b' },
		"the node of this hold has czxid 0x4":              func(p *plan) { p.committed[2].zxid = 4 },
	} {
		p := goodPlan()
		spoil(p)
		require.Contains(t, broken(t, serverTokens, risingTokens, p), what)
	}
}

// A writer that becomes a reader has another node, and the token that it had.
func TestCheckLogServerTokenOfADowngrade(t *testing.T) {
	t.Parallel()
	writer := change(take("a", "readwrite-s", 1, 5, 10), func(e *event) { e.Node = node("readwrite-s", "__WRIT__", 1) })
	reader := change(change(take("a", "readwrite-s", 2, 8, 20), ownedBy(writer[1].Owner, 1)), asReader)
	reader[1].Node = node("readwrite-s", "__READ__", 1)
	p := only(readWriteSpec, nil, writer, reader)
	p.commit(txnCreate2, 'a', 1, 1, writer[1].Node)
	p.commit(txnCreate2, 'b', 2, 6, node("readwrite-s", "__WRIT__", 2)) // waits
	p.commit(txnCreate, 'a', 3, 7, reader[1].Node)
	kept(t, serverTokens, p)
	kept(t, serverOrder, p)
	p.committed[0].zxid = 4 // after the reader's
	require.Len(t, serverTokens(p.load(t)), 2)
}

func TestCheckLogServerOrder(t *testing.T) {
	t.Parallel()
	kept(t, serverOrder, goodPlan())

	late := goodPlan()
	late.committed[3].time += 10 // the first node, which the second has to wait for
	text := broken(t, serverOrder, noOverlap, late)
	require.Contains(t, text, "mutex-s was granted before "+node("mutex-s", "lock-", 1)+" of session 0x61 was deleted")

	never := goodPlan()
	never.committed = append(never.committed[:3:3], never.committed[4:]...)
	broken(t, serverOrder, noOverlap, never) // but for the end of its session, which is too late

	late.round().WallOffset = 0 // not known: nothing can be said
	kept(t, serverOrder, late)

	foreign := goodPlan()
	foreign.committed = append(foreign.committed, entry{transaction{session: 'v', zxid: 0, kind: txnCreate}, "/nemesis/locks/mutex-s/lock-0000000000"})
	kept(t, serverOrder, foreign)
}

func TestCheckLogServerOrderOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	first := change(take("a", "readwrite-s", 1, 5, 30), asReader)
	second := change(take("b", "readwrite-s", 2, 8, 20), asReader)
	readers := only(readWriteSpec, nil, first, second)
	readers.commit(txnCreate2, 'a', 1, 1, first[1].Node)
	readers.commit(txnCreate2, 'b', 2, 7, second[1].Node)
	kept(t, serverOrder, readers)

	writer := change(take("b", "readwrite-s", 2, 8, 20), func(e *event) { e.Node = node("readwrite-s", "__WRIT__", 2) })
	mixed := only(readWriteSpec, nil, first, writer)
	mixed.commit(txnCreate2, 'a', 1, 1, first[1].Node)
	mixed.commit(txnCreate2, 'b', 2, 7, writer[1].Node)
	broken(t, serverOrder, noOverlap, mixed)
}

// A semaphore has so many holders, and the next waits until the servers have fewer.
func TestCheckLogServerOrderOfPermits(t *testing.T) {
	t.Parallel()
	for gone, inTime := range map[int64]bool{20: true, 30: false} {
		var histories [][]event
		for n, client := range []string{"a", "b", "c"} {
			histories = append(histories, take(client, "semaphore-s", n+1, 5+10*int64(n), 40))
		}
		p := only(semaphoreSpec, nil, histories...)
		for n, session := range []int64{'a', 'b', 'c'} {
			p.commit(txnCreate2, session, int64(n)+1, int64(n)+1, node("semaphore-s", "lock-", n+1))
		}
		p.commit(txnDelete, 'b', 9, gone, node("semaphore-s", "lock-", 2)) // the third has it at 25
		if inTime {
			kept(t, serverOrder, p)
			continue
		}
		require.Contains(t, broken(t, serverOrder, withinPermits, p), "semaphore-s was granted before "+node("semaphore-s", "lock-", 2))
	}
}
