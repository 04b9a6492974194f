package framework

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

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

// WithACLProvider sets the provider of the access control lists of new znodes without
// [WithACL]. Default: every client may do everything.
func WithACLProvider(p ACLProvider) Option {
	return optionFunc(func(c *config) error {
		if p == nil {
			return errors.New("ACL provider nil, expected one")
		}
		c.acl = p
		return nil
	})
}

// worldACL is shared: it is only encoded, or copied.
var worldACL = zk.WorldACL(zk.PermAll)

// defaultACL returns the list for a new znode without one of its own, given its path at the
// server.
func (c *config) defaultACL(full string) []ACL {
	if c.acl == nil {
		return worldACL
	}
	var acl []ACL
	// The provider knows paths below the chroot only.
	if root := c.root; root == "" || isBelow(full, string(root)) && full != string(root) {
		acl = c.acl.ACLForPath(root.own(full))
	}
	if len(acl) == 0 {
		acl = c.acl.DefaultACL()
	}
	if len(acl) == 0 {
		acl = zk.WorldACL(zk.PermAll)
	}
	return acl
}
