// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"maps"
	slashpath "path"
	"slices"
	"strings"
)

// model is what the generator believes about the nodes of a program, so that most requests find one: it takes every
// request for a success. What is really there the servers decide.
type model struct {
	root    string
	owners  map[string]string // of every node: the client whose session it goes with, or none
	creates map[string]int    // children ever made, for sequence numbers
}

func newModel(root string) model {
	return model{root: root, owners: map[string]string{root: ""}, creates: make(map[string]int)}
}

// nodes lists the nodes in order: the same seed must find the same ones.
func (m *model) nodes() []string {
	return slices.Sorted(maps.Keys(m.owners))
}

// leaves lists the nodes that have no children, but for the root.
func (m *model) leaves() []string {
	list := m.nodes()
	return slices.DeleteFunc(list, func(p string) bool {
		return p == m.root || slices.ContainsFunc(list, func(other string) bool { return slashpath.Dir(other) == p })
	})
}

// add makes a node.
func (m *model) add(p, owner string) {
	if _, exists := m.owners[p]; !exists {
		m.owners[p] = owner
		m.creates[slashpath.Dir(p)]++
	}
}

// close takes away what goes with the session of a client.
func (m *model) close(client string) {
	maps.DeleteFunc(m.owners, func(_, owner string) bool { return owner == client })
}

// elsewhere are paths outside of the program's root, which it only reads.
var elsewhere = []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/none", "/none/x"}

// node is a path, mostly that of a node. Now and then it is that of a system node, or no path at all.
func (g *generator) node() string {
	if g.IntN(40) == 0 {
		return pick(g, elsewhere...)
	}
	return g.own()
}

// own is a path below the root, the root itself, or no path at all.
func (g *generator) own() string {
	switch n := g.IntN(60); {
	case n == 0:
		return g.noPath()
	case n < 5:
		return g.root
	case n < 10:
		return g.private()
	case n < 16:
		return pick(g, g.model.nodes()...) + "/" + pick(g, nodeNames...)
	}
	return pick(g, g.model.nodes()...)
}

// noPath is what is refused as a path, or nearly.
func (g *generator) noPath() string {
	return pick(g, "", "x", "//", g.root+"/", g.root+"//a", g.root+"/./a", g.root+"/..", g.root+"/.a", g.root+"/a\x00b",
		g.root+"/\x01", g.root+"/\x7f", g.root+"/\ue000", g.root+"/日本", g.root+"/o k")
}

// nodeNames are the last parts of paths: few, so that clients meet.
var nodeNames = []string{"a", "a", "a", "b", "b", "ab", "s-"}

// fresh is a path to create, which exists now and then. With the number of a sequential node it is still below the root.
func (g *generator) fresh(sequential bool) string {
	if p := g.own() + pick(g, "", "/x"); g.IntN(8) == 0 && (!sequential || p != g.root) {
		return p
	}
	nodes := slices.DeleteFunc(g.model.nodes(), func(p string) bool {
		return g.model.owners[p] != "" && g.IntN(10) > 0 || strings.Count(p, "/") > 4
	})
	if sequential {
		return pick(g, nodes...) + "/s-"
	}
	return pick(g, nodes...) + "/" + pick(g, nodeNames...)
}

// made notes what a create makes, unless others are not to hear of it.
func (g *generator) made(p string, flags int32) {
	owner := ""
	if flags == 1 || flags == 3 {
		owner = g.client
	}
	if flags == 2 || flags == 3 || flags == 6 {
		p += fmt.Sprintf("%010d", g.model.creates[slashpath.Dir(p)])
	}
	if strings.HasPrefix(p, g.root+"/") && validNode(p) && !strings.HasPrefix(p, g.private()) {
		g.model.add(p, owner)
	}
}

// validNode tells whether a path of a program can be that of a node.
func validNode(p string) bool {
	return slashpath.Clean(p) == p && !strings.ContainsAny(p, "\x00\x01\x7f\ue000")
}

// leaf is a path to delete, and seldom that of a node with children.
func (g *generator) leaf() string {
	leaves := g.model.leaves()
	if g.IntN(6) > 0 && len(leaves) > 0 {
		p := pick(g, leaves...)
		delete(g.model.owners, p)
		return p
	}
	if p := g.node(); p != g.root {
		return p
	}
	return g.root + "/a"
}

// private is a path that no other client of the program names.
func (g *generator) private() string {
	return g.root + "/of-" + g.client
}

// version is one to expect, often any.
func (g *generator) version() int32 {
	return pick[int32](g, -1, -1, -1, -1, -1, -1, 0, 0, 0, 1, 1, 2, 7, -2)
}

// content is some data: nil is null.
func (g *generator) content() *string {
	if g.IntN(12) == 0 {
		return nil
	}
	s := pick(g, "", "x", "one", "\x00\xff", "längere Daten")
	return &s
}

// nullable appends a buffer that may be null.
func (b body) nullable(s *string) body {
	if s == nil {
		return b.null()
	}
	return b.str(*s)
}

func textOf(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}
