package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
)

// ACLProvider says which access control list a znode is created with. Its methods
// are called for every creation, also for parents and by recipes, and from several
// goroutines at once. They must not block.
type ACLProvider interface {
	// DefaultACL is for znodes for which ACLForPath has nothing to say, and for those
	// of the connection string's chroot. An empty list lets everybody do everything.
	DefaultACL() []ACL

	// ACLForPath is for the znode with this path, which is without the chroot but with
	// the namespace, and without what [WithProtection] and a sequential mode add to it.
	// An empty list stands for DefaultACL.
	ACLForPath(path string) []ACL
}

// WithACLProvider sets what access control lists znodes are created with that are
// not given one by [WithACL]. Default: everybody may do everything.
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

// defaultACL is the list of a node, named as at the server, that is created without
// one of its own.
func (f *Framework) defaultACL(full string) []ACL {
	if f.cfg.acl == nil {
		return worldACL
	}
	var acl []ACL
	if root := f.cfg.root; root == "" || isBelow(full, string(root)) && full != string(root) {
		acl = f.cfg.acl.ACLForPath(root.own(full))
	}
	if len(acl) == 0 {
		acl = f.cfg.acl.DefaultACL()
	}
	if len(acl) == 0 {
		acl = zk.WorldACL(zk.PermAll)
	}
	return acl
}

// GetACLOption is an option of [Framework.GetACL].
type GetACLOption interface{ applyGetACL(*readConfig) error }

func (o StatOption) applyGetACL(c *readConfig) error { return o.store(&c.stat) }

// GetACL returns the access control list of a znode. It needs the permission to read
// or to administer it; the server shows the hashes of passwords with the latter only.
func (f *Framework) GetACL(ctx context.Context, path string, opts ...GetACLOption) ([]ACL, error) {
	var acl []ACL
	err := f.verb(ctx, opGetACL, path, func() (plan, error) {
		var cfg readConfig
		if err := applyAll(opts, func(o GetACLOption) error { return o.applyGetACL(&cfg) }); err != nil {
			return plan{}, err
		}
		c, err := f.pathCall(opGetACL, path, func(d *wire.Decoder) error {
			var stat Stat
			acl = d.ACL()
			stat = d.Stat()
			cfg.storeStat(d, stat)
			return nil
		})
		return plan{common: cfg.common, calls: c}, err
	})
	return acl, err
}

// SetACLOption is an option of [Framework.SetACL]. [WithVersion] is about the version
// of the list, Stat.Aversion, not about that of the data.
type SetACLOption interface{ applySetACL(*setConfig) error }

//nolint:unparam // other options of SetACL can fail
func (o VersionOption) applySetACL(c *setConfig) error { c.version = int32(o); return nil }
func (o StatOption) applySetACL(c *setConfig) error    { return o.store(&c.stat) }

// SetACL replaces the access control list of a znode, which takes the permission to
// administer it. It is not repeated after a try whose outcome is unknown.
func (f *Framework) SetACL(ctx context.Context, path string, acl []ACL, opts ...SetACLOption) error {
	return f.verb(ctx, opSetACL, path, func() (plan, error) {
		cfg := setConfig{version: AnyVersion}
		if err := applyAll(opts, func(o SetACLOption) error { return o.applySetACL(&cfg) }); err != nil {
			return plan{}, err
		}
		full, err := f.writable(path)
		var e wire.Encoder
		e.String(full)
		e.ACL(acl)
		e.Int32(cfg.version)
		decode := func(d *wire.Decoder) error {
			stat := d.Stat()
			cfg.storeStat(d, stat)
			return nil
		}
		return plan{common: cfg.common, calls: []*call{{operation: opSetACL, path: path, body: e.Bytes(), decode: decode}}}, err
	})
}
