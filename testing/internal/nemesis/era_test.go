// SPDX-License-Identifier: Apache-2.0

package main

import (
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
