package main

import (
	"encoding/binary"
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

// TestWhatServersLose is no lost update of a lock: their own logs have it, and they do not
// have the same nodes.
func TestWhatServersLose(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("a", event{At: at(50), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "a/lost#0", Outcome: accepted})
	r := p.load(t)
	require.Len(t, sets(r), 1)
	r.log.appended["a/lost#0"] = true
	require.Len(t, sets(r), 1, "servers that agree have lost nothing")
	r.record.Left.Phantoms = []string{"/nemesis/locks/mutex-s/_c_0-lock-0000000001"}
	require.Empty(t, sets(r))
	require.Contains(t, faultsOfServers(r)[0], "1 nodes that one of them had and the others had not, such as /nemesis/locks/mutex-s/_c_0-lock-0000000001; 1 updates")
	delete(r.log.appended, "a/lost#0")
	require.Len(t, sets(r), 1, "no server has ever had it")
	r.record.Left.LockNodes = 1
	require.Empty(t, leftBehind(r), "the log knows of none")

	record := binary.BigEndian.AppendUint32(nil, uint32(len(setsFolder)+1))
	record = append(record, setsFolder+"x"...)
	record = binary.BigEndian.AppendUint32(record, 8)
	record = append(record, "one\ntwo\n"...)
	log, err := replay([]transaction{{kind: txnSetData, record: record}})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"two": true}, log.appended)
}
