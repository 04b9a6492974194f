// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"slices"
)

// txn is one transaction: all its changes carry one zxid and one time, and either all of them stay or none.
// Changes are made in the tree at once, so a later operation of a multi sees an earlier one. Watches fire at
// commit.
//
// A transaction that fails keeps its zxid: ZooKeeper logs failures too.
type txn struct {
	tree    *tree
	watches *watches
	zxid    int64
	now     int64 // milliseconds since the Unix epoch
	wraps   bool  // what becomes of a full count of creates, see node.creates
	sasl    bool  // the server knows the scheme
	keeper  bool  // see WithKeeper
	granted int   // entries of ACLs that it has given to nodes
	who     caller
	undo    []func()
	events  []event
}

// caller is the client of a transaction: the session that will own ephemeral nodes and the identities that
// permissions are checked for.
type caller struct {
	session int64
	ids     []authID
	checks  *int // see allowed
}

func (w caller) allowed(acl []aclEntry, perm int32) bool {
	return allowed(acl, perm, w.ids, w.checks)
}

// commit makes the changes final and fires their watches.
func (t *txn) commit() {
	for _, e := range t.events {
		t.watches.fire(e)
	}
}

// rollback undoes the changes, the last one first.
func (t *txn) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
}

// createRequest is the common form of create, create2, createContainer and createTTL. A TTL is in milliseconds, -1 for
// none.
type createRequest struct {
	op    OpCode
	path  string
	data  []byte
	acl   []aclEntry
	flags int32
	ttl   int64
}

// Flags of a create (CreateMode).
const (
	flagEphemeral     = 1
	flagSequential    = 2
	flagContainer     = 4
	flagTTL           = 5
	flagTTLSequential = 6
)

// maxTTL is the largest TTL in milliseconds, a number of 40 bits.
const maxTTL = 1<<40 - 1

func (r *createRequest) sequential() bool {
	return r.flags == flagSequential || r.flags == flagEphemeral|flagSequential || r.flags == flagTTLSequential
}

func (r *createRequest) wantsTTL() bool {
	return r.flags == flagTTL || r.flags == flagTTLSequential
}

// kind returns the kind of node that is asked for. Outside a multi the opcode decides about containers: create
// with the container flag makes a plain node, in ZooKeeper as here. Keeper has no nodes that go by themselves.
func (r *createRequest) kind(keeper bool) (nodeKind, code) {
	if r.flags < 0 || r.flags > flagTTLSequential {
		return 0, codeBadArguments
	}
	if r.wantsTTL() != (r.op == OpCreateTTL) || keeper && (r.wantsTTL() || r.op == OpCreateContainer) {
		return 0, codeBadArguments
	}
	switch {
	case r.wantsTTL():
		if r.ttl <= 0 || r.ttl > maxTTL {
			return 0, codeBadArguments
		}
		return kindTTL, codeOK
	case r.op == OpCreateContainer:
		return kindContainer, codeOK
	case r.flags == flagEphemeral || r.flags == flagEphemeral|flagSequential:
		return kindEphemeral, codeOK
	}
	return kindPersistent, codeOK
}

// create adds a node and returns its path, which differs from the requested one if it is sequential. The order of
// the checks is PrepRequestProcessor.pRequest2TxnCreate's: it decides which of several errors a client sees.
func (t *txn) create(r createRequest) (string, *node, code) {
	kind, err := r.kind(t.keeper)
	if err != codeOK {
		return "", nil, err
	}
	parentPath, _, ok := splitPath(r.path)
	if !ok {
		return "", nil, codeBadArguments
	}
	acl, err := fixACL(r.acl, t.who.ids, t.granted, t.sasl)
	if err != codeOK {
		return "", nil, err
	}
	parent := t.tree.lookup(parentPath)
	if parent == nil {
		return "", nil, codeNoNode
	}
	if !t.who.allowed(parent.acl, permCreate) {
		return "", nil, codeNoAuth
	}
	path := r.path
	if r.sequential() {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	switch {
	case !validPath(path):
		return "", nil, codeBadArguments
	case t.tree.lookup(path) != nil:
		return "", nil, codeNodeExists
	case parent.kind == kindEphemeral:
		return "", nil, codeNoChildrenForEphemerals
	}
	n := &node{
		data: r.data, acl: acl, kind: kind,
		czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.now, mtime: t.now,
	}
	switch kind {
	case kindEphemeral:
		n.owner = t.who.session
	case kindTTL:
		n.ttl = r.ttl
	case kindPersistent, kindContainer:
	}
	t.granted += len(acl)
	t.insert(path, n, parentPath, parent)
	return path, n, codeOK
}

// insert adds a node that has passed all checks, and counts it in its parent.
func (t *txn) insert(path string, n *node, parentPath string, parent *node) {
	before := *parent
	t.tree.insert(path, n)
	if next := parent.creates + 1; next > parent.creates || t.wraps {
		parent.creates, parent.pzxid = next, t.zxid
	}
	t.undo = append(t.undo, func() {
		t.tree.remove(path)
		parent.pzxid, parent.creates = before.pzxid, before.creates
	})
	t.events = append(t.events,
		event{kind: eventCreated, path: path, acl: n.acl},
		event{kind: eventChildrenChanged, path: parentPath, acl: parent.acl})
}

// delete removes a node; version -1 matches any.
func (t *txn) delete(path string, version int32) code {
	parentPath, _, ok := splitPath(path)
	if !ok || reserved(path) {
		return codeBadArguments
	}
	parent := t.tree.lookup(parentPath)
	if parent == nil {
		return codeNoNode
	}
	if !t.who.allowed(parent.acl, permDelete) {
		return codeNoAuth
	}
	n := t.tree.lookup(path)
	switch {
	case n == nil:
		return codeNoNode
	case version != -1 && version != n.version:
		return codeBadVersion
	case len(n.children) > 0:
		return codeNotEmpty
	}
	t.remove(path)
	return codeOK
}

// remove takes out a node that has no children, without checks. The end of a session and the sweeper use it too.
func (t *txn) remove(path string) {
	parentPath, _, _ := splitPath(path)
	parent := t.tree.lookup(parentPath)
	before := parent.pzxid
	n := t.tree.remove(path)
	if !t.keeper {
		parent.pzxid = t.zxid
	}
	t.undo = append(t.undo, func() {
		t.tree.insert(path, n)
		parent.pzxid = before
	})
	t.events = append(t.events,
		event{kind: eventDeleted, path: path, acl: n.acl},
		event{kind: eventChildrenChanged, path: parentPath, acl: parent.acl})
}

// setData replaces a node's data; version -1 matches any.
func (t *txn) setData(path string, data []byte, version int32) (*node, code) {
	n, err := t.find(path, permWrite)
	if err != codeOK {
		return nil, err
	}
	if version != -1 && version != n.version {
		return nil, codeBadVersion
	}
	before := *n
	t.tree.setData(n, data)
	n.version, n.mzxid, n.mtime = nextVersion(n.version), t.zxid, t.now
	if parentPath, _, ok := splitPath(canonical(path)); ok && t.keeper {
		parent := t.tree.lookup(parentPath)
		parent.childSets++
		t.undo = append(t.undo, func() { parent.childSets-- })
	}
	t.undo = append(t.undo, func() {
		t.tree.setData(n, before.data)
		n.version, n.mzxid, n.mtime = before.version, before.mzxid, before.mtime
	})
	t.events = append(t.events, event{kind: eventDataChanged, path: canonical(path), acl: n.acl})
	return n, codeOK
}

// setACL replaces a node's ACL; version -1 matches any. It fires no watch.
func (t *txn) setACL(path string, acl []aclEntry, version int32) (*node, code) {
	if !validPath(path) {
		return nil, codeBadArguments
	}
	fixed, err := fixACL(acl, t.who.ids, t.granted, t.sasl)
	if err != codeOK {
		return nil, err
	}
	n, err := t.find(path, permAdmin)
	if err != codeOK {
		return nil, err
	}
	if version != -1 && version != n.aversion {
		return nil, codeBadVersion
	}
	n.acl, n.aversion = fixed, nextVersion(n.aversion)
	return n, codeOK
}

// check fails unless the node exists, may be read and has the version.
func (t *txn) check(path string, version int32) (*node, code) {
	n, err := t.find(path, permRead)
	if err == codeOK && version != -1 && version != n.version {
		return nil, codeBadVersion
	}
	return n, err
}

// find finds the node that a write names, checking in the order of ZooKeeper's writes.
func (t *txn) find(path string, perm int32) (*node, code) {
	if !validPath(path) {
		return nil, codeBadArguments
	}
	n := t.tree.lookup(path)
	if n == nil {
		return nil, codeNoNode
	}
	if !t.who.allowed(n.acl, perm) {
		return nil, codeNoAuth
	}
	return n, codeOK
}

// nextVersion skips -1, which a client could not expect: as an expectation it means any version.
func nextVersion(v int32) int32 {
	if v++; v == -1 {
		return 0
	}
	return v
}
