// SPDX-License-Identifier: Apache-2.0

package framework

import "github.com/go-zookeeper/zk"

// ACL is one entry of a znode's access control list: permissions for an identity. It is
// go-zookeeper's type.
type ACL = zk.ACL

// The permissions of an [ACL], as bits.
const (
	PermRead   = zk.PermRead   // read the data and the list of children
	PermWrite  = zk.PermWrite  // set the data
	PermCreate = zk.PermCreate // create children
	PermDelete = zk.PermDelete // delete children
	PermAdmin  = zk.PermAdmin  // set the access control list
	PermAll    = zk.PermAll
)

// OpenACL returns the list that permits everything to every client. It is ZooKeeper's
// OPEN_ACL_UNSAFE.
func OpenACL() []ACL { return zk.WorldACL(zk.PermAll) }

// ReadACL returns the list that permits every client to read. It is ZooKeeper's
// READ_ACL_UNSAFE.
func ReadACL() []ACL { return zk.WorldACL(zk.PermRead) }

// CreatorAllACL returns the list that permits everything to the client that creates the
// znode. The client must have an identity, as by [WithAuth] or [WithSASL]. It is ZooKeeper's
// CREATOR_ALL_ACL.
func CreatorAllACL() []ACL { return zk.AuthACL(zk.PermAll) }

// DigestACL returns the list that permits something to a user with a password, as a client
// presents them by [WithAuth] with the scheme "digest". The list has a hash of both.
func DigestACL(perms int32, user, password string) []ACL { return zk.DigestACL(perms, user, password) }

// Identity is an identity of a connection. Servers compare it with the entries of an [ACL].
type Identity struct {
	Scheme string // such as "sasl", "digest" or "ip"
	ID     string // for "digest", the user without the password
}

// String returns scheme and id, with a colon between them.
func (i Identity) String() string { return i.Scheme + ":" + i.ID }

// ACLProvider returns the access control lists of new znodes. Its methods are called for
// every creation, including parents and the znodes of recipes, from several goroutines at
// once. They must not block.
type ACLProvider interface {
	// DefaultACL returns the list for znodes for which ACLForPath returns none, and for the
	// znodes of the connection string's chroot. An empty list permits everything to all
	// clients.
	DefaultACL() []ACL

	// ACLForPath returns the list for the znode with this path. The path includes the
	// namespace but not the chroot, and not the prefix or the number that [WithProtection] or
	// a sequential mode adds. An empty list means DefaultACL.
	ACLForPath(path string) []ACL
}
