// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkproxy"
)

var cacheSpec = lockSpec{Name: "cache-s", Workload: "cache"}

// The nodes of the plans below.
var (
	theTree = cacheSpec.path() + treeFolder
	nodeA   = theTree + "/a"
	nodeB   = theTree + "/b"
)

// tree commits changes: "+" creates, "=" sets and "-" deletes, with the transactions 1, 2, and so
// on. The data is the number of the transaction.
func (p *plan) tree(changes ...string) {
	for i, change := range changes {
		p.committed = append(p.committed, treeEntry(change, int64(i)+1))
	}
}

func treeEntry(change string, zxid int64) entry {
	var b bytes.Buffer
	path, data := change[1:], dataOf(zxid)
	e := entry{transaction{session: 'a', zxid: zxid}, path}
	switch change[0] {
	case '+':
		e.kind = txnCreate2
		put(&b, created(path, data, zxid)...)
	case '=':
		e.kind = txnSetData
		put(&b, path, data, int32(1))
	case '-':
		e.kind = txnDelete
		put(&b, path)
	case '*': // deletes and creates
		e.kind = txnMulti
		put(&b, int32(2))
		for _, part := range []string{"-" + path, "+" + path} {
			inner := treeEntry(part, zxid)
			put(&b, inner.kind, string(inner.record))
		}
	}
	e.record = b.Bytes()
	return e
}

func dataOf(zxid int64) string { return string(rune('0' + zxid)) }

// saw is a state of a node.
func saw(kind sightingKind, path string, czxid, mzxid, old int64) sighting {
	s := sighting{Kind: kind, Path: path, Czxid: czxid, Mzxid: mzxid, Old: old}
	if mzxid != 0 {
		s.Data = dataOf(mzxid)
	}
	return s
}

func there(path string, czxid, mzxid int64) sighting { return saw("", path, czxid, mzxid, 0) }

// followed is an event of a follower.
func followed(t *testing.T, kind eventKind, owner string, value any) event {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return event{At: at(50), Kind: kind, Lock: cacheSpec.Name, Owner: owner, Value: string(text)}
}

func findInCaches(r *roundReport) []violation { return wrongPictures(r, cacheSpec) }

var changesOfA = []string{"+" + theTree, "+" + nodeA, "=" + nodeA, "-" + nodeA, "+" + nodeB, "+" + nodeA}

func TestWorkloadCacheStalePictures(t *testing.T) {
	t.Parallel()
	root, b := there(theTree, 1, 1), there(nodeB, 5, 5)
	for name, c := range map[string]struct {
		since int64
		nodes []sighting
		want  string
	}{
		"as it is in the end":     {6, []sighting{root, b, there(nodeA, 6, 6)}, ""},
		"as it was later":         {2, []sighting{root, b, there(nodeA, 2, 3)}, ""},
		"deleted since":           {3, []sighting{root, b}, ""},
		"older":                   {3, []sighting{root, there(nodeA, 2, 2)}, "tree/a as 0x2 of 0x2, which is not its state at 0x3 or later"},
		"still there":             {4, []sighting{root, there(nodeA, 2, 3)}, "tree/a as 0x3 of 0x2, which is not its state at 0x4"},
		"not there yet":           {5, []sighting{root}, "tree/b as absent, which is not its state at 0x5"},
		"not there any more":      {6, []sighting{root, b}, "tree/a as absent, which is not its state at 0x6"},
		"of an earlier node":      {6, []sighting{root, b, there(nodeA, 2, 6)}, "tree/a as 0x6 of 0x2"},
		"with other data":         {6, []sighting{root, b, {Path: nodeA, Czxid: 6, Mzxid: 6, Data: "x"}}, "tree/a as 0x6 of 0x6"},
		"of no node there was":    {5, []sighting{root, b, there(theTree+"/c", 5, 5)}, "has " + theTree + "/c, which there never was"},
		"of a transaction of two": {5, []sighting{root, b, there(nodeA, 5, 5)}, "tree/a as 0x5 of 0x5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(cacheSpec, nil, []event{followed(t, pictured, "a", treePicture{Root: theTree, Deep: true, Since: c.since, Nodes: c.nodes})})
			p.tree(changesOfA...)
			if c.want == "" {
				kept(t, findInCaches, p)
				return
			}
			require.Contains(t, broken(t, findInCaches, noneStale, p), c.want)
		})
	}
}

// A picture through a typed view has the nodes of one form only.
func TestWorkloadCachePicturesOfAPattern(t *testing.T) {
	t.Parallel()
	view := treePicture{Root: theTree + "/*", Since: 2, Nodes: []sighting{there(nodeA, 2, 2)}}
	p := only(cacheSpec, nil, []event{followed(t, pictured, "a", view)})
	p.tree("+"+theTree, "+"+nodeA, "+"+nodeA+"/x")
	kept(t, findInCaches, p)
	p.tree("+"+theTree, "+"+nodeA, "+"+nodeB)
	view.Since = 3
	p = only(cacheSpec, nil, []event{followed(t, pictured, "a", view)})
	p.tree("+"+theTree, "+"+nodeA, "+"+nodeB)
	require.Contains(t, broken(t, findInCaches, noneStale, p), "tree/b as absent")
}

func TestWorkloadCacheReorderedNews(t *testing.T) {
	t.Parallel()
	created, changed := saw(sawCreated, nodeA, 2, 2, 0), saw(sawChanged, nodeA, 2, 3, 2)
	deleted, again := saw(sawDeleted, nodeA, 0, 0, 3), saw(sawCreated, nodeA, 6, 6, 0)
	state, absent, trouble := saw(sawState, nodeA, 2, 2, 0), saw(sawState, nodeA, 0, 0, 0), saw(sawTrouble, nodeA, 0, 0, 0)
	for name, c := range map[string]struct {
		news []sighting
		want string
	}{
		"each change":                   {[]sighting{created, changed, deleted, again}, ""},
		"some left out":                 {[]sighting{saw(sawCreated, nodeA, 2, 3, 0), saw(sawChanged, nodeA, 6, 6, 3)}, ""},
		"a loop":                        {[]sighting{absent, state, absent, saw(sawState, nodeA, 6, 6, 0)}, ""},
		"a loop that repeats":           {[]sighting{state, trouble, state, trouble, absent, trouble, absent}, ""},
		"created twice":                 {[]sighting{created, saw(sawCreated, nodeA, 2, 3, 0)}, "and has it as 0x2 of 0x2"},
		"deleted, and was not there":    {[]sighting{deleted}, "which was 0x3, and has it as absent"},
		"changed from another state":    {[]sighting{created, saw(sawChanged, nodeA, 6, 6, 3)}, "which was 0x3, and has it as 0x2"},
		"the same state twice":          {[]sighting{created, saw(sawChanged, nodeA, 2, 2, 2)}, "older than what was told before, or the same"},
		"an older state":                {[]sighting{saw(sawCreated, nodeA, 2, 3, 0), saw(sawChanged, nodeA, 2, 2, 3)}, "older than what was told before"},
		"a state from before a delete":  {[]sighting{created, saw(sawDeleted, nodeA, 0, 0, 2), saw(sawCreated, nodeA, 2, 3, 0)}, "older than what was told before"},
		"a state that it never had":     {[]sighting{saw(sawCreated, nodeA, 5, 5, 0)}, "which it never was"},
		"deleted after its last change": {[]sighting{again, saw(sawDeleted, nodeA, 0, 0, 6)}, "which it was not after that"},
		"a loop that stutters":          {[]sighting{state, state}, "older than what was told before, or the same"},
		"a loop absent twice":           {[]sighting{absent, absent}, "and was told so before"},
		"no news at all":                {[]sighting{saw("rumour", nodeA, 2, 2, 0)}, "which is no news"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(cacheSpec, nil, []event{followed(t, told, "a", c.news[:1]), followed(t, told, "a", c.news[1:])})
			p.tree(changesOfA...)
			if c.want == "" {
				kept(t, findInCaches, p)
				return
			}
			require.Contains(t, broken(t, findInCaches, noneReordered, p), c.want)
		})
	}
}

// A transaction that deletes and creates a node leaves no moment without it.
func TestWorkloadCacheNodeReplacedInATransaction(t *testing.T) {
	t.Parallel()
	news := []sighting{saw(sawCreated, nodeA, 1, 1, 0), saw(sawChanged, nodeA, 2, 2, 1)}
	p := only(cacheSpec, nil, []event{followed(t, told, "a", news)})
	p.tree("+"+nodeA, "*"+nodeA)
	kept(t, findInCaches, p)
	p = only(cacheSpec, nil, []event{followed(t, pictured, "a", treePicture{Root: nodeA, Since: 1})})
	p.tree("+"+nodeA, "*"+nodeA)
	require.Contains(t, broken(t, findInCaches, noneStale, p), "tree/a as absent")
}

func TestWorkloadCacheMissedNews(t *testing.T) {
	t.Parallel()
	news := []sighting{saw(sawCreated, nodeA, 2, 3, 0), saw(sawDeleted, nodeA, 0, 0, 3), saw(sawCreated, nodeA, 6, 6, 0)}
	end := followed(t, concluded, "a", treePicture{Root: nodeA, Since: 6})
	p := only(cacheSpec, nil, []event{followed(t, told, "a", news), end})
	p.tree(changesOfA...)
	kept(t, findInCaches, p)
	for name, c := range map[string]struct {
		news []sighting
		want string
	}{
		"a creation":          {news[:2], "tree/a as absent, which is not its state at 0x6 or later"},
		"a deletion":          {news[:1], "tree/a as 0x3 of 0x2"},
		"all that there was":  {nil, "tree/a as absent"},
		"by another follower": {[]sighting{}, "tree/a as absent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := []event{end}
			if c.news != nil {
				events = []event{followed(t, told, "a", c.news), followed(t, told, "b", news), end}
			}
			p := only(cacheSpec, nil, events)
			p.tree(changesOfA...)
			require.Contains(t, broken(t, findInCaches, noneMissed, p), c.want)
		})
	}
}

// What no majority has in its logs may have been committed or not: it may be seen, and need not.
func TestWorkloadCachePicturesOfWhatIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, mzxid := range []int64{2, 3} {
		p := only(cacheSpec, nil, []event{followed(t, pictured, "a", treePicture{Root: nodeA, Since: 4, Nodes: []sighting{there(nodeA, 2, mzxid)}})})
		p.tree("+"+theTree, "+"+nodeA)
		p.alone = []entry{treeEntry("="+nodeA, 3)}
		kept(t, findInCaches, p)
	}
}

// Servers whose logs have what no client reads any more have lost it. One client that reads
// something else has found a bug.
func TestWorkloadCacheTreesThatServersHaveLost(t *testing.T) {
	t.Parallel()
	lost := followed(t, pictured, treeItself, treePicture{Root: theTree, Deep: true, Since: 6, Nodes: []sighting{there(theTree, 1, 1), there(nodeB, 5, 5)}})
	p := only(cacheSpec, nil, []event{lost}, []event{lost})
	p.tree(changesOfA...)
	hasLost(t, p, "1 paths of trees that are not as the logs have them, such as "+nodeA)
	right := followed(t, pictured, treeItself, treePicture{Root: theTree, Deep: true, Since: 6, Nodes: []sighting{there(theTree, 1, 1), there(nodeB, 5, 5), there(nodeA, 6, 6)}})
	p = only(cacheSpec, nil, []event{lost}, []event{right})
	p.tree(changesOfA...)
	hasLost(t, p, "")
	require.Contains(t, broken(t, findInCaches, noneStale, p), treeItself)
}

func TestWorkloadCacheCachesInTheLastLine(t *testing.T) {
	t.Parallel()
	p := only(cacheSpec, nil, []event{
		followed(t, pictured, "a", treePicture{Root: nodeB, Since: 6}),
		followed(t, told, "a", []sighting{saw(sawCreated, nodeB, 4, 4, 0)}),
		followed(t, concluded, "a", treePicture{Root: nodeB, Since: 6}),
		{At: at(51), Kind: pictured, Lock: cacheSpec.Name, Value: "{"},
	})
	p.tree(changesOfA...)
	page := breaches(t, p, noneStale)
	require.Contains(t, lastLine(page), "stale=2 missed=1 reordered=1")
	require.Contains(t, page, "has recorded what cannot be read")
	happened := newTotals()
	happened.add(p.load(t))
	require.Contains(t, happened.work(90*time.Second), floor{"uses of cache", 60, 2})
}

// A proxy makes a server refuse persistent watches of some paths by asking for a kind that it
// does not have.
func TestWorkloadCacheRefusedWatches(t *testing.T) {
	t.Parallel()
	refuse := refuseWatches("/t", "/u")
	frame := zkproxy.Frame{Direction: zkproxy.ToServer, Op: zkproxy.OpAddWatch, Path: "/u", Body: []byte("xxxxopopssss/u\x00\x00\x00\x01")}
	require.Equal(t, zkproxy.Replace("xxxxopopssss/u\x00\x00\x00\x63"), refuse(frame))
	require.Equal(t, byte(1), frame.Body[len(frame.Body)-1], "a body must not be changed")
	frame.Path = "/v"
	require.Equal(t, zkproxy.Pass, refuse(frame))
	frame.Path, frame.Direction = "/u", zkproxy.ToClient
	require.Equal(t, zkproxy.Pass, refuse(frame))
	frame.Direction, frame.Op = zkproxy.ToServer, zkproxy.OpGetData
	require.Equal(t, zkproxy.Pass, refuse(frame))
}
