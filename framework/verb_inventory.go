package framework

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework/internal/wire"
)

// Ephemerals returns the paths of the ephemeral znodes of this client's session at or below
// path, sorted. It needs ZooKeeper 3.6 and fails with [ErrUnsupported] on an older server.
func (f *Framework) Ephemerals(ctx context.Context, path string, opts ...CallOption) ([]string, error) {
	var found []string
	cfg, err := newCallConfig(opts)
	var calls []*call
	if err == nil {
		calls, err = pathCall(f.root, opEphemerals, path, func(d *wire.Decoder) error { found = d.Strings(); return nil })
	}
	if err := f.run(ctx, opEphemerals, path, plan{common: cfg.common, attempt: f.newer(calls)}, err); err != nil {
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
	cfg, err := newCallConfig(opts)
	var calls []*call
	if err == nil {
		calls, err = pathCall(f.root, opAllChildrenNumber, path, func(d *wire.Decoder) error { n = int(d.Int32()); return nil })
	}
	err = f.run(ctx, opAllChildrenNumber, path, plan{common: cfg.common, attempt: f.newer(calls)}, err)
	return n, err
}
