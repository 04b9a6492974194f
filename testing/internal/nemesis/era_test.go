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
	p.restore()
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
	p.restore()
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
	p.restore()
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
	p.restore()
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
			p.restore()
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
			p.restore()
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
		p.restore()
		p.commit(txnCloseSession, 'x', 100, 65, "")
		hasLost(t, p, want)
	}
}
