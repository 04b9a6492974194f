// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// hasLost requires that the servers of a round have lost something, in this text, or nothing.
func hasLost(t *testing.T, p *plan, want string) {
	t.Helper()
	found := p.load(t).losses()
	if want == "" {
		require.Empty(t, found)
		return
	}
	require.Len(t, found, 1)
	require.Equal(t, want, found[0])
}

// What servers still have in the end was left behind, unless their logs had deleted it before.
func TestLossesWhatServersDeleted(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	deleted := node("mutex-s", "lock-", 1)
	p.round().Left = leftovers{Ephemerals: 1, LockNodes: 1, Nodes: []string{deleted}}
	hasLost(t, p, "1 nodes that they had deleted, such as "+deleted)
	p.round().Calm = at(10) // which does not show that they have it back: they were deleting it
	hasLost(t, p, "")
	p.round().Calm = at(80)
	p.round().Left.Nodes = []string{node("mutex-s", "lock-", 9)} // of which their logs know nothing
	hasLost(t, p, "")
}

// A hold by a node that no majority has in its logs shows that one had it: nobody else creates nodes.
func TestLossesWhatServersCutOff(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("a", take("a", "mutex-s", 9, 50, 60)...)
	hasLost(t, p, "") // no server has ever had it
	own := node("mutex-s", "lock-", 9)
	p.alone = []entry{{transaction{session: 'a', zxid: 30, kind: txnCreate2}, own}}
	hasLost(t, p, "1 holds by nodes that were cut off the logs, such as "+own)
	p.committed = append(p.committed, p.alone...)
	hasLost(t, p, "")

	p = goodPlan()
	p.alone = []entry{{transaction{session: 'a', zxid: 30, kind: txnCreate2}, own}}
	hasLost(t, p, "") // proposed by a leader that fell, and acknowledged to nobody
}

// A node that was proposed by a leader that fell can be in the logs of a majority, and yet not be in the tree of
// the next leader, which then deletes its folder, or gives its number to another node.
func TestLossesNodesThatALeaderDidNotHave(t *testing.T) {
	t.Parallel()
	own, folder := node("mutex-s", "lock-", 9), path.Dir(node("mutex-s", "lock-", 9))
	creation := func(zxid int64, path string) entry {
		return entry{transaction{session: 'c', zxid: zxid, kind: txnCreate2}, path}
	}
	deletion := func(zxid int64, path string) entry {
		return entry{transaction{session: 'd', zxid: zxid, kind: txnDelete}, path}
	}
	lost := "1 nodes that a later leader did not have, such as " + own

	t.Run("its folder is deleted", func(t *testing.T) {
		t.Parallel()
		p := goodPlan()
		p.committed = append(p.committed, creation(30, own), entry{transaction{zxid: 31, kind: txnDeleteContainer}, folder})
		hasLost(t, p, lost)
	})
	var inner bytes.Buffer
	put(&inner, int32(1), int32(txnDelete), deletion(0, own).body())
	for how, gone := range map[string]entry{
		"deleted":              deletion(31, own),
		"deleted with others":  {transaction{zxid: 31, kind: txnMulti, record: inner.Bytes()}, ""},
		"ended by its session": {transaction{zxid: 31, kind: txnCloseSession, session: 'c'}, ""},
	} {
		t.Run(how+" before its folder", func(t *testing.T) {
			t.Parallel()
			p := goodPlan()
			p.committed = append(p.committed, creation(30, own), gone, deletion(32, folder))
			hasLost(t, p, "")
		})
	}

	t.Run("its number is given again", func(t *testing.T) {
		t.Parallel()
		p := goodPlan()
		other := creation(31, node("mutex-s", "lock-", 10))
		p.committed = append(p.committed, creation(30, own), other)
		hasLost(t, p, "")
		p.committed[len(p.committed)-1].record = []byte(creation(30, other.path).body()) // counts the folder's children as own does
		hasLost(t, p, lost)
	})
	t.Run("its number is given again in another folder", func(t *testing.T) {
		t.Parallel()
		p := goodPlan()
		again := creation(33, node("mutex-s", "lock-", 10))
		again.record = []byte(creation(30, again.path).body())
		p.committed = append(p.committed, creation(30, own), deletion(31, own), deletion(32, folder), again)
		hasLost(t, p, "")
	})
}

// setEntry is a transaction that writes to the set of mutex-s.
func setEntry(kind int32, zxid int64, version int32, data string) entry {
	const part = setsFolder + "mutex-s/0000000000"
	var b bytes.Buffer
	if kind == txnSetData {
		put(&b, part, data, version)
	} else {
		put(&b, created(part, data, zxid)...)
	}
	return entry{transaction{zxid: zxid, kind: kind, record: b.Bytes()}, part}
}

// An update is lost by the servers if their own logs prove it, and by the lock otherwise.
func TestLossesWhatServersForget(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("a", event{At: at(50), Kind: appended, Hold: "a/mutex-s/3#0", Lock: "mutex-s", Value: "y", Outcome: accepted})
	hasLost(t, p, "")
	p.committed = append(p.committed, setEntry(txnCreate, 21, 0, ""), setEntry(txnSetData, 22, 1, "x\n"), setEntry(txnSetData, 23, 2, "x\ny\n"))
	hasLost(t, p, "1 updates that a majority has in its logs, and that are not there, such as y")
	p.committed = append(p.committed, setEntry(txnSetData, 24, 3, "x\nz\n"))
	hasLost(t, p, "") // somebody has written over it who had not read it
	broken(t, sets, noLostUpdate, p)
}

// Of a round whose servers have lost something nothing counts but what clients know among themselves.
func TestLossesVoidRound(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.round().Left.Phantoms = []string{"/a"}
	p.round().Sets["mutex-s"] = nil
	p.round().Stuck = []string{"a mutex-s"}
	p.round().After.LockNodes = 1
	p.events["b"][len(p.events["b"])-1].Unconfirmed = "no server answers"
	p.committed = p.committed[:1]
	var page strings.Builder
	require.EqualError(t, judge(&page, p.save(t)), "nemesis: acquisitions is 0, must be at least 3", "which is what must be done in another round")
	require.Contains(t, page.String(), "round1 is void, for its servers have lost what they had acknowledged: 1 nodes on which the servers do not agree, such as /a (7 violations by what these servers say do not count)\n")
	require.Equal(t, "acquisitions=0 faults=0 kinds=0 expirations=0 lost_while_held=0 cleanups_max=0"+zeros, lastLine(page.String()))

	p = goodPlan()
	p.round().Left.Phantoms = []string{"/a"}
	p.add("a", take("a", "handoff-s", 10, 50, 60)...)
	p.add("b", take("b", "handoff-s", 11, 55, 58)...)
	require.ErrorContains(t, judge(&page, p.save(t)), "nemesis: overlaps is 1, must be 0")
}

// A campaign has another round in the place of one that is void, and after the last one if too little has
// happened.
func TestLossesMoreRounds(t *testing.T) {
	t.Parallel()
	first, second := setup{seed: 7, tls: true}, setup{seed: 8}
	for name, test := range map[string]struct {
		setups   []setup
		duration time.Duration
		soak     bool
		void     bool
		want     []setup
		told     string
	}{
		"enough":                  {setups: []setup{first}, want: []setup{first}},
		"void":                    {setups: []setup{first, second}, void: true, want: []setup{first, second, {seed: 9, tls: true}}, told: "in its place"},
		"too little":              {setups: []setup{first}, duration: shortCampaign, want: []setup{first, {seed: 8, tls: true}}, told: "faults 1 of 10, "},
		"too little, a soak":      {setups: []setup{first}, duration: shortCampaign, soak: true, want: []setup{first}},
		"there are others anyway": {setups: []setup{first, second}, duration: shortCampaign, want: []setup{first, second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			progress := func(format string, args ...any) { fmt.Fprintf(&told, format, args...) }
			p := goodPlan()
			p.record.Duration, p.record.Soak = int64(test.duration), test.soak
			if test.void {
				p.round().Left.Phantoms = []string{"/a"}
			}
			folder := filepath.Join(p.save(t), p.round().Folder)
			require.Equal(t, test.want, must.Get(more(progress, folder, p.record, newTotals(), test.setups))(t))
			require.Contains(t, told.String(), test.told)
			require.Equal(t, test.told == "", told.Len() == 0, told.String())
		})
	}
	_, err := more(nil, t.TempDir(), goodPlan().record, newTotals(), []setup{first})
	require.ErrorContains(t, err, "has no history")
}

func TestLossesEphemerals(t *testing.T) {
	t.Parallel()
	dump := "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Fri Nov 20 12:00:00 UTC 2026:\n\t0x1000\n" +
		"ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1000:\n\t/a/b\n\t/c\nConnections dump:\n"
	require.Equal(t, []string{"/a/b", "/c"}, ephemerals(dump))
}
