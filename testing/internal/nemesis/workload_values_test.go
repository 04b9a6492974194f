// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	counterSpec = lockSpec{Name: "counter-s", Workload: "counter"}
	queueSpec   = lockSpec{Name: "queue-s", Workload: "queue"}
	barrierSpec = lockSpec{Name: "barrier-s", Workload: "barrier"}
)

// valuesPlan is a campaign of one recipe by the clients a, b and c, with the
// sessions 'a', 'b' and 'c'.
func valuesPlan(spec lockSpec) *plan {
	p := only(spec, nil)
	for _, client := range []string{"a", "b", "c"} {
		p.add(client, event{At: at(1), Kind: connected, Session: int64(client[0])})
	}
	// There is a log, though the recipe may have done nothing.
	p.commit(txnCreate2, 'z', 1, 1, "/nemesis/elsewhere")
	p.commit(txnDelete, 'z', 2, 2, "/nemesis/elsewhere")
	return p
}

// transaction adds one of these data to the log.
func (p *plan) transaction(kind int32, client string, zxid, ms int64, record ...any) {
	var b bytes.Buffer
	put(&b, record...)
	p.commit(kind, int64(client[0]), zxid, ms, "")
	p.committed[len(p.committed)-1].record = b.Bytes()
}

// createNode commits the creation of a persistent node.
func (p *plan) createNode(client string, zxid, ms int64, node, data string) {
	p.transaction(txnCreate2, client, zxid, ms, created(node, data, zxid)...)
}

// created is the record of a creation. The zxid stands for the cversion of the parent, which rises as well.
func created(node, data string, zxid int64) []any {
	return []any{node, data, int32(1), int32(31), "world", "anyone", false, int32(zxid)}
}

// setNode commits a write of a persistent node.
func (p *plan) setNode(client string, zxid int64, node, data string, version int32) {
	p.transaction(txnSetData, client, zxid, 10, node, data, version)
}

func (p *plan) deleteNode(client string, zxid int64, node string) {
	p.transaction(txnDelete, client, zxid, 10, node)
}

// aside makes the last transaction one that a single server has.
func (p *plan) aside() {
	last := len(p.committed) - 1
	p.alone = append(p.alone, p.committed[last])
	p.committed = p.committed[:last]
}

// countTo commits a write of the counter.
func (p *plan) countTo(client string, zxid int64, version int32, n int64) {
	data := string(binary.BigEndian.AppendUint64(nil, uint64(n)))
	if version == 0 {
		p.createNode(client, zxid, 10, counterSpec.path(), data)
		return
	}
	p.setNode(client, zxid, counterSpec.path(), data, version)
}

// increments records a turn at the counter with an acknowledged increment to each
// of these numbers, and so many others with another outcome.
func (p *plan) increments(client string, others int, result outcome, to ...int64) {
	p.add(client, event{At: at(5), Kind: adding, Lock: counterSpec.Name, Token: int64(others + len(to))})
	for _, n := range to {
		p.add(client, event{
			At: at(6), Kind: incremented, Lock: counterSpec.Name, Token: n, Value: strconv.FormatInt(n-1, 10), Outcome: accepted,
		})
	}
	for range others {
		if result != "" {
			p.add(client, event{At: at(6), Kind: incremented, Lock: counterSpec.Name, Value: "0", Outcome: result})
		}
	}
}

func TestWorkloadValuesIncrementsInTheLog(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return wrongCounts(r, counterSpec) }
	for name, c := range map[string]struct {
		plant  func(*plan)
		broken promise
		count  int
		want   string
	}{
		"each in its write": {plant: func(*plan) {}},
		"lost": {
			func(p *plan) { p.increments("b", 0, "", 6) }, noLostIncrement, 1,
			"the increment of b to 6 is not in the value 5",
		},
		"overwritten": {
			func(p *plan) { p.countTo("b", 30, 3, 5); p.increments("b", 0, "", 5) }, noLostIncrement, 1,
			"the increment of b to 5 is not in the value 5, or another one has that number",
		},
		"one number twice": {func(p *plan) { p.increments("a", 0, "", 2) }, noLostIncrement, 1, "the increment of a to 2"},
		"another's number": {
			func(p *plan) { p.countTo("a", 30, 3, 6); p.increments("a", 1, unknown); p.increments("b", 0, "", 6) },
			noLostIncrement, 1, "the increment of b to 6",
		},
		"numbers that are no step": {func(p *plan) {
			p.countTo("a", 30, 3, 6)
			p.increments("a", 0, "", 6)
			events := p.events["a"]
			events[len(events)-1].Value = "3"
			p.increments("a", 1, unknown)
		}, noLostIncrement, 1, "was from 3 to 6"},
		"counted twice": {
			func(p *plan) { p.countTo("a", 30, 3, 6) }, noDoubleIncrement, 1,
			`1 increments of client "a" are in the value 6 that it does not know of, and 0 are in doubt`,
		},
		"refused, and counted": {
			func(p *plan) { p.countTo("a", 30, 3, 6); p.increments("a", 1, refused) }, noDoubleIncrement, 1,
			"and 0 are in doubt",
		},
		"in doubt, and counted":     {plant: func(p *plan) { p.countTo("a", 30, 3, 6); p.increments("a", 1, unknown) }},
		"in doubt, and not counted": {plant: func(p *plan) { p.increments("a", 3, unknown) }},
		"killed, and counted":       {plant: func(p *plan) { p.countTo("a", 30, 3, 7); p.increments("a", 2, "") }},
		"another's doubt": {
			func(p *plan) { p.countTo("a", 30, 3, 6); p.increments("b", 1, unknown) }, noDoubleIncrement, 1,
			`1 increments of client "a"`,
		},
		"in doubt once, counted twice": {
			func(p *plan) { p.countTo("a", 30, 3, 7); p.increments("a", 1, unknown) }, noDoubleIncrement, 1,
			"and 1 are in doubt",
		},
		"a client that is not known": {func(p *plan) { p.countTo("x", 30, 3, 6) }, noDoubleIncrement, 1, `client ""`},
		"far too many":               {func(p *plan) { p.countTo("a", 30, 3, 999) }, noDoubleIncrement, 994, "adds 994, of 5 that were asked for"},

		// What servers have lost is no fault of the recipe.
		"cut off a log":                {plant: func(p *plan) { p.increments("b", 0, "", 6); p.countTo("b", 30, 3, 6); p.aside() }},
		"cut off a log by another one": {func(p *plan) { p.increments("b", 0, "", 6); p.countTo("a", 30, 3, 6); p.aside() }, noLostIncrement, 1, "of b to 6"},
		"read from a snapshot": {plant: func(p *plan) {
			p.increments("b", 0, "", 6, 7)
			p.countTo("b", 30, 3, 6)
			p.aside()
			p.countTo("b", 31, 4, 7)
		}},
		"taken back by the servers": {plant: func(p *plan) {
			p.increments("b", 0, "", 6)
			p.increments("c", 0, "", 6)
			p.countTo("b", 30, 3, 6)
			p.countTo("c", 40, 3, 6)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(counterSpec)
			p.countTo("a", 10, 0, 2)
			p.countTo("b", 11, 1, 3)
			p.countTo("a", 12, 2, 5)
			p.increments("a", 0, "", 1, 2)
			p.increments("b", 0, "", 3)
			p.increments("a", 0, "", 5, 4)
			c.plant(p)
			if c.want == "" {
				kept(t, find, p)
				return
			}
			require.Contains(t, broken(t, find, c.broken, p), c.want)
			require.Contains(t, breaches(t, p, c.broken), fmt.Sprintf(" %s=%d", c.broken, c.count))
		})
	}
}

// offer records an item that was put into a queue, and commits its znode.
func (p *plan) offer(client, queue, item string, zxid int64, result outcome) {
	p.add(client, event{At: at(5), Kind: offered, Lock: queueSpec.Name, Owner: queue, Value: item, Outcome: result})
	if zxid != 0 {
		p.createNode(client, zxid, 5, itemNode(queue, zxid), "envelope"+item+"end")
	}
}

func itemNode(queue string, zxid int64) string {
	return fmt.Sprintf("%s/%s/queue-%010d", queueSpec.path(), queue, zxid)
}

func (p *plan) consume(client, queue, item string, result outcome) {
	p.add(client, event{At: at(8), Kind: consumed, Lock: queueSpec.Name, Owner: queue, Value: item, Outcome: result})
}

// lockItem commits the lock of an item.
func (p *plan) lockItem(client string, zxid, item int64) string {
	lock := fmt.Sprintf("%s/%s/queue-%010d", queueSpec.path(), itemLocks, item)
	p.commit(txnCreate2, int64(client[0]), zxid, 6, lock)
	return lock
}

// A queue that deletes an item after it was consumed.
func TestWorkloadValuesDeliveriesOfLockedItems(t *testing.T) {
	t.Parallel()
	const item = "item:a/1;"
	find := func(r *roundReport) []violation { return wrongDeliveries(r, queueSpec) }
	node := itemNode(lockedItems, 10)
	for name, c := range map[string]struct {
		plant  func(*plan)
		broken promise
		want   string
	}{
		"consumed once":  {plant: func(p *plan) { p.consume("b", lockedItems, item, accepted); p.deleteNode("b", 20, node) }},
		"never consumed": {plant: func(*plan) {}},
		"consumed twice": {func(p *plan) {
			p.consume("b", lockedItems, item, accepted)
			p.consume("c", lockedItems, item, accepted)
			p.deleteNode("c", 20, node)
		}, noDuplicate, "was consumed 2 times, and 0 sessions were closed that had its lock"},
		"consumed again after the end of a session": {plant: func(p *plan) {
			p.lockItem("b", 15, 10)
			p.consume("b", lockedItems, item, accepted)
			p.commit(txnCloseSession, 'b', 16, 9, "")
			p.consume("c", lockedItems, item, accepted)
			p.deleteNode("c", 20, node)
		}},
		"consumed again though it was unlocked": {func(p *plan) {
			lock := p.lockItem("b", 15, 10)
			p.consume("b", lockedItems, item, accepted)
			p.commit(txnDelete, 'b', 16, 9, lock)
			p.commit(txnCloseSession, 'b', 17, 9, "")
			p.consume("c", lockedItems, item, accepted)
			p.deleteNode("c", 20, node)
		}, noDuplicate, "was consumed 2 times"},
		"deleted and not consumed": {func(p *plan) { p.deleteNode("b", 20, node) }, noLostItem, "is gone, and was not consumed"},
		"failed and deleted": {
			func(p *plan) { p.consume("b", lockedItems, item, refused); p.deleteNode("b", 20, node) },
			noLostItem, "is gone, and was not consumed",
		},
		"failed, put back and consumed": {plant: func(p *plan) {
			p.consume("b", lockedItems, item, refused)
			p.transaction(txnMulti, "b", 20, 10, int32(2), int32(txnDelete), encoded(node), int32(txnCreate2), encoded(created(itemNode(lockedItems, 20), item, 20)...))
			p.consume("c", lockedItems, item, accepted)
			p.deleteNode("c", 21, itemNode(lockedItems, 20))
		}},
		"put back in two steps": {func(p *plan) {
			p.consume("b", lockedItems, item, refused)
			p.createNode("b", 20, 10, itemNode(lockedItems, 20), item)
			p.deleteNode("b", 21, node)
		}, noDuplicate, "is there 2 times"},
		"acknowledged, and not there": {func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 0, accepted) }, noLostItem, "no server has it"},
		"refused, and not there":      {plant: func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 0, refused) }},
		"in doubt, and not there":     {plant: func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 0, unknown) }},
		"in doubt, and there":         {plant: func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 30, unknown) }},
		"refused, and there":          {func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 30, refused) }, noDuplicate, "was refused, and is in the queue"},
		"acknowledged, and cut off":   {plant: func(p *plan) { p.offer("b", lockedItems, "item:b/1;", 30, accepted); p.aside() }},
		"put twice":                   {func(p *plan) { p.createNode("a", 30, 10, itemNode(lockedItems, 30), item) }, noDuplicate, "is there 2 times"},
		"several in a znode, one twice": {func(p *plan) {
			p.offer("b", lockedItems, "item:b/1;item:b/2;", 30, "")
			p.events["b"] = slices.DeleteFunc(p.events["b"], func(e event) bool { return e.Kind == offered })
			p.consume("c", lockedItems, "item:b/1;", accepted)
			p.consume("c", lockedItems, "item:b/1;", accepted)
		}, noDuplicate, "item:b/1; was consumed 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(queueSpec)
			p.offer("a", lockedItems, item, 10, accepted)
			c.plant(p)
			if c.want == "" {
				kept(t, find, p)
				return
			}
			require.Contains(t, broken(t, find, c.broken, p), c.want)
			require.Contains(t, breaches(t, p, c.broken), fmt.Sprintf(" %s=1", c.broken))
		})
	}
}

// encoded is a record as a part of a transaction has it.
func encoded(record ...any) string {
	var b bytes.Buffer
	put(&b, record...)
	return b.String()
}

// A queue that deletes an item before it is consumed.
func TestWorkloadValuesDeliveriesOfSimpleItems(t *testing.T) {
	t.Parallel()
	const item = "item:a/1;"
	find := func(r *roundReport) []violation { return wrongDeliveries(r, queueSpec) }
	node := itemNode(simpleItems, 10)
	for name, c := range map[string]struct {
		plant  func(*plan)
		broken promise
		want   string
	}{
		"consumed once":  {plant: func(p *plan) { p.deleteNode("b", 20, node); p.consume("b", simpleItems, item, accepted) }},
		"never consumed": {plant: func(*plan) {}},
		"consumed twice": {func(p *plan) {
			p.deleteNode("b", 20, node)
			p.consume("b", simpleItems, item, accepted)
			p.consume("c", simpleItems, item, accepted)
		}, noDuplicate, "was consumed 2 times"},
		"consumed, and still there": {
			func(p *plan) { p.consume("b", simpleItems, item, accepted) }, noDuplicate,
			"was consumed by b, and is still in the queue",
		},
		"consumed by one, deleted by another": {func(p *plan) {
			p.deleteNode("b", 20, node)
			p.consume("b", simpleItems, item, unknown)
			p.consume("c", simpleItems, item, accepted)
		}, noDuplicate, "was consumed by c, and deleted by b"},
		"lost": {func(p *plan) { p.deleteNode("b", 20, node) }, noLostItem, "was deleted by b, which does not have it"},
		"lost with its consumer": {plant: func(p *plan) {
			p.deleteNode("b", 20, node)
			p.round().Faults = []faultRecord{{Clients: []string{"b"}, Killed: true, Start: at(7), End: at(8)}}
		}},
		"in doubt, and deleted": {plant: func(p *plan) { p.deleteNode("b", 20, node); p.consume("b", simpleItems, item, unknown) }},
		"in doubt, and there":   {plant: func(p *plan) { p.consume("b", simpleItems, item, unknown) }},
		"in doubt with one, consumed by another": {plant: func(p *plan) {
			p.deleteNode("c", 20, node)
			p.consume("b", simpleItems, item, unknown)
			p.consume("c", simpleItems, item, accepted)
		}},
		"its deletion was cut off": {plant: func(p *plan) { p.consume("b", simpleItems, item, accepted); p.deleteNode("b", 20, node); p.aside() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(queueSpec)
			p.offer("a", simpleItems, item, 10, accepted)
			c.plant(p)
			if c.want == "" {
				kept(t, find, p)
				return
			}
			require.Contains(t, broken(t, find, c.broken, p), c.want)
			require.Contains(t, breaches(t, p, c.broken), fmt.Sprintf(" %s=1", c.broken))
		})
	}
}

// member commits a member of the barrier, and records that it has passed, if so.
func (p *plan) member(client string, zxid, ms, passed int64) {
	p.commit(txnCreate2, int64(client[0]), zxid, ms, memberNode(zxid))
	if passed != 0 {
		p.add(client, event{At: at(passed), Kind: entered, Lock: barrierSpec.Name, Owner: client, Called: at(ms - 1), Outcome: accepted})
	}
}

func memberNode(zxid int64) string { return fmt.Sprintf("%s/member-%d", barrierSpec.path(), zxid) }

// leaves commits that a member has left, and records that its Leave has returned.
func (p *plan) leaves(client string, member, zxid, ms, returned int64) {
	p.commit(txnDelete, int64(client[0]), zxid, ms, memberNode(member))
	p.add(client, event{At: at(returned), Kind: left, Lock: barrierSpec.Name, Owner: client, Outcome: accepted})
}

func TestWorkloadValuesBarrierLeaks(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return barrierLeaks(r, barrierSpec) }
	ready := barrierSpec.path() + "/ready"
	together := func(p *plan) {
		p.member("a", 10, 10, 20)
		p.member("b", 11, 11, 20)
		p.member("c", 12, 12, 20)
		p.createNode("c", 13, 14, ready, "")
	}
	for name, c := range map[string]struct {
		plant func(*plan)
		want  string
	}{
		"together": {plant: together},
		"a round": {plant: func(p *plan) {
			together(p)
			p.leaves("a", 10, 20, 30, 40)
			p.leaves("b", 11, 21, 31, 40)
			p.leaves("c", 12, 22, 32, 40)
			p.deleteNode("c", 23, ready)
		}},
		"two only": {func(p *plan) {
			p.member("a", 10, 10, 20)
			p.member("b", 11, 11, 20)
			p.createNode("b", 13, 14, ready, "")
		}, "was made by one of 2 members, expected 3"},
		"never all at one time": {func(p *plan) {
			p.member("a", 10, 10, 0)
			p.commit(txnDelete, 'a', 11, 11, memberNode(10))
			p.member("b", 12, 12, 20)
			p.member("c", 13, 13, 20)
			p.createNode("c", 14, 14, ready, "")
		}, "was made by one of 2 members, expected 3"},
		"one has gone since it was counted": {plant: func(p *plan) {
			p.member("a", 10, 10, 0)
			p.member("b", 11, 11, 20)
			p.member("c", 12, 12, 20)
			p.commit(txnDelete, 'a', 13, 13, memberNode(10))
			p.createNode("c", 14, 14, ready, "")
		}},
		"before the opening": {func(p *plan) {
			p.member("a", 10, 10, 12)
			p.member("b", 11, 15, 0)
			p.member("c", 12, 16, 0)
			p.createNode("c", 13, 20, ready, "")
		}, "a has passed by " + memberNode(10) + ", and nothing had opened the barrier"},
		"a latecomer": {plant: func(p *plan) { together(p); p.member("a", 15, 30, 31) }},
		"by a round that is dead": {func(p *plan) {
			together(p)
			for n := range int64(3) {
				p.commit(txnDelete, 'a'+n, 20+n, 25, memberNode(10+n))
			}
			p.member("b", 30, 30, 31)
		}, "b has passed by " + memberNode(30)},
		"after the closing": {func(p *plan) {
			together(p)
			p.deleteNode("x", 14, ready)
			p.member("b", 30, 30, 31)
		}, "b has passed by " + memberNode(30)},
		"by an opening that was cut off": {plant: func(p *plan) {
			p.member("a", 10, 10, 20)
			p.createNode("b", 13, 14, ready, "")
			p.aside()
		}},
		"left too early": {func(p *plan) {
			together(p)
			p.leaves("a", 10, 20, 30, 40)
			p.leaves("b", 11, 21, 50, 60)
			p.leaves("c", 12, 22, 51, 60)
		}, "a has left while " + memberNode(12) + " of session 0x63 was there"},
		"was told, and the node is gone": {plant: func(p *plan) {
			together(p)
			p.deleteNode("x", 14, ready)
			p.leaves("a", 10, 20, 30, 40)
		}},
		"left, and one has never gone": {func(p *plan) { together(p); p.leaves("c", 12, 20, 30, 40) }, "c has left while " + memberNode(11)},
		"left, and the next round has begun": {plant: func(p *plan) {
			together(p)
			p.commit(txnDelete, 'b', 18, 25, memberNode(11))
			p.commit(txnDelete, 'c', 19, 25, memberNode(12))
			p.leaves("a", 10, 20, 30, 40)
			p.deleteNode("a", 21, ready)
			p.member("b", 30, 35, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(barrierSpec)
			c.plant(p)
			if c.want == "" {
				kept(t, find, p)
				return
			}
			require.Contains(t, broken(t, find, noBarrierLeak, p), c.want)
			require.Contains(t, breaches(t, p, noBarrierLeak), " barrier_leaks=1")
		})
	}
}

// What was done is counted by the acknowledged events.
func TestWorkloadValuesUsesOfRecipesWithoutHolds(t *testing.T) {
	t.Parallel()
	p := valuesPlan(counterSpec)
	p.increments("a", 2, unknown, 1, 2, 3)
	happened := newTotals()
	happened.add(p.load(t))
	require.Equal(t, 3, happened.perWorkload["counter"])
}
