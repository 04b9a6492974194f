// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// transactionLog is what an ensemble has committed, in the order in which it did.
type transactionLog struct {
	nodes  map[string]*lockNode // every ephemeral node there was, by its path; the paths of locks do not come twice
	all    []*lockNode          // in the order of creation
	queues map[string]*queue    // the same by folder
	sets   setLog

	minority   map[string]bool // nodes whose creation no majority has, by their paths; some may be in nodes, too
	overlooked []string        // nodes that a later leader did not have, by their paths
}

// lockNode is the life of an ephemeral node.
type lockNode struct {
	path    string
	session int64
	czxid   int64
	created int64 // when the leader began to create it, as in ended
	deleted int64 // zxid; 0 is never
	by      int64 // the session that deleted it
	closed  bool  // it was deleted because that session was closed
	ended   int64 // when the leader began to delete it: milliseconds of the wall clock, cut off
}

// served is the transactions that the servers of an ensemble have in their logs.
type served struct {
	committed, others []transaction     // that a majority has, and that fewer have
	ids               map[identity]bool // of all
	newest            int64             // of them
}

// readServed reads the logs of the servers of an ensemble. Each server has a folder
// of its own below the given one. What a majority has was committed. What fewer have was
// proposed by a leader that fell before the commit, or committed and then cut off the others' logs (losses.go).
// It is nil if there is no such folder.
func readServed(folder string) (*served, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nemesis: transaction log: %w", err)
	}
	servers := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Type().IsRegular() }) // such as what they printed
	seen := make(map[identity]int)                                                                  // by how many servers
	byID := make(map[identity]transaction)
	for _, server := range servers {
		own, err := readServerLog(filepath.Join(folder, server.Name()))
		if err != nil {
			return nil, err
		}
		for id, t := range own {
			seen[id]++
			byID[id] = t
		}
	}
	s := &served{ids: make(map[identity]bool)}
	for id, t := range byID {
		s.ids[id], s.newest = true, max(s.newest, id.zxid)
		if seen[id] > len(servers)/2 {
			s.committed = append(s.committed, t)
		} else {
			s.others = append(s.others, t)
		}
	}
	return s, nil
}

func (s *served) log() (*transactionLog, error) {
	l, err := replay(s.committed)
	if err != nil {
		return nil, err
	}
	few, err := replay(s.others)
	if err != nil {
		return nil, err
	}
	for node := range few.nodes {
		l.minority[node] = true
	}
	return l, nil
}

// replay applies transactions in their order, as far as they concern ephemeral nodes, guarded sets, and what
// a folder has.
func replay(all []transaction) (*transactionLog, error) {
	slices.SortFunc(all, func(a, b transaction) int { return cmp.Compare(a.zxid, b.zxid) })
	r := &replayer{
		transactionLog: &transactionLog{
			nodes: make(map[string]*lockNode), sets: newSetLog(), minority: make(map[string]bool),
		},
		bySession: make(map[int64][]*lockNode), folders: make(map[string]*folder),
	}
	for _, t := range all {
		if err := r.apply(t); err != nil {
			return nil, fmt.Errorf("nemesis: transaction %#x: %w", t.zxid, err)
		}
	}
	r.queues = queuesOf(r.all)
	return r.transactionLog, nil
}

// replayer is a log while its transactions are applied.
type replayer struct {
	*transactionLog

	bySession map[int64][]*lockNode
	folders   map[string]*folder
}

// folder is what a log has of the children of a node, from its creation to its end.
type folder struct {
	children map[string]bool // that are there, by their paths
	newest   string          // the last that was created
	version  int32           // the cversion of the folder since then
}

func (r *replayer) apply(t transaction) error {
	in := &jute{in: bytes.NewReader(t.record)}
	switch t.kind {
	case txnCreate, txnCreate2:
		node, data, ephemeral, version := in.create()
		r.sets.write(node, 0, data)
		r.enter(node, version)
		if in.err == nil && ephemeral {
			n := &lockNode{path: node, session: t.session, czxid: t.zxid, created: t.time}
			r.nodes[node] = n
			r.all = append(r.all, n)
			r.bySession[t.session] = append(r.bySession[t.session], n)
		}
	case txnSetData:
		node, data, version := in.string(), in.buffer(), in.int()
		r.sets.write(node, version, data)
	case txnDelete, txnDeleteContainer:
		node := in.string()
		r.end(r.nodes[node], t)
		r.leave(node)
	case txnMulti:
		var parts []transaction
		for range in.int() {
			part := t
			part.kind, part.record = in.int(), in.buffer()
			parts = append(parts, part)
		}
		// Of a transaction that was refused the log has the operations before the refused one as if they had been applied.
		if slices.ContainsFunc(parts, func(part transaction) bool { return part.kind == txnError }) {
			return in.err
		}
		for _, part := range parts {
			if in.err == nil {
				in.err = r.apply(part)
			}
		}
	case txnCloseSession:
		for _, n := range r.bySession[t.session] {
			if n.deleted == 0 {
				n.closed = true
				r.end(n, t)
				r.leave(n.path)
			}
		}
		delete(r.bySession, t.session)
	}
	return in.err
}

// enter notes that a node was created, and what the cversion of its folder became by that. A leader counts
// it up with each child. If it does not rise, the leader did not have the child before.
func (r *replayer) enter(node string, version int32) {
	f := r.folders[path.Dir(node)]
	if f == nil {
		f = &folder{children: make(map[string]bool)}
		r.folders[path.Dir(node)] = f
	} else if version <= f.version {
		r.overlooked = append(r.overlooked, f.newest)
	}
	f.children[node], f.newest, f.version = true, node, version
}

// leave notes that a node was deleted. A leader deletes none that has children.
func (r *replayer) leave(node string) {
	if f := r.folders[path.Dir(node)]; f != nil {
		delete(f.children, node)
	}
	if f := r.folders[node]; f != nil {
		r.overlooked = append(r.overlooked, slices.Sorted(maps.Keys(f.children))...)
		delete(r.folders, node)
	}
}

// end notes that a node was deleted, if it was there.
func (l *transactionLog) end(n *lockNode, t transaction) {
	if n != nil && n.deleted == 0 {
		n.deleted, n.by, n.ended = t.zxid, t.session, t.time
	}
}

// queue is the nodes that there were in one folder, in the order of their creation.
type queue struct {
	nodes []*lockNode
	ended []int64 // the latest end of the nodes up to each; never is forever
}

// queuesOf returns the queue of each folder.
func queuesOf(nodes []*lockNode) map[string]*queue {
	all := make(map[string]*queue)
	for _, n := range nodes {
		folder := path.Dir(n.path)
		q := all[folder]
		if q == nil {
			q = &queue{}
			all[folder] = q
		}
		ended := n.ended
		if n.deleted == 0 {
			ended = forever
		}
		if len(q.ended) > 0 {
			ended = max(ended, q.ended[len(q.ended)-1])
		}
		q.nodes, q.ended = append(q.nodes, n), append(q.ended, ended)
	}
	return all
}

// ahead are the nodes that were created before a zxid and not deleted at a moment, in
// milliseconds. Those that are far ahead have all ended, so there are few to look at.
func (q *queue) ahead(zxid, at int64) (all []*lockNode) {
	place, _ := slices.BinarySearchFunc(q.nodes, zxid, func(n *lockNode, zxid int64) int { return cmp.Compare(n.czxid, zxid) })
	for i := place - 1; i >= 0 && q.ended[i] > at; i-- {
		if other := q.nodes[i]; other.deleted == 0 || other.ended > at {
			all = append(all, other)
		}
	}
	return all
}
