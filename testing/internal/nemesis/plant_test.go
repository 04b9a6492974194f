// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// at is a moment of a round, in milliseconds since it began.
func at(ms int64) int64 { return (5000 + ms) * int64(time.Millisecond) }

// node is the path of the n-th node in the queue of a lock.
func node(lock, kind string, n int) string {
	return fmt.Sprintf("/nemesis/locks/%s/_c_01234567-89ab-cdef-0123-%012d-%s%010d", lock, n, kind, n)
}

// take is a hold for a plan: acquired and released at these times, called one before and gone one after.
// Its number in the queue is its token.
func take(client, lock string, token int, from, to int64) []event {
	id := fmt.Sprintf("%s/%s/%d", client, lock, token)
	return []event{
		{At: at(from - 1), Kind: called, Hold: id, Lock: lock},
		{
			At: at(from), Kind: acquired, Hold: id + "#0", Lock: lock, Owner: id + "#0", Called: at(from - 1),
			Token: int64(token), Node: node(lock, "lock-", token), Session: int64(client[0]),
		},
		{At: at(to), Kind: releasing, Hold: id + "#0", Lock: lock, LastValid: at(to)},
		{At: at(to + 1), Kind: released, Hold: id + "#0", Lock: lock},
	}
}

// change changes the acquisition of a hold.
func change(events []event, f func(*event)) []event {
	f(&events[1])
	return events
}

// plan is a campaign of one round, as it will be saved.
type plan struct {
	record    campaignRecord
	events    map[string][]event
	committed []entry // of the transaction log
	alone     []entry // that one server has besides

	undone map[string][]entry // the log of before each restore, by its folder
}

// add adds events to the history of a client.
func (p *plan) add(client string, events ...event) {
	p.events[client] = append(p.events[client], events...)
}

// round is the only one.
func (p *plan) round() *roundRecord { return &p.record.Rounds[0] }

// goodPlan is a campaign in which nothing went wrong. Its clients are a and b, with
// the sessions 'a' and 'b'.
func goodPlan() *plan {
	p := &plan{events: map[string][]event{}, record: campaignRecord{
		Seed: 7, Versions: []string{"ZooKeeper 3.8.0"}, Start: at(0), End: at(90), Duration: int64(90 * time.Millisecond),
		Kinds: []kindRecord{{Fault: "N1", Name: "kill"}, {Fault: "N12", Name: "disk full", Cannot: "no such thing here"}},
		Rounds: []roundRecord{{
			Folder: "round1", Setup: "plain", SessionTimeout: int64(2 * time.Second), Tick: int64(500 * time.Millisecond),
			Start: at(0), Calm: at(80), End: at(90), WallOffset: int64(time.Hour),
			Locks: []lockSpec{
				{Name: "mutex-s", Workload: "mutex"},
				{Name: "reentrant-s", Workload: "reentrant"},
				{Name: "handoff-s", Workload: "handoff"},
				{Name: "readwrite-s", Workload: "readwrite"},
				{Name: "semaphore-s", Workload: "semaphore", Permits: 2},
			},
			Faults: []faultRecord{{Fault: "N1", Name: "kill", Detail: "server 2", Start: at(20), End: at(30)}},
			Sets:   map[string][]string{"mutex-s": {"x"}},
		}},
	}}
	p.add("a", event{At: at(1), Kind: connected, Session: 'a'})
	p.add("b", event{At: at(1), Kind: connected, Session: 'b'})
	p.add("a", take("a", "mutex-s", 1, 5, 10)...)
	p.add("a", event{At: at(7), Kind: appended, Hold: "a/mutex-s/1#0", Lock: "mutex-s", Value: "x", Outcome: accepted})
	p.add("b", take("b", "mutex-s", 2, 11, 15)...)
	p.add("a", take("a", "mutex-s", 3, 31, 35)...)
	p.closeAll(90)
	for n, session := range []int64{'a', 'b', 'a'} {
		p.commit(txnCreate2, session, int64(n)+1, 0, node("mutex-s", "lock-", n+1))
	}
	p.commit(txnDelete, 'a', 11, 10, node("mutex-s", "lock-", 1))
	p.commit(txnDelete, 'b', 12, 15, node("mutex-s", "lock-", 2))
	p.commit(txnCloseSession, 'a', 13, 36, "")
	return p
}

// closeAll ends the clients' histories.
func (p *plan) closeAll(ms int64) {
	for client := range p.events {
		p.add(client, event{At: at(ms), Kind: quiet}, event{At: at(ms), Kind: closed})
	}
}

// commit adds a transaction, at a time of the round.
func (p *plan) commit(kind int32, session, zxid, ms int64, path string) {
	wall := (at(ms) + p.round().WallOffset) / int64(time.Millisecond)
	p.committed = append(p.committed, entry{transaction{session: session, zxid: zxid, time: wall, kind: kind}, path})
}

// restore kills the servers at 50, and restores them from a backup of 30, which has the transactions up to 20. What
// is committed later is of the next era. Clients reach it at 70.
func (p *plan) restore() {
	const folder, base = "log-50", 20
	p.undone = map[string][]entry{folder: slices.Clone(p.committed)}
	p.committed = slices.DeleteFunc(p.committed, func(e entry) bool { return e.zxid > base })
	p.round().Faults = append(p.round().Faults, faultRecord{
		Fault: "N18", Start: at(30), End: at(71), Backup: at(30), Down: at(50), Up: at(70), Log: folder,
	})
}

// only is a plan with these locks and histories and no server's log.
func only(lock lockSpec, faults []faultRecord, histories ...[]event) *plan {
	p := goodPlan()
	p.events, p.committed = map[string][]event{}, nil
	p.round().Locks, p.round().Faults, p.round().Sets = []lockSpec{lock}, faults, nil
	for i, events := range histories {
		p.add(fmt.Sprintf("client%d", i), events...)
	}
	p.closeAll(90)
	return p
}

// save writes the plan as a campaign does, and returns the folder.
func (p *plan) save(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	p.round().Clients = slices.Sorted(maps.Keys(p.events))
	if p.committed == nil {
		p.round().WallOffset = 0
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, campaignFile), must.Get(json.Marshal(p.record))(t), 0o600))
	round := filepath.Join(folder, p.round().Folder)
	require.NoError(t, os.Mkdir(round, 0o700))
	for client, events := range p.events {
		h := must.Get(createHistory(filepath.Join(round, client+".jsonl"), client))(t)
		for _, e := range events {
			h.add(e)
		}
		require.NoError(t, h.close())
	}
	if p.committed == nil {
		return folder
	}
	for folder, entries := range p.undone {
		for _, server := range []string{"1", "2", "3"} {
			saveLog(t, filepath.Join(round, folder, server), entries)
		}
	}
	for _, server := range []string{"1", "2"} {
		saveLog(t, filepath.Join(round, "log", server), p.committed)
	}
	saveLog(t, filepath.Join(round, "log", "3"), slices.Concat(p.committed, p.alone))
	return folder
}

// load saves the plan and returns its round as the checks see it.
func (p *plan) load(t *testing.T) *roundReport {
	t.Helper()
	r := must.Get(loadRound(filepath.Join(p.save(t), p.round().Folder), *p.round()))(t)
	return r
}

// kept requires that a check finds nothing.
func kept(t *testing.T, c func(*roundReport) []violation, p *plan) {
	t.Helper()
	require.Empty(t, c(p.load(t)))
}

// broken requires that a check finds one violation of this promise, and returns its text.
func broken(t *testing.T, c func(*roundReport) []violation, want promise, p *plan) string {
	t.Helper()
	found := c(p.load(t))
	require.Len(t, found, 1)
	require.Equal(t, want, found[0].promise)
	return found[0].String()
}

// created is the record of a creation. The zxid stands for the cversion of the parent, which rises as well.
func created(node, data string, zxid int64) []any {
	return []any{node, data, int32(1), int32(31), "world", "anyone", false, int32(zxid)}
}
