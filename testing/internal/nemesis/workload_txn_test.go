// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

var txnSpec = lockSpec{Name: "txn-s", Workload: "txn"}

// The workload itself, on a server that is in no trouble: each transaction succeeds, and one after the other
// explains what each has read.
func TestTxnWorkload(t *testing.T) {
	t.Parallel()
	w, history := newTestWorker(t, zktest.NewServer(t), txnSpec)
	w.last = true // so that no turn is given up
	turn, err := prepareTxn(w)
	require.NoError(t, err)
	const turns = 40
	for range turns {
		turn(t.Context())
	}
	events, err := readEvents(history)
	require.NoError(t, err)
	var state txnState
	var p program
	done := 0
	for _, e := range events {
		switch e.Kind {
		case planned:
			p = program{}
			require.NoError(t, json.Unmarshal([]byte(e.Value), &p))
		case transacted:
			require.Equal(t, accepted, e.Outcome, e.Error)
			var read string
			read, state = p.on(state, e.Owner)
			require.Equal(t, read, e.Value, "%+v", p)
			done++
		default: // says nothing of a transaction
		}
	}
	require.Equal(t, turns, done)
}

// run adds a transaction of a client to the histories.
func (p *plan) run(client, name string, program program, result outcome, read string) {
	p.runIn(client, name, program, result, read, 5, 6)
}

func (p *plan) runIn(client, name string, program program, result outcome, read string, began, ended int64) {
	text, err := json.Marshal(program)
	if err != nil {
		panic(err)
	}
	p.add(client, event{At: at(began), Kind: planned, Owner: name, Lock: txnSpec.Name, Value: string(text)})
	if result != "" {
		p.add(client, event{At: at(ended), Kind: transacted, Owner: name, Lock: txnSpec.Name, Value: read, Outcome: result})
	}
}

// put and drop commit a write and a deletion of the n-th znode.
func (p *plan) putAt(zxid int64, n int, name string) {
	p.createNode("a", zxid, 5, txnSpec.path()+txnPaths[n], name)
}

func (p *plan) dropAt(zxid int64, n int) { p.deleteNode("a", zxid, txnSpec.path()+txnPaths[n]) }

func TestWrongTransactions(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return wrongTransactions(r, txnSpec) }
	for name, c := range map[string]struct {
		play func(*plan)
		want string // the beginning of what is wrong with it
	}{
		"one after the other": {func(p *plan) {
			p.run("b", "y", program{Reads: []int{0, 1}, Deletes: []int{0}, Writes: []int{1}}, accepted, "x,|")
			p.dropAt(21, 0)
			p.putAt(21, 1, "y")
			p.run("c", "r", program{Reads: []int{0}, List: true}, accepted, "|b")
		}, ""},
		"a read of a server that is behind": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.run("b", "y", program{Writes: []int{1}}, accepted, "|")
			p.run("c", "r", program{Reads: []int{0, 1}}, accepted, ",|")
		}, ""},
		"a client goes back": {func(p *plan) {
			p.run("c", "r", program{Reads: []int{0}}, accepted, "x|")
			p.run("c", "s", program{Reads: []int{0}}, accepted, "|")
		}, "s has read"},
		"two states that never stood side by side": {func(p *plan) {
			p.dropAt(21, 0)
			p.putAt(21, 1, "y")
			p.run("b", "y", program{Deletes: []int{0}, Writes: []int{1}}, accepted, "|")
			p.run("c", "r", program{Reads: []int{0, 1}}, accepted, "x,y|")
		}, "r has read"},
		"a sibling that has appeared": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.run("b", "y", program{List: true, Writes: []int{1}}, accepted, "|")
		}, "y has read"},
		"an old state": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.run("b", "y", program{Reads: []int{0}, Writes: []int{1}}, accepted, "|")
		}, "y has read"},
		"in part": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.run("b", "y", program{Writes: []int{1, 2}}, unknown, "")
		}, "y has made"},
		"twice": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.putAt(22, 1, "y")
			p.run("b", "y", program{Writes: []int{1}}, accepted, "|")
		}, "y was applied 2 times"},
		"lost":                    {func(p *plan) { p.run("b", "y", program{Writes: []int{1}}, accepted, "|") }, "y was acknowledged"},
		"failed":                  {func(p *plan) { p.putAt(21, 1, "y"); p.run("b", "y", program{Writes: []int{1}}, refused, "") }, "y failed"},
		"in doubt, not applied":   {func(p *plan) { p.run("b", "y", program{Writes: []int{1}}, unknown, "") }, ""},
		"killed, applied":         {func(p *plan) { p.putAt(21, 1, "y"); p.run("b", "y", program{Writes: []int{1}}, "", "") }, ""},
		"of no client":            {func(p *plan) { p.putAt(21, 1, "y") }, `0x15 is of "y"`},
		"a deletion of no client": {func(p *plan) { p.dropAt(21, 0) }, "0x15 has changed"},
		"few servers have it": {func(p *plan) {
			p.putAt(21, 1, "y")
			p.aside()
			p.run("b", "y", program{Writes: []int{1}}, accepted, "|")
		}, ""},
		"few servers have it, unread": {func(p *plan) { p.putAt(21, 1, "y"); p.aside(); p.run("b", "y", program{Writes: []int{1}}, unknown, "") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(txnSpec)
			p.run("a", "x", program{Writes: []int{0}}, accepted, "|")
			p.putAt(20, 0, "x")
			c.play(p)
			judged(t, find, serializable, c.want, p)
		})
	}
}

// What a restore has undone may be gone. One that it has interrupted may have run before and after.
func TestTransactionsOverARestore(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return wrongTransactions(r, txnSpec) }
	for name, c := range map[string]struct {
		play func(*plan)
		want string
	}{
		"undone":      {func(p *plan) { p.runIn("a", "r", program{Reads: []int{0, 1}}, accepted, "x,|", 75, 76) }, ""},
		"still there": {func(p *plan) { p.runIn("a", "r", program{Reads: []int{0, 1}}, accepted, "x,y|", 75, 76) }, "r has read"},
		"interrupted": {func(p *plan) {
			p.putAt(100, 1, "z")
			p.runIn("c", "z", program{Reads: []int{1}, Writes: []int{1}}, accepted, "|", 45, 76)
		}, ""},
		"lost after it": {func(p *plan) { p.runIn("c", "z", program{Writes: []int{1}}, accepted, "|", 75, 76) }, "z was acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(txnSpec)
			p.run("a", "x", program{Writes: []int{0}}, accepted, "|")
			p.putAt(20, 0, "x")
			p.runIn("b", "y", program{Writes: []int{1}}, accepted, "|", 40, 41)
			p.putAt(21, 1, "y")
			p.restore()
			c.play(p)
			judged(t, find, serializable, c.want, p)
		})
	}
}
