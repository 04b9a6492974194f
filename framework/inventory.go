package framework

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework/internal/jute"
	"github.com/gocurator/curator/retry"
)

// sendNewer is send for a read that came with ZooKeeper 3.6.
func (f *Framework) sendNewer(ctx context.Context, c *call) error {
	return f.measured(ctx, c.retry, c.operation, c.path, func(ctx context.Context) error {
		if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, nil); err != nil {
			return err
		}
		return f.exchangeNewer(ctx, c)
	})
}

// pathCall is a request that has nothing but a path.
func (f *Framework) pathCall(op operation, path string, policy retry.Policy) (*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	var e jute.Encoder
	e.String(f.root.full(path))
	return &call{operation: op, path: path, body: e.Bytes(), retry: policy}, nil
}

// Ephemerals returns the paths of the ephemeral nodes of this client's session that
// are at path or below it, in their order. It needs ZooKeeper 3.6 and fails with
// [ErrUnsupported] where the server is older.
func (f *Framework) Ephemerals(ctx context.Context, path string, opts ...CallOption) ([]string, error) {
	cfg, err := newCallConfig(opts)
	if err != nil {
		return nil, failed(opEphemerals, path, err)
	}
	c, err := f.pathCall(opEphemerals, path, cfg.retry)
	if err != nil {
		return nil, failed(opEphemerals, path, err)
	}
	var found []string
	c.decode = func(d *jute.Decoder) { found = d.Strings() }
	if err := f.sendNewer(ctx, c); err != nil {
		return nil, failed(opEphemerals, path, err)
	}
	// The server goes by the beginning of the string: /a finds /ab, too.
	full := f.root.full(path)
	found = slices.DeleteFunc(found, func(p string) bool { return !isBelow(p, full) })
	for i, p := range found {
		found[i] = f.root.own(p)
	}
	slices.Sort(found)
	return found, nil
}

// AllChildrenNumber returns how many znodes there are below a path, at any depth.
// The server goes through its whole tree for it. It needs ZooKeeper 3.6 and fails with
// [ErrUnsupported] where the server is older.
func (f *Framework) AllChildrenNumber(ctx context.Context, path string, opts ...CallOption) (int, error) {
	cfg, err := newCallConfig(opts)
	if err != nil {
		return 0, failed(opAllChildrenNumber, path, err)
	}
	c, err := f.pathCall(opAllChildrenNumber, path, cfg.retry)
	if err != nil {
		return 0, failed(opAllChildrenNumber, path, err)
	}
	var n int
	c.decode = func(d *jute.Decoder) { n = int(d.Int32()) }
	err = f.sendNewer(ctx, c)
	return n, failed(opAllChildrenNumber, path, err)
}

// isBelow tells whether a path is another one or below it.
func isBelow(path, ancestor string) bool {
	return ancestor == "/" || path == ancestor ||
		len(path) > len(ancestor) && path[:len(ancestor)] == ancestor && path[len(ancestor)] == '/'
}
