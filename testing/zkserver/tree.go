// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// tree is the set of znodes by path, with the indexes that ZooKeeper keeps beside it. It knows nothing of requests,
// permissions or watches, and is not safe for concurrent use.
type tree struct {
	zxid  int64 // of the last transaction applied
	nodes map[string]*node

	ephemerals map[int64]map[string]struct{} // session id -> paths
	swept      map[string]struct{}           // containers and TTL nodes, for the sweeper
	dataSize   int64                         // of all nodes, as the key zk_approximate_data_size of mntr
}

// newTree returns the tree of a server that has just been installed.
func newTree() *tree {
	t := &tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		swept:      make(map[string]struct{}),
	}
	for _, path := range []string{rootPath, procPath, quotaPath, configPath} {
		n := &node{data: []byte{}, acl: openACL}
		if path == configPath {
			n.acl, n.aversion = readOnlyACL, -1
		}
		t.insert(path, n)
	}
	return t
}

// size is what a node adds to dataSize: characters of its path and bytes of its data.
func size(path string, n *node) int64 {
	return int64(utf8.RuneCountInString(path) + len(n.data))
}

// lookup returns the node at path, or nil.
func (t *tree) lookup(path string) *node {
	return t.nodes[canonical(path)]
}

// insert adds n, whose parent exists.
func (t *tree) insert(path string, n *node) {
	t.nodes[path] = n
	t.dataSize += size(path, n)
	switch n.kind {
	case kindEphemeral:
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = make(map[string]struct{})
		}
		t.ephemerals[n.owner][path] = struct{}{}
	case kindContainer, kindTTL:
		t.swept[path] = struct{}{}
	case kindPersistent:
	}
	if path == rootPath {
		return
	}
	parentPath, name, _ := splitPath(path)
	parent := t.nodes[parentPath]
	if parent.children == nil {
		parent.children = make(map[string]struct{})
	}
	parent.children[name] = struct{}{}
}

// remove takes the node at path out of the tree and returns it.
func (t *tree) remove(path string) *node {
	n := t.nodes[path]
	delete(t.nodes, path)
	t.dataSize -= size(path, n)
	if owned := t.ephemerals[n.owner]; n.kind == kindEphemeral {
		delete(owned, path)
		if len(owned) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	delete(t.swept, path)
	parentPath, name, _ := splitPath(path)
	delete(t.nodes[parentPath].children, name)
	return n
}

// setData replaces the data of n, which is at path.
func (t *tree) setData(n *node, data []byte) {
	t.dataSize += int64(len(data) - len(n.data))
	n.data = data
}

// ephemeralsOf lists the ephemeral nodes of a session, sorted.
func (t *tree) ephemeralsOf(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}

// ephemeralCount is the number of ephemeral nodes of all sessions.
func (t *tree) ephemeralCount() int {
	total := 0
	for _, paths := range t.ephemerals {
		total += len(paths)
	}
	return total
}

// znodeCount counts the nodes as ZooKeeper does, which counts its root under two names.
func (t *tree) znodeCount() int {
	return len(t.nodes) + 1
}

// snapshot returns a copy that later changes of t do not reach.
func (t *tree) snapshot() *tree {
	c := &tree{
		zxid:       t.zxid,
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64]map[string]struct{}, len(t.ephemerals)),
		swept:      maps.Clone(t.swept),
		dataSize:   t.dataSize,
	}
	for path, n := range t.nodes {
		copied := *n
		copied.children = maps.Clone(n.children)
		c.nodes[path] = &copied
	}
	for session, paths := range t.ephemerals {
		c.ephemerals[session] = maps.Clone(paths)
	}
	return c
}
