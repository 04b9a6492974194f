package framework

import (
	"context"

	"github.com/gocurator/curator/framework/internal/wire"
)

// GetACLOption is an option of [Framework.GetACL].
type GetACLOption interface{ applyGetACL(*readConfig) error }

func (o StatOption) applyGetACL(c *readConfig) error { return o.store(&c.stat) }

// GetACL returns the access control list of a znode. It needs permission to read or to
// administer the znode; the server shows password hashes only with the latter.
func (f *Framework) GetACL(ctx context.Context, path string, opts ...GetACLOption) ([]ACL, error) {
	var acl []ACL
	var cfg readConfig
	var calls []*call
	err := applyAll(opts, func(o GetACLOption) error { return o.applyGetACL(&cfg) })
	if err == nil {
		calls, err = pathCall(f.root, opGetACL, path, func(d *wire.Decoder) error {
			acl = d.ACL()
			stat := d.Stat()
			cfg.storeStat(d, stat)
			return nil
		})
	}
	err = f.run(ctx, opGetACL, path, plan{common: cfg.common, calls: calls}, err)
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
	cfg := setConfig{version: AnyVersion}
	full := ""
	err := applyAll(opts, func(o SetACLOption) error { return o.applySetACL(&cfg) })
	if err == nil {
		full, err = f.root.writable(path)
	}
	var e wire.Encoder
	e.String(full)
	e.ACL(acl)
	e.Int32(cfg.version)
	decode := func(d *wire.Decoder) error {
		stat := d.Stat()
		cfg.storeStat(d, stat)
		return nil
	}
	calls := []*call{{operation: opSetACL, path: path, body: e.Bytes(), decode: decode}}
	return f.run(ctx, opSetACL, path, plan{common: cfg.common, calls: calls}, err)
}
