// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tale makes a history by hand, of an ensemble that keeps all rules. A case then changes what was heard.
type tale struct {
	h    *history
	past []*znodes // by transaction
}

func newTale() *tale {
	return &tale{h: &history{}, past: []*znodes{{nodes: map[string]znode{"/": {}}, over: map[int64]bool{}}}}
}

// add adds an exchange that takes a millisecond.
func (s *tale) add(e exchange) *exchange {
	at := time.Duration(len(s.h.exchanges)+1) * 10 * time.Millisecond
	e.client, e.connection, e.began, e.ended = "client", int(e.session), at, at+time.Millisecond
	s.h.exchanges = append(s.h.exchanges, e)
	return &s.h.exchanges[len(s.h.exchanges)-1]
}

// write makes the next transaction.
func (s *tale) write(session int64, w wish) *exchange {
	after, o := s.past[len(s.past)-1].write(w, session, int64(len(s.past)))
	s.past = append(s.past, after)
	return s.add(exchange{wish: w, outcome: o, session: session, zxid: int64(len(s.past) - 1)})
}

// read reads /a as it was after a transaction.
func (s *tale) read(session, zxid int64) *exchange {
	w := wish{op: 4, path: "/a"}
	return s.add(exchange{wish: w, outcome: s.past[zxid].read(w), session: session, zxid: zxid})
}

// unanswered has the write that was made last without an answer.
func unanswered(e *exchange) { e.ended, e.zxid, e.outcome = 0, 0, outcome{} }

var (
	createA   = wish{op: 15, path: "/a", data: "first"}
	setA      = wish{op: 5, path: "/a", data: "second", version: -1}
	deleteA   = wish{op: 2, path: "/a", version: -1}
	createB   = wish{op: 15, path: "/b"}
	ephemeral = wish{op: 15, path: "/a", flags: 1}
	sequence  = wish{op: 15, path: "/s-", flags: 2}
	both      = wish{op: 14, parts: []wish{deleteA, createB}}
	syncs     = wish{op: 9, path: "/"}
	attaches  = wish{op: opAttach}
)

// TestHistoryRules: each rule notices what breaks it, and allows what ensembles may do.
func TestHistoryRules(t *testing.T) {
	allowed := ""
	cases := map[string]struct {
		want string
		make func(s *tale)
	}{
		"a follower lags": {allowed, func(s *tale) {
			s.write(1, createA)
			s.write(1, setA)
			s.read(2, 1)
			s.read(2, 2)
		}},
		"a session reads what is older than what it has read": {"a session goes back", func(s *tale) {
			s.write(1, createA)
			s.write(1, setA)
			s.read(2, 2)
			s.read(2, 1).connection = 3
		}},
		"a write has a number that was heard before": {"numbered before what was heard", func(s *tale) {
			s.write(1, createA)
			s.read(1, 1).zxid = 2
			s.write(2, setA)
		}},
		"two writes at a time have one number": {"have one number", func(s *tale) {
			s.write(1, createA)
			first := *s.write(1, setA)
			second := s.write(2, setA)
			second.zxid, second.began = first.zxid, first.began
		}},
		"a sync brings too little": {"a sync lacks", func(s *tale) {
			s.write(1, createA)
			s.add(exchange{wish: syncs, session: 2, zxid: 0})
		}},
		"a leader that is none answers a sync": {allowed, func(s *tale) {
			s.h.deposed = true
			s.write(1, createA)
			s.add(exchange{wish: syncs, session: 2, zxid: 0})
		}},
		"a session writes where it was": {"that has moved writes", func(s *tale) { s.write(1, createA).stale = true }},
		"what a session wrote where it was is seen": {"that has moved writes", func(s *tale) {
			e := s.write(1, createA)
			unanswered(e)
			e.stale = true
			s.read(2, 1)
		}},
		"a session has moved that has not": {"has moved that has not", func(s *tale) {
			s.add(exchange{wish: attaches, session: 1})
			s.add(exchange{wish: createA, session: 1, outcome: outcome{err: -118}})
		}},
		"a request is lost without faults": {"lost without faults", func(s *tale) {
			s.h.calm = true
			s.write(1, createA)
			unanswered(s.write(1, setA))
		}},
		"an acknowledged write is gone": {"no order", func(s *tale) {
			s.write(1, createA)
			s.write(1, setA)
			s.read(2, 1).zxid = 2
		}},
		"a write without an answer has happened": {allowed, func(s *tale) {
			s.write(1, createA)
			unanswered(s.write(2, setA))
			s.read(1, 2)
		}},
		"a write without an answer has not happened": {allowed, func(s *tale) {
			s.write(1, createA)
			unanswered(s.write(2, setA))
			s.past[2] = s.past[1]
			s.read(1, 2)
		}},
		"a write without an answer has happened and is gone": {"no order", func(s *tale) {
			s.write(1, createA)
			unanswered(s.write(2, setA))
			s.read(1, 2)
			s.past[2] = s.past[1]
			s.read(1, 2)
		}},
		"a write without an answer happens before it was made": {"no order", func(s *tale) {
			s.write(1, createA)
			s.past = append(s.past, s.past[1], s.past[1]) // two transactions that fail
			s.write(1, createB)
			unanswered(s.write(2, deleteA))
			s.read(3, 5).zxid = 3
		}},
		"a write without an answer happens after one of its session": {"no order", func(s *tale) {
			s.write(2, createA)
			unanswered(s.add(exchange{wish: deleteA, session: 1}))
			s.write(1, createB)
			unanswered(s.write(2, deleteA))
			s.h.exchanges = s.h.exchanges[:len(s.h.exchanges)-1]
			s.read(2, 3)
		}},
		"a write without an answer happens after another one of its session": {"no order", func(s *tale) {
			s.write(2, createA)
			unanswered(s.add(exchange{wish: deleteA, session: 1}))
			unanswered(s.write(1, createB))
			there := wish{op: 3, path: "/b"}
			s.add(exchange{wish: there, outcome: s.past[2].read(there), session: 2, zxid: 2})
			s.write(2, deleteA)
			s.h.exchanges = s.h.exchanges[:len(s.h.exchanges)-1]
			s.read(2, 3)
		}},
		"a delete without an answer happens twice": {"no order", func(s *tale) {
			s.write(1, createA)
			unanswered(s.write(2, deleteA))
			s.read(1, 2)
			s.write(1, createA)
			s.read(1, 2).zxid = 4
		}},
		"there is no number for what has happened": {"no order", func(s *tale) {
			unanswered(s.add(exchange{wish: deleteA, session: 2}))
			s.write(1, createA)
			s.add(exchange{wish: wish{op: 4, path: "/a"}, outcome: outcome{err: -101}, session: 1, zxid: 1})
		}},
		"there is no number for what has happened before a write": {"no order", func(s *tale) {
			unanswered(s.add(exchange{wish: deleteA, session: 2}))
			s.write(1, createA)
			s.write(1, createA).outcome = outcome{path: "/a", stat: stat{czxid: 2, mzxid: 2, pzxid: 2, dataLength: 5}}
		}},
		"an ephemeral znode goes with its session": {allowed, func(s *tale) {
			s.write(1, ephemeral)
			s.write(1, wish{op: opClose})
			s.read(2, 2)
		}},
		"an ephemeral znode stays without its session": {"no order", func(s *tale) {
			s.write(1, ephemeral)
			s.write(1, wish{op: opClose})
			s.read(2, 1).zxid = 2
		}},
		"an ephemeral znode goes although its session goes on": {"no order", func(s *tale) {
			s.write(1, ephemeral)
			s.write(2, deleteA)
			s.h.exchanges = s.h.exchanges[:1]
			s.read(2, 2)
		}},
		"a session expires": {allowed, func(s *tale) {
			s.write(1, ephemeral)
			s.add(exchange{wish: attaches, session: 1, zxid: 1, outcome: outcome{err: -112}})
			s.write(2, deleteA)
			s.h.exchanges = s.h.exchanges[:2]
			s.read(2, 2)
		}},
		"a session that was refused is there": {"no order", func(s *tale) {
			s.write(1, ephemeral)
			s.add(exchange{wish: attaches, session: 1, zxid: 1, outcome: outcome{err: -112}})
			s.write(2, createB)
			s.read(2, 2)
		}},
		"a session that has ended writes": {"no order", func(s *tale) {
			s.write(1, wish{op: opClose})
			s.write(2, createA).session = 1
		}},
		"a session that has ended is refused": {allowed, func(s *tale) {
			s.write(1, wish{op: opClose})
			s.write(1, createA)
			s.write(1, both).outcome = outcome{parts: []outcome{{err: -112}, {err: -2}}}
		}},
		"half of a transaction is seen": {"no order", func(s *tale) {
			s.write(1, createA)
			s.write(1, both)
			s.read(2, 1).zxid = 2
		}},
		"a number is given twice": {"no order", func(s *tale) {
			s.write(1, sequence)
			s.write(1, sequence).outcome.path = "/s-0000000000"
		}},
		"a write succeeds that cannot": {"no order", func(s *tale) {
			s.write(1, createA)
			s.write(2, createA).outcome = s.past[1].read(wish{op: 3, path: "/a"})
		}},
		"a version is skipped": {"no order", func(s *tale) {
			s.write(1, createA)
			s.write(1, setA).stat.version++
		}},
	}
	for name, c := range cases {
		s := newTale()
		c.make(s)
		err := s.h.check()
		if c.want == allowed {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}
