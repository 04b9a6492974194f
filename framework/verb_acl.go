package framework

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
)

// ACLProvider returns the access control lists of new znodes. Its methods are called for
// every creation, including parents and the znodes of recipes, from several goroutines at
// once. They must not block.
type ACLProvider interface {
	// DefaultACL returns the list for znodes for which ACLForPath returns none, and for the
	// znodes of the connection string's chroot. An empty list permits everything to all
	// clients.
	DefaultACL() []ACL

	// ACLForPath returns the list for the znode with this path. The path has no chroot, but
	// the namespace. It lacks what [WithProtection] and a sequential mode add to it. An empty
	// list means DefaultACL.
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
func (f *Framework) defaultACL(full string) []ACL {
	if f.cfg.acl == nil {
		return worldACL
	}
	var acl []ACL
	// The provider knows paths below the chroot only.
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

// GetACL returns the access control list of a znode. It needs permission to read or to
// administer the znode; the server shows password hashes only with the latter.
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

// SetACLOption is an option of [Framework.SetACL]. Its [WithVersion] compares the version of
// the list, Stat.Aversion, not the version of the data.
type SetACLOption interface{ applySetACL(*setConfig) error }

//nolint:unparam // other options of SetACL can fail
func (o VersionOption) applySetACL(c *setConfig) error { c.version = int32(o); return nil }
func (o StatOption) applySetACL(c *setConfig) error    { return o.store(&c.stat) }

// SetACL replaces the access control list of a znode. It needs permission to administer the
// znode. It is not repeated after a try whose outcome is unknown.
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
