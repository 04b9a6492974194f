// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sort"
	"strings"
)

// treeLog is what was done to the nodes of the trees that caches follow, by their paths, in the
// order of the log.
type treeLog map[string]treePath

// treePath is the changes of one path.
type treePath []treeChange

// treeChange is one of them.
type treeChange struct {
	zxid    int64
	created bool
	deleted bool
	data    string
	doubted bool // no majority has it in its logs, so it may have been committed or not
}

// treesFolder is how the paths of all trees begin.
const treesFolder = locksFolder + "cache-"

func (l treeLog) add(path string, c treeChange) {
	if strings.HasPrefix(path, treesFolder) {
		l[path] = append(l[path], c)
	}
}

// addDoubted adds what no majority has.
func (l treeLog) addDoubted(few treeLog) {
	for path, changes := range few {
		all := l[path]
		for _, c := range changes {
			c.doubted = true
			all = append(all, c)
		}
		sort.SliceStable(all, func(i, k int) bool { return all[i].zxid < all[k].zxid })
		l[path] = all
	}
}

// at is the change, certainly committed, that made the state which the path had at a transaction;
// -1 if it had not been there yet.
func (p treePath) at(zxid int64) int {
	after := sort.Search(len(p), func(i int) bool { return p[i].zxid > zxid })
	for i := after - 1; i >= 0; i-- {
		if !p[i].doubted {
			return i
		}
	}
	return -1
}

// find is the change that made a state which a client has seen; -1 if there is none.
func (p treePath) find(s sighting) int {
	return slices.IndexFunc(p, func(c treeChange) bool { return c.zxid == s.Mzxid && !c.deleted && c.data == s.Data })
}

// absent reports whether a change leaves no node. Before all changes, at -1, there was none.
func (p treePath) absent(i int) bool { return i < 0 || p.gone(i) == i }

// is reports whether a change has made this state, or has left no node.
func (p treePath) is(i int, s sighting, there bool) bool {
	if !there {
		return p.absent(i)
	}
	return i >= 0 && !p[i].deleted && p[i].zxid == s.Mzxid && p[i].data == s.Data
}

// creation is the transaction that has created the node of a state.
func (p treePath) creation(state int) int64 {
	for state > 0 && !p[state].created {
		state--
	}
	return p[state].zxid
}

// createdBy reports whether a state can be of a node that was created by this transaction.
func (p treePath) createdBy(state int, czxid int64) bool {
	for i := state; i >= 0; i-- {
		switch {
		case p[i].created && p[i].zxid == czxid:
			return true
		case !p[i].doubted && (p[i].created || p[i].deleted):
			return false
		}
	}
	return false
}

// gone is the first change at or after a place that leaves no node; -1 if there is none. A
// transaction that deletes and creates is no such change.
func (p treePath) gone(from int) int {
	for i := max(from, 0); i < len(p); i++ {
		if p[i].deleted && (i+1 == len(p) || p[i+1].zxid != p[i].zxid || p[i+1].doubted) {
			return i
		}
	}
	return -1
}

// has reports whether a path could be in this state, or absent for Mzxid 0, at or after a
// transaction.
func (p treePath) has(s sighting, since int64) bool {
	at := p.at(since)
	if s.Mzxid != 0 {
		state := p.find(s)
		return state >= 0 && state >= at && p.createdBy(state, s.Czxid)
	}
	return at < 0 || p.gone(at) >= 0
}
