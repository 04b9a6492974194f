package framework

import (
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/jute"
)

// defaultACL is the list of a node that is created without one of its own.
func (f *Framework) defaultACL(_ string) []ACL { return zk.WorldACL(zk.PermAll) }

func encodeACL(e *jute.Encoder, acl []ACL) {
	e.Int32(int32(len(acl)))
	for _, a := range acl {
		e.Int32(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}
