// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"maps"
	slashpath "path"
	"slices"
	"strings"
)

// unseen is the number of a transaction that no answer tells.
const unseen = -1

// znodes is what there is after a transaction. It is not changed once it is made.
type znodes struct {
	nodes map[string]znode
	over  map[int64]bool // sessions that have ended
}

type znode struct {
	data                       string
	czxid, mzxid, pzxid, owner int64
	version, creates           int32
}

func (z *znodes) clone() *znodes {
	return &znodes{nodes: maps.Clone(z.nodes), over: maps.Clone(z.over)}
}

// key is equal for equal contents.
func (z *znodes) key() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(z.nodes)) {
		fmt.Fprint(&b, path, z.nodes[path])
	}
	return fmt.Sprint(b.String(), slices.Sorted(maps.Keys(z.over)))
}

func (z *znodes) children(path string) (names []string) {
	for other := range z.nodes {
		if slashpath.Dir(other) == path {
			names = append(names, slashpath.Base(other))
		}
	}
	slices.Sort(names)
	return names
}

func (z *znodes) stat(path string) stat {
	n, children := z.nodes[path], int32(len(z.children(path)))
	return stat{
		czxid: n.czxid, mzxid: n.mzxid, pzxid: n.pzxid, version: n.version, cversion: 2*n.creates - children,
		owner: n.owner, dataLength: int32(len(n.data)), children: children,
	}
}

// read answers a read.
func (z *znodes) read(w wish) outcome {
	n, found := z.nodes[w.path]
	if !found {
		return outcome{err: -101}
	}
	o := outcome{stat: z.stat(w.path)}
	switch w.op {
	case 4:
		o.data = n.data
	case 12:
		o.names = z.children(w.path)
	}
	return o
}

// write returns what there is after a write of a session, and its outcome. A write that fails changes nothing.
func (z *znodes) write(w wish, session, zxid int64) (*znodes, outcome) {
	if z.over[session] {
		return z, outcome{err: -112}
	}
	after := z.clone()
	if w.op != 14 {
		o := after.do(w, session, zxid)
		if o.err != 0 {
			return z, o
		}
		return after, o
	}
	var all outcome
	for i, part := range w.parts {
		o := after.do(part, session, zxid)
		if o.err == 0 {
			all.parts = append(all.parts, o)
			continue
		}
		all.parts = make([]outcome, len(w.parts))
		all.parts[i] = o
		for j := i + 1; j < len(w.parts); j++ {
			all.parts[j].err = -2
		}
		return z, all
	}
	for i, part := range w.parts {
		if part.op == 15 { // it is a create there, which answers no stat
			all.parts[i].stat = stat{}
		}
	}
	return after, all
}

func (z *znodes) do(w wish, session, zxid int64) outcome {
	if w.op == opClose {
		z.end(session, zxid)
		return outcome{}
	}
	n, found := z.nodes[w.path]
	parent, hasParent := z.nodes[slashpath.Dir(w.path)]
	switch {
	case w.op == 15 && !hasParent || w.op != 15 && !found:
		return outcome{err: -101}
	case w.op != 15 && w.version != -1 && w.version != n.version:
		return outcome{err: -103}
	case w.op == 2 && len(z.children(w.path)) > 0:
		return outcome{err: -111}
	}
	switch w.op {
	case 15:
		if w.flags >= 2 {
			w.path += fmt.Sprintf("%010d", parent.creates)
		}
		if _, found := z.nodes[w.path]; found {
			return outcome{err: -110}
		}
		if parent.owner != 0 {
			return outcome{err: -108}
		}
		parent.creates, parent.pzxid = parent.creates+1, zxid
		z.nodes[slashpath.Dir(w.path)] = parent
		n = znode{data: w.data, czxid: zxid, mzxid: zxid, pzxid: zxid, owner: int64(w.flags%2) * session}
		z.nodes[w.path] = n
		return outcome{path: w.path, stat: z.stat(w.path)}
	case 2:
		z.remove(w.path, zxid)
	case 5:
		n.data, n.mzxid, n.version = w.data, zxid, n.version+1
		z.nodes[w.path] = n
		return outcome{stat: z.stat(w.path)}
	}
	return outcome{}
}

func (z *znodes) remove(path string, zxid int64) {
	delete(z.nodes, path)
	parent := z.nodes[slashpath.Dir(path)]
	parent.pzxid = zxid
	z.nodes[slashpath.Dir(path)] = parent
}

func (z *znodes) end(session, zxid int64) {
	z.over[session] = true
	for path, n := range z.nodes {
		if n.owner == session {
			z.remove(path, zxid)
		}
	}
}

// matches reports whether an answer is the expected one, as far as that is known.
func (o outcome) matches(want outcome) bool {
	if want.err != 0 {
		return o.err == want.err
	}
	if o.err != 0 || o.path != want.path || o.data != want.data || !slices.Equal(o.names, want.names) || len(o.parts) != len(want.parts) {
		return false
	}
	for i, part := range o.parts {
		if part.err != want.parts[i].err || part.err == 0 && !part.matches(want.parts[i]) {
			return false
		}
	}
	got := o.stat
	for _, pair := range [][2]*int64{{&got.czxid, &want.stat.czxid}, {&got.mzxid, &want.stat.mzxid}, {&got.pzxid, &want.stat.pzxid}} {
		if *pair[1] == unseen {
			*pair[0] = unseen
		}
	}
	return got == want.stat
}
