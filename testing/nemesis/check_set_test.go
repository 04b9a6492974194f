package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSets(t *testing.T) {
	t.Parallel()
	kept(t, sets, goodPlan())
	for what, test := range map[string]struct {
		outcome outcome
		there   []string
		ok      bool
	}{
		"":                              {accepted, []string{"x", "y"}, true},
		"was accepted and is not there": {accepted, []string{"x"}, false},
		"is there more than once":       {accepted, []string{"x", "y", "y"}, false},
		"was refused and is there":      {refused, []string{"x", "y"}, false},
		"refused":                       {refused, []string{"x"}, true},
		"stale":                         {stale, []string{"x"}, true},
		"unknown, and there":            {unknown, []string{"x", "y"}, true},
		"unknown, and not there":        {unknown, []string{"x"}, true},
	} {
		p := goodPlan()
		p.add("a", event{At: at(50), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: test.outcome})
		p.round().Sets["mutex-s"] = test.there
		if test.ok {
			kept(t, sets, p)
			continue
		}
		require.Contains(t, broken(t, sets, noLostUpdate, p), `set of mutex-s: value "y" `+what)
	}
	p := goodPlan()
	p.round().Sets = nil
	require.Contains(t, broken(t, sets, noLostUpdate, p), `value "x" was accepted and is not there`)
}

// setEntry is a transaction that writes to the set of mutex-s.
func setEntry(kind int32, zxid int64, version int32, data string) entry {
	const part = setsFolder + "mutex-s/0000000000"
	var b bytes.Buffer
	if kind == txnSetData {
		put(&b, part, data, version)
	} else {
		put(&b, part, data, int32(0), false, int32(1))
	}
	return entry{transaction{zxid: zxid, kind: kind, record: b.Bytes()}, part}
}

// TestWhatServersLose is no lost update of a lock, if their own logs prove that they have lost it.
func TestWhatServersLose(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("a", event{At: at(50), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: accepted})
	broken(t, sets, noLostUpdate, p)
	require.Empty(t, faultsOfServers(p.load(t)))

	p.committed = append(p.committed, setEntry(txnCreate, 21, 0, ""), setEntry(txnSetData, 22, 1, "x\n"), setEntry(txnSetData, 23, 2, "x\ny\n"))
	kept(t, sets, p)
	require.Contains(t, faultsOfServers(p.load(t))[0], "1 updates that a majority has in its logs were not there in the end")

	p.committed = append(p.committed, setEntry(txnSetData, 24, 3, "x\nz\n"))
	require.Contains(t, broken(t, sets, noLostUpdate, p), `value "y" was accepted and is not there`)
	require.Empty(t, faultsOfServers(p.load(t)))
	p.round().Left.Phantoms = []string{node("mutex-s", "lock-", 7)}
	broken(t, sets, noLostUpdate, p) // that servers do not agree proves nothing
}
