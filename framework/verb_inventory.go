package framework

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework/internal/wire"
)

// newer returns the attempt of a plan for a read that is new in ZooKeeper 3.6.
func (f *Framework) newer(calls []*call) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, nil); err != nil {
			return err
		}
		return f.exchangeNewer(ctx, calls[0])
	}
}

// pathCall builds a request that consists of a path.
func (f *Framework) pathCall(op operation, path string, decode func(*wire.Decoder) error) ([]*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	var e wire.Encoder
	e.String(f.root.full(path))
	return []*call{{operation: op, path: path, body: e.Bytes(), decode: decode}}, nil
}

// Ephemerals returns the paths of the ephemeral znodes of this client's session at or below
// path, sorted. It needs ZooKeeper 3.6 and fails with [ErrUnsupported] on an older server.
func (f *Framework) Ephemerals(ctx context.Context, path string, opts ...CallOption) ([]string, error) {
	var found []string
	err := f.verb(ctx, opEphemerals, path, func() (plan, error) {
		cfg, err := newCallConfig(opts)
		if err != nil {
			return plan{}, err
		}
		calls, err := f.pathCall(opEphemerals, path, func(d *wire.Decoder) error { found = d.Strings(); return nil })
		return plan{common: cfg.common, attempt: f.newer(calls)}, err
	})
	if err != nil {
		return nil, err
	}
	// The server compares prefixes of strings: /a also finds /ab.
	full := f.root.full(path)
	found = slices.DeleteFunc(found, func(p string) bool { return !isBelow(p, full) })
	for i, p := range found {
		found[i] = f.root.own(p)
	}
	slices.Sort(found)
	return found, nil
}

// AllChildrenNumber returns the number of znodes below a path, at any depth. The server
// scans its whole tree. It needs ZooKeeper 3.6 and fails with [ErrUnsupported] on an older
// server.
func (f *Framework) AllChildrenNumber(ctx context.Context, path string, opts ...CallOption) (int, error) {
	var n int
	err := f.verb(ctx, opAllChildrenNumber, path, func() (plan, error) {
		cfg, err := newCallConfig(opts)
		if err != nil {
			return plan{}, err
		}
		calls, err := f.pathCall(opAllChildrenNumber, path, func(d *wire.Decoder) error { n = int(d.Int32()); return nil })
		return plan{common: cfg.common, attempt: f.newer(calls)}, err
	})
	return n, err
}
