package framework

import (
	"bytes"
	"context"

	"github.com/gocurator/curator/framework/internal/wire"
)

// IdempotentOption is returned by [Idempotent].
type IdempotentOption struct{}

// Idempotent takes a write for done when the server refuses it because what it
// asks for is so already, and therefore repeats it after a try whose outcome is
// unknown:
//
//   - a create of a znode that exists with version 0 and the same data; an
//     ephemeral one must belong to this client's session, too;
//   - a set [WithVersion] n of a znode that has version n+1 and the same data;
//   - a delete of a znode that does not exist.
//
// Who wrote it is not asked. Between two tries of one call others may have read,
// changed or deleted what the first one wrote, and the second one writes it again.
// So it is for values that everybody would write alike, or that have one writer.
//
// It is refused for a create in a sequential mode or [WithProtection], and within a
// transaction. It is Curator's idempotent().
func Idempotent() IdempotentOption { return IdempotentOption{} }

//nolint:unparam // the interface is that of options which can fail
func (IdempotentOption) applyCreate(c *createConfig) error { c.idempotent = true; return nil }

//nolint:unparam // the interface is that of options which can fail
func (IdempotentOption) applySet(c *setConfig) error { c.idempotent = true; return nil }

//nolint:unparam // the interface is that of options which can fail
func (IdempotentOption) applyDelete(c *deleteConfig) error { c.idempotent = true; return nil }

// onExisting is what becomes of a create that has found a znode: refused is the
// server's word for it, and errAgain means that the znode has vanished meanwhile.
func (c *creation) onExisting(ctx context.Context, refused error) error {
	var err error
	switch {
	case c.cfg.orSet:
		err = c.setExisting(ctx)
	case c.cfg.idempotent:
		err = c.takeExisting(ctx, refused)
	default:
		return refused
	}
	if isReply(err, ErrNoNode) {
		return errAgain
	}
	if err == nil {
		c.created = c.path
		if c.cfg.siblings != nil {
			*c.cfg.siblings = nil
		}
	}
	return err
}

// setExisting sets the data, as OrSetData asks for.
func (c *creation) setExisting(ctx context.Context) error {
	s := setting{
		f: c.f, path: c.path, data: c.data,
		cfg: setConfig{version: c.cfg.setVersion, idempotent: c.cfg.idempotent},
	}
	err := s.attempt(ctx)
	c.stat = s.stat
	return err
}

// takeExisting takes the znode for the one that is to be created, if it is alike.
func (c *creation) takeExisting(ctx context.Context, refused error) error {
	data, stat, err := c.f.readForComparison(ctx, c.path)
	switch {
	case err != nil:
		return err
	case stat.Version != 0 || !bytes.Equal(data, c.data):
		return refused
	case c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner():
		return refused
	}
	c.stat = stat
	return nil
}

// readForComparison reads data as it is at the server, within a try of a write.
func (f *Framework) readForComparison(ctx context.Context, path string) (data []byte, stat Stat, err error) {
	var cfg readConfig
	read, err := f.readCall(opGet, path, &cfg, watchData)
	if err != nil {
		return nil, stat, err
	}
	read.decode = func(d *wire.Decoder) error {
		data = d.Buffer()
		stat = d.Stat()
		return nil
	}
	err = f.exchange(ctx, read)
	return data, stat, err
}
