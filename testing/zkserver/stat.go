// SPDX-License-Identifier: Apache-2.0

package zkserver

// nodeKind decides when a node goes away by itself.
type nodeKind uint8

const (
	kindPersistent nodeKind = iota
	kindEphemeral           // goes with the session that owns it
	kindContainer           // goes when it has had children and has none
	kindTTL                 // goes when it has no children and was not modified for its TTL
)

// node is one znode. Its data and its ACL are never changed in place, so a snapshot may share them.
type node struct {
	data     []byte     // nil is ZooKeeper's null, which a client may write and gets back
	acl      []aclEntry // empty grants everything to every client
	children map[string]struct{}

	kind  nodeKind
	owner int64 // session id of an ephemeral node, else 0
	ttl   int64 // milliseconds, of a TTL node

	czxid, mzxid, pzxid int64
	ctime, mtime        int64 // milliseconds since the Unix epoch
	version, aversion   int32

	// creates counts the children ever created. ZooKeeper keeps it as the node's cversion, shows clients a cversion
	// computed from it, and takes sequence numbers from it. When it has reached 2^31-1, it went on at -2^31 until 3.5;
	// since 3.6 it stays, and creating a child no longer changes pzxid either (DataTree.createNode raises both together
	// or not at all, ZOOKEEPER-3249): all further sequential children get the number 2147483647.
	creates int32

	// childSets counts the writes of children's data, which Keeper adds to the cversion.
	childSets int32
}

// stat writes the Stat of n as clients see it. A container or TTL node shows no owner.
func (e *encoder) stat(n *node) {
	children := int32(len(n.children))
	e.int64(n.czxid)
	e.int64(n.mzxid)
	e.int64(n.ctime)
	e.int64(n.mtime)
	e.int32(n.version)
	e.int32(2*n.creates - children + n.childSets) // every create, and a delete for each child that is gone
	e.int32(n.aversion)
	e.int64(n.owner)
	e.int32(int32(len(n.data)))
	e.int32(children)
	e.int64(n.pzxid)
}

// outlived reports whether a container or a TTL node must go at the time now, in milliseconds since the Unix
// epoch. A container that never had a child stays.
func (n *node) outlived(now int64) bool {
	if len(n.children) > 0 {
		return false
	}
	if n.kind == kindContainer {
		return n.creates > 0
	}
	return now-n.mtime > n.ttl
}
