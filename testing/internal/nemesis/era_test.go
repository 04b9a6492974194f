// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// In the plans below a backup is taken at 30, the servers are killed at 50, and clients reach the restored ones at 70.
// Transactions up to 20 are in the backup. The next ones are undone. Those from 100 on are of the restored servers.

// judged requires that a check finds nothing, or one violation with this text.
func judged(t *testing.T, find func(*roundReport) []violation, want promise, text string, p *plan) {
	t.Helper()
	if text == "" {
		kept(t, find, p)
		return
	}
	require.Contains(t, broken(t, find, want, p), text)
}

func TestErasOfARound(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.commit(txnCreate2, 'x', 20, 20, "/x")
	p.commit(txnCreate2, 'x', 21, 40, "/y")
	p.restore(20)
	p.commit(txnCreate2, 'x', 100, 75, "/z")
	r := p.load(t)
	require.Len(t, r.eras, 2)
	require.Equal(t, int64(20), r.eras[1].base)
	for moment, want := range map[int64]string{0: "/y", 69: "/y", 70: "/z", 1000: "/z"} {
		for _, node := range []string{"/x", "/y", "/z"} {
			require.Equal(t, node == want || node == "/x", r.logAt(at(moment)).nodes[node] != nil, "%s at %d", node, moment)
		}
	}
	require.Same(t, r.log, r.logAt(at(70)))
}

// The server of the backup may have got transactions as a snapshot, without a log of them.
func TestEraBackupWithAGapInItsLog(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.commit(txnCreate2, 'x', 19, 20, "/x")
	p.commit(txnCreate2, 'x', 20, 20, "/y")
	p.commit(txnCreate2, 'x', 21, 40, "/z")
	p.restore(20)
	p.committed = slices.DeleteFunc(p.committed, func(e entry) bool { return e.zxid == 19 })
	r := p.load(t)
	for node, there := range map[string]bool{"/x": true, "/y": true, "/z": false} {
		require.Equal(t, there, r.log.nodes[node] != nil, node)
	}
}

// The log of the backup's server may have what was cut off the others' logs. All restored servers have it then.
func TestEraBackupWithACutOffTransaction(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.commit(txnCreate2, 'x', 20, 20, "/y")
	p.restore(20)
	p.commit(txnCreate2, 'x', 19, 20, "/x") // by a leader that fell
	r := p.load(t)
	require.NotNil(t, r.log.nodes["/y"])
	require.Nil(t, r.log.nodes["/x"])
}

// Servers that give out the numbers of undone transactions again leave the judge in doubt.
func TestEraRestoreThatUsesNumbersAgain(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.commit(txnCreate2, 'x', 21, 40, "/y")
	p.commit(txnCreate2, 'x', 22, 40, "/y")
	p.restore(20)
	p.commit(txnCreate2, 'x', 22, 75, "/z")
	_, err := loadRound(p.save(t)+"/"+p.round().Folder, *p.round())
	require.ErrorContains(t, err, "restored servers have 0x16, which is no newer than 0x16 from before")
}

func TestEraSetsAfterARestore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at      int64
		written bool // to the log before the restore
		outcome outcome
		there   []string
		broken  string
	}{
		"since the backup, and gone":                {40, true, accepted, []string{"x"}, ""},
		"since the backup, and not written":         {40, false, accepted, []string{"x"}, "was accepted and is not there"},
		"since the backup, and twice":               {40, true, accepted, []string{"x", "y", "y"}, "is there more than once"},
		"refused since the backup, and there":       {40, true, refused, []string{"x", "y"}, "was refused and is there"},
		"before the backup, and gone":               {25, false, accepted, []string{"x"}, "was accepted and is not there"},
		"after the restore, and gone":               {75, true, accepted, []string{"x"}, "was accepted and is not there"},
		"one of before the backup is gone, besides": {40, true, accepted, []string{"y"}, `"x" was accepted and is not there`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := goodPlan()
			p.committed = append(p.committed, setEntry(txnCreate, 18, 0, ""), setEntry(txnSetData, 20, 1, "x\n"))
			if test.written {
				p.committed = append(p.committed, setEntry(txnSetData, 21, 2, "x\ny\n"))
			}
			p.add("a", event{At: at(test.at), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: test.outcome})
			p.round().Sets["mutex-s"] = test.there
			p.restore(20)
			judged(t, sets, noLostUpdate, test.broken, p)
		})
	}
}

// A hold is judged by the log of its era.
func TestEraHoldsAroundARestore(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]int64{"deleted before it": 42, "deleted after the next had begun": 48, "never deleted": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(mutexSpec, nil, take("a", "mutex-s", 10, 5, 41), take("b", "mutex-s", 21, 44, 46), take("c", "mutex-s", 101, 80, 85))
			p.commit(txnCreate2, 'a', 10, 4, node("mutex-s", "lock-", 10))
			p.commit(txnCreate2, 'b', 21, 35, node("mutex-s", "lock-", 21))
			if gone != 0 {
				p.commit(txnDelete, 'a', 22, gone, node("mutex-s", "lock-", 10))
			}
			p.restore(20)
			p.commit(txnCloseSession, 'a', 100, 65, "")
			p.commit(txnCreate2, 'c', 101, 75, node("mutex-s", "lock-", 101))
			kept(t, serverTokens, p)
			text := ""
			if gone != 42 {
				text = "was granted before " + node("mutex-s", "lock-", 10) + " of session 0x61 was deleted"
			}
			judged(t, serverOrder, noOverlap, text, p)
			hasLost(t, p, "")
		})
	}
}

// A restore undoes deletions, which is no loss of the servers. One that they undo by themselves is.
func TestEraLossesAroundARestore(t *testing.T) {
	t.Parallel()
	for zxid, want := range map[int64]string{
		22: "",
		21: "1 deletions that were undone, such as " + node("mutex-s", "lock-", 9),
	} {
		p := goodPlan()
		p.commit(txnCreate2, 'x', 20, 20, node("mutex-s", "lock-", 9))
		p.commit(txnDelete, 'x', 22, 40, node("mutex-s", "lock-", 9))
		p.add("b", event{At: at(41), Kind: deleted, Node: node("mutex-s", "lock-", 9), Zxid: zxid})
		p.restore(20)
		p.commit(txnCloseSession, 'x', 100, 65, "")
		hasLost(t, p, want)
	}
}

// incrementAt records an increment from 2 to 3 that was called and acknowledged at these moments.
func (p *plan) incrementAt(client string, called, acknowledged int64) {
	p.increments(client, 0, "", 3)
	events := p.events[client]
	n := len(events)
	events[n-2].At, events[n-1].At = at(called), at(acknowledged)
}

func TestEraCountersAroundARestore(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return wrongCounts(r, counterSpec) }
	for name, c := range map[string]struct {
		before, after func(*plan)
		broken        promise
		want          string
	}{
		"undone": {before: func(p *plan) { p.countTo("b", 21, 1, 3); p.incrementAt("b", 40, 41) }},
		"undone, and its number used again": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3); p.incrementAt("b", 40, 41) },
			after:  func(p *plan) { p.countTo("a", 101, 1, 3); p.incrementAt("a", 80, 81) },
		},
		"under way, and repeated": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3) },
			after:  func(p *plan) { p.countTo("b", 101, 1, 3); p.incrementAt("b", 40, 81) },
		},
		"under way, and lost": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3) },
			after:  func(p *plan) { p.incrementAt("b", 40, 81) },
			broken: noLostIncrement, want: "the increment of b to 3 is not in the value 2",
		},
		"lost before the backup": {
			before: func(p *plan) { p.incrementAt("b", 20, 21) },
			broken: noLostIncrement, want: "the increment of b to 3 is not in the value 2",
		},
		"lost since the backup, and not by the restore": {
			before: func(p *plan) { p.incrementAt("b", 40, 41) },
			broken: noLostIncrement, want: "the increment of b to 3 is not in the value 2",
		},
		"lost after the restore": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3); p.incrementAt("b", 40, 41) },
			after:  func(p *plan) { p.incrementAt("b", 80, 81) },
			broken: noLostIncrement, want: "the increment of b to 3 is not in the value 2",
		},
		"one number twice since the backup": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3); p.incrementAt("b", 40, 41); p.incrementAt("b", 42, 43) },
			broken: noLostIncrement, want: "the increment of b to 3",
		},
		"counted twice since the backup": {
			before: func(p *plan) { p.countTo("b", 21, 1, 4); p.incrementAt("b", 40, 41) },
			broken: noDoubleIncrement, want: `1 increments of client "b" are in the value 4`,
		},
		"undone, and back": {
			before: func(p *plan) { p.countTo("b", 21, 1, 3); p.incrementAt("b", 40, 41) },
			after:  func(p *plan) { p.countTo("b", 101, 1, 3) },
			broken: noDoubleIncrement, want: `1 increments of client "b" are in the value 3`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(counterSpec)
			p.countTo("a", 10, 0, 2)
			p.increments("a", 0, "", 1, 2)
			c.before(p)
			p.restore(20)
			if c.after != nil {
				c.after(p)
			}
			judged(t, find, c.broken, c.want, p)
		})
	}
}

// consumeAt records that an item was consumed at a moment.
func (p *plan) consumeAt(client, queue, item string, ms int64) {
	p.consume(client, queue, item, accepted)
	p.events[client][len(p.events[client])-1].At = at(ms)
}

// otherItem is the item that offerAt offers.
const otherItem = "item:b/1;"

// offerAt is offer by b of a locked item at a moment.
func (p *plan) offerAt(zxid, ms int64) {
	p.offer("b", lockedItems, otherItem, zxid, accepted)
	p.events["b"][len(p.events["b"])-1].At = at(ms)
}

func TestEraQueuesAroundARestore(t *testing.T) {
	t.Parallel()
	const item, other = "item:a/1;", otherItem
	find := func(r *roundReport) []violation { return wrongDeliveries(r, queueSpec) }
	taken := func(p *plan, queue, client string, zxid, ms int64) {
		p.consumeAt(client, queue, item, ms)
		p.deleteNode(client, zxid, itemNode(queue, 10))
	}
	for name, c := range map[string]struct {
		queue         string
		before, after func(*plan)
		broken        promise
		want          string
	}{
		"an item that is undone": {before: func(p *plan) { p.offerAt(21, 40) }},
		"an item that is put again": {
			before: func(p *plan) { p.createNode("b", 21, 40, itemNode(lockedItems, 21), other) },
			after:  func(p *plan) { p.offerAt(101, 80) },
		},
		"an item that is lost, and not by the restore": {
			before: func(p *plan) { p.offerAt(0, 40) }, broken: noLostItem, want: other + " was acknowledged, and no server has it",
		},
		"an item that is lost before the backup": {
			before: func(p *plan) { p.offerAt(0, 20) }, broken: noLostItem, want: other + " was acknowledged, and no server has it",
		},
		"an item that is lost after the restore": {
			before: func(p *plan) { p.offerAt(21, 80) }, broken: noLostItem, want: other + " was acknowledged, and no server has it",
		},
		"an undone item that is consumed": {
			before: func(p *plan) { p.offerAt(21, 40) },
			after:  func(p *plan) { p.consumeAt("b", lockedItems, other, 80) },
			broken: noDuplicate, want: other + " was consumed after a restore, and the backup did not have it",
		},
		"a locked item that is back": {
			before: func(p *plan) { taken(p, lockedItems, "b", 21, 40) }, after: func(p *plan) { taken(p, lockedItems, "c", 101, 80) },
		},
		"a locked item that is back, and consumed twice": {
			before: func(p *plan) { taken(p, lockedItems, "b", 21, 40) },
			after:  func(p *plan) { p.consumeAt("a", lockedItems, item, 80); taken(p, lockedItems, "c", 101, 80) },
			broken: noDuplicate, want: "was consumed 2 times, and 0 sessions were closed that had its lock",
		},
		"a locked item that was deleted before the backup": {
			before: func(p *plan) { taken(p, lockedItems, "b", 19, 20) }, after: func(p *plan) { p.consumeAt("c", lockedItems, item, 80) },
			broken: noDuplicate, want: "was consumed after a restore, and the backup did not have it",
		},
		"a locked item that is consumed twice since the backup": {
			before: func(p *plan) { p.consumeAt("a", lockedItems, item, 40); taken(p, lockedItems, "b", 21, 40) },
			broken: noDuplicate, want: "was consumed 2 times, and 0 sessions were closed that had its lock",
		},
		"a locked item that is back, and lost": {
			before: func(p *plan) { p.deleteNode("b", 21, itemNode(lockedItems, 10)) },
			after:  func(p *plan) { p.deleteNode("b", 101, itemNode(lockedItems, 10)) },
			broken: noLostItem, want: "is gone, and was not consumed",
		},
		"a simple item that is back": {
			before: func(p *plan) { taken(p, simpleItems, "b", 21, 40) }, after: func(p *plan) { taken(p, simpleItems, "c", 101, 80) },
		},
		"a simple item that is back, without a reply": {
			before: func(p *plan) { p.deleteNode("b", 21, itemNode(simpleItems, 10)) }, after: func(p *plan) { taken(p, simpleItems, "b", 101, 80) },
		},
		"a simple item that is back, and consumed twice": {
			before: func(p *plan) { taken(p, simpleItems, "b", 21, 40) },
			after:  func(p *plan) { p.consumeAt("a", simpleItems, item, 80); taken(p, simpleItems, "c", 101, 80) },
			broken: noDuplicate, want: "was consumed 2 times",
		},
		"a simple item that was deleted before the backup": {
			before: func(p *plan) { taken(p, simpleItems, "b", 19, 20) }, after: func(p *plan) { p.consumeAt("b", simpleItems, item, 80) },
			broken: noDuplicate, want: "was consumed by b after a restore, and the backup did not have it",
		},
		"a simple item that is consumed twice since the backup": {
			before: func(p *plan) { p.consumeAt("a", simpleItems, item, 40); taken(p, simpleItems, "b", 21, 40) },
			broken: noDuplicate, want: "was consumed 2 times",
		},
		"a simple item that is back, and lost": {
			before: func(p *plan) { taken(p, simpleItems, "b", 21, 40) },
			after:  func(p *plan) { p.deleteNode("c", 101, itemNode(simpleItems, 10)) },
			broken: noLostItem, want: "was deleted by c, which does not have it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(queueSpec)
			for _, queue := range []string{lockedItems, simpleItems} {
				p.offer("a", queue, item, 10, accepted)
			}
			p.committed = p.committed[:len(p.committed)-2]
			p.createNode("a", 10, 5, itemNode(lockedItems, 10), item)
			p.createNode("a", 11, 5, itemNode(simpleItems, 10), item)
			c.before(p)
			p.restore(20)
			if c.after != nil {
				c.after(p)
			}
			judged(t, find, c.broken, c.want, p)
		})
	}
}

func TestEraOnceAroundARestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key     string
		first   int64   // when the first run is; its token is the transaction before its marker
		tokens  []int64 // of the first run and its marker
		second  int64
		outcome outcome
		want    string
	}{
		"undone, and run again":                        {"until-1", 35, []int64{21, 22}, 80, accepted, ""},
		"undone, and begun again":                      {"never-1", 35, []int64{21, 22}, 80, accepted, ""},
		"marked before the backup, and run again":      {"until-1", 15, []int64{15, 16}, 80, accepted, "has succeeded 2 times"},
		"marked before the backup, and begun again":    {"never-1", 15, []int64{15, 16}, 80, accepted, "has begun 2 times"},
		"run twice since the backup":                   {"until-1", 35, []int64{21, 22}, 42, accepted, "has succeeded 2 times"},
		"begun twice since the backup":                 {"never-1", 35, []int64{21, 22}, 42, accepted, "has begun 2 times"},
		"marked before the backup, and begun and lost": {"until-1", 15, []int64{15, 16}, 80, unknown, "has begun again after its success"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(onceSpec, nil, runOf("a", c.key, int(c.tokens[0]), c.first, c.first+3, accepted), runOf("b", c.key, 101, c.second, c.second+3, c.outcome))
			p.mark(c.key, c.tokens[1], c.first+1, int(c.tokens[0]))
			p.restore(20)
			p.mark("another", 99, 72, 99)
			if c.second > 70 && c.tokens[1] > 20 {
				p.mark(c.key, 102, c.second+1, 101)
				kept(t, func(r *roundReport) []violation { return wrongMarkers(r, onceSpec) }, p)
			}
			judged(t, func(r *roundReport) []violation { return twiceRun(r, onceSpec) }, onceOnly, c.want, p)
		})
	}
	// A marker that was never there was not undone.
	p := only(onceSpec, nil, runOf("a", "until-1", 21, 35, 38, accepted))
	p.mark("another", 19, 20, 19)
	p.restore(20)
	require.Contains(t, broken(t, func(r *roundReport) []violation { return wrongMarkers(r, onceSpec) }, onceOnly, p), "has succeeded, and its marker is not of this run")
}

func TestEraBarriersAroundARestore(t *testing.T) {
	t.Parallel()
	ready := barrierSpec.path() + "/ready"
	meet := func(p *plan, zxid, ms int64) {
		for n := range int64(3) {
			p.member(string(rune('a'+n)), zxid+n, ms+n, ms+7)
		}
		p.createNode("c", zxid+3, ms+4, ready, "")
	}
	for name, c := range map[string]struct {
		before, after func(*plan)
		want          string
	}{
		"passed, and undone":  {before: func(p *plan) { meet(p, 21, 35) }},
		"left after it":       {before: func(p *plan) { meet(p, 21, 35) }, after: func(p *plan) { p.leaves("a", 21, 101, 80, 81) }},
		"and another round":   {before: func(p *plan) { meet(p, 21, 35) }, after: func(p *plan) { meet(p, 101, 75) }},
		"too few, and undone": {func(p *plan) { p.member("a", 21, 35, 41); p.createNode("a", 22, 36, ready, "") }, nil, "was made by one of 1 members"},
		"left too early, and undone": {
			func(p *plan) { meet(p, 21, 35); p.leaves("a", 21, 26, 43, 45) }, nil, "a has left while",
		},
		"passed by an undone opening": {
			func(p *plan) { meet(p, 21, 35) }, func(p *plan) { p.member("b", 101, 75, 80) }, "b has passed by " + memberNode(101),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(barrierSpec)
			c.before(p)
			p.restore(20)
			if c.after != nil {
				c.after(p)
			}
			judged(t, func(r *roundReport) []violation { return barrierLeaks(r, barrierSpec) }, noBarrierLeak, c.want, p)
		})
	}
}

func TestEraRegistrationsAroundARestore(t *testing.T) {
	t.Parallel()
	service := groupSpec.path() + "/c1"
	for name, c := range map[string]struct {
		over          int64 // when its process was told that it is over; 0 is never
		zxid, deleted int64 // by the log before the restore; 0 is never
		closed        int64 // by the restored servers
		again         int64 // when it is created again
		ghost         bool
	}{
		"over since the backup, and back until its session ends": {over: 41, zxid: 21, deleted: 40, closed: 60},
		"created again after the restore":                        {closed: 60, again: 75},
		"over since the backup, and created again":               {over: 41, zxid: 21, deleted: 40, closed: 60, again: 75, ghost: true},
		"over since the backup, and still there":                 {over: 41, zxid: 21, deleted: 44, closed: 60, ghost: true},
		"over before the backup, and still there":                {over: 20, closed: 60, ghost: true},
		"over since the backup, and back for good":               {over: 41, zxid: 21, deleted: 40, closed: 85, ghost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(groupSpec, nil, append([]event{{At: at(1), Kind: connected, Session: 'a'}}, registered(groupSpec, "c1", 5, 8, c.over)...))
			p.add("client0", event{At: at(72), Kind: connected, Session: 'b'})
			p.commit(txnCreate2, 'a', 10, 6, service)
			if c.deleted != 0 {
				p.commit(txnDelete, 'a', c.zxid, c.deleted, service)
			}
			p.restore(20)
			p.commit(txnCloseSession, 'a', 100, c.closed, "")
			if c.again != 0 {
				p.commit(txnCreate2, 'b', 101, c.again, service)
				p.commit(txnDelete, 'b', 102, c.again+1, service)
			}
			text := ""
			if c.ghost {
				text = "group-s: " + service + " of session"
			}
			judged(t, func(r *roundReport) []violation { return outlivers(r, groupSpec, groupSpec.path()) }, noGhost, text, p)
		})
	}
}

// sawAt is a sighting that was told at a moment.
func sawAt(ms int64, kind sightingKind, czxid, mzxid, old int64) sighting {
	s := saw(kind, nodeA, czxid, mzxid, old)
	s.At = at(ms)
	return s
}

func TestEraPicturesAroundARestore(t *testing.T) {
	t.Parallel()
	created, since := sawAt(25, sawCreated, 1, 1, 0), sawAt(40, sawChanged, 1, 3, 1)
	for name, c := range map[string]struct {
		news   []sighting
		end    int64 // the transaction that made the last state
		broken promise
		want   string
	}{
		"told what is undone, and that it is":           {[]sighting{created, since, sawAt(75, sawChanged, 1, 2, 3), sawAt(80, sawChanged, 1, 6, 2)}, 6, "", ""},
		"told what is undone, and what came instead":    {[]sighting{created, since, sawAt(80, sawChanged, 1, 6, 3)}, 6, "", ""},
		"told the state of the backup once":             {[]sighting{created, sawAt(40, sawChanged, 1, 2, 1), sawAt(80, sawChanged, 1, 6, 2)}, 6, "", ""},
		"told of a deletion that is undone":             {[]sighting{created, sawAt(40, sawDeleted, 0, 0, 1), sawAt(75, sawCreated, 1, 2, 0), sawAt(80, sawChanged, 1, 6, 2)}, 6, "", ""},
		"told the state of the backup again":            {[]sighting{created, sawAt(40, sawChanged, 1, 2, 1), sawAt(75, sawChanged, 1, 2, 2)}, 6, noneReordered, "older than what was told before, or the same"},
		"told a state from before the backup":           {[]sighting{created, since, sawAt(75, sawChanged, 1, 1, 3)}, 6, noneReordered, "older than what was told before"},
		"told what is undone late":                      {[]sighting{created, sawAt(75, sawChanged, 1, 3, 1), sawAt(80, sawChanged, 1, 6, 3)}, 6, "", ""},
		"told an undone state after the backup's":       {[]sighting{created, since, sawAt(75, sawChanged, 1, 2, 3), sawAt(76, sawChanged, 1, 3, 2)}, 6, noneReordered, "which it never was"},
		"told a state of the restored servers too soon": {[]sighting{created, sawAt(40, sawChanged, 1, 6, 1)}, 6, noneReordered, "which it never was"},
		"not told what came after":                      {[]sighting{created, since}, 6, noneMissed, "tree/a as 0x3 of 0x1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := followed(t, concluded, "a", treePicture{Root: nodeA, Since: c.end})
			end.At = at(85)
			p := only(cacheSpec, nil, []event{followed(t, told, "a", c.news), end})
			p.tree("+"+nodeA, "="+nodeA, "="+nodeA, "-"+nodeA)
			p.restore(2)
			p.committed = append(p.committed, treeEntry("="+nodeA, 6))
			judged(t, func(r *roundReport) (found []violation) {
				for _, v := range findInCaches(r) {
					if c.want == "" || v.promise == c.broken {
						found = append(found, v)
					}
				}
				return found
			}, c.broken, c.want, p)
		})
	}
}

// A call that goes on over a restore writes its data again. Caches do not tell that.
func TestEraSameDataAfterARestore(t *testing.T) {
	t.Parallel()
	again := treeEntry("="+nodeA, 6)
	again.record = treeEntry("="+nodeA, 3).record
	for _, next := range []int64{0, 7} {
		news := []sighting{sawAt(25, sawCreated, 1, 1, 0), sawAt(40, sawChanged, 1, 3, 1)}
		if next != 0 {
			news = append(news, sawAt(80, sawChanged, 1, 7, 6))
		}
		end := followed(t, concluded, "a", treePicture{Root: nodeA, Since: max(next, 6)})
		end.At = at(85)
		p := only(cacheSpec, nil, []event{followed(t, told, "a", news), end})
		p.tree("+"+nodeA, "="+nodeA, "="+nodeA)
		p.restore(2)
		p.committed = append(p.committed, again)
		if next != 0 {
			p.committed = append(p.committed, treeEntry("="+nodeA, next))
		}
		kept(t, findInCaches, p)
	}
}

// A picture is as new as its backup at least, and as new as what was committed since.
func TestEraFreshPicturesAroundARestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ms, since, has int64
		want           string
	}{
		"before it, undone":             {40, 3, 3, ""},
		"before it, older":              {40, 3, 2, "which is not its state at 0x3"},
		"after it, of the backup":       {75, 3, 2, ""},
		"after it, undone":              {75, 2, 3, "which is not its state at 0x2"},
		"after it, newer":               {75, 3, 6, ""},
		"after it, older than its past": {75, 3, 1, "which is not its state at 0x2"},
		"after it, older":               {75, 6, 2, "which is not its state at 0x6"},
		"over it, undone":               {-75, 3, 3, ""},
		"over it, of the backup":        {-75, 3, 2, ""},
		"over it, older":                {-75, 3, 1, "which is not its state at 0x3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			picture := followed(t, pictured, "a", treePicture{Root: nodeA, Since: c.since, Nodes: []sighting{there(nodeA, 1, c.has)}})
			if picture.At = at(c.ms); c.ms < 0 { // it was called before
				picture.Called, picture.At = at(45), at(-c.ms)
			}
			p := only(cacheSpec, nil, []event{picture})
			p.tree("+"+nodeA, "="+nodeA, "="+nodeA)
			p.restore(2)
			p.committed = append(p.committed, treeEntry("="+nodeA, 6))
			judged(t, findInCaches, noneStale, c.want, p)
		})
	}
}
