package framework

import (
	"context"

	"github.com/gocurator/curator/framework/internal/wire"
)

// Identity is one of the identities that a connection has, with which servers compare the entries
// of an [ACL].
type Identity struct {
	Scheme string // such as "sasl", "digest" or "ip"
	ID     string // for "digest", the user without the password
}

// String returns scheme and id, with a colon between them.
func (i Identity) String() string { return i.Scheme + ":" + i.ID }

// WhoAmI asks the server for the identities of this connection: by [WithSASL], by [WithAuth],
// by a certificate of [WithTLS], and the address of the client. They are in no particular order. It
// needs ZooKeeper 3.7, and fails with [ErrUnsupported] on an older server, or on one that does not
// report its version. It is Java's whoAmI.
func (f *Framework) WhoAmI(ctx context.Context, opts ...CallOption) ([]Identity, error) {
	var found []Identity
	cfg, err := newCallConfig(opts)
	attempt := func(ctx context.Context) error {
		if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, cfg.session); err != nil {
			return err
		}
		return f.askWho(ctx, &found, cfg.common)
	}
	if err := f.run(ctx, opWhoAmI, "", plan{common: cfg.common, attempt: attempt}, err); err != nil {
		return nil, err
	}
	return found, nil
}

// askWho asks once. There must be a connection already.
func (r *requests) askWho(ctx context.Context, found *[]Identity, of common) error {
	if err := r.checkVersion(ctx, 3, 7); err != nil {
		return err
	}
	return r.exchange(ctx, &call{operation: opWhoAmI, common: of, decode: func(d *wire.Decoder) error {
		*found = nil
		for range d.Count(2 * wire.LengthSize) {
			*found = append(*found, Identity{Scheme: d.String(), ID: d.String()})
		}
		return nil
	}})
}

// learnIdentities asks for the identities of a new connection, for [Framework.Health]. That they are not known is no
// failure: the server may be too old, or the connection has ended.
func (f *Framework) learnIdentities(connection int64) {
	var found []Identity
	if err := f.askWho(f.ctx, &found, common{}); err == nil {
		f.tracker.setIdentities(connection, found)
	}
}
