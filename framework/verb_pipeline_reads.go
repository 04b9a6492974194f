package framework

import (
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// ReadStat is [Framework.Exists] as part of a pipeline: *into is nil if there is no znode.
// CreatingParentsIfNeeded is refused.
func ReadStat(path string, into **Stat, opts ...ExistsOption) Read {
	return Read{opExists, path, func(f *Framework) (*call, error) {
		var cfg readConfig
		if err := applyAll(opts, func(o ExistsOption) error { return o.applyExists(&cfg) }); err != nil {
			return nil, err
		}
		switch {
		case into == nil:
			return nil, fmt.Errorf("%w: ReadStat into nil, expected a place for the *Stat", ErrInvalidOption)
		case cfg.parents:
			return nil, fmt.Errorf("%w: CreatingParentsIfNeeded in a pipeline, expected Framework.Exists", ErrInvalidOption)
		}
		return readExists(path, into, cfg).build(f)
	}}
}

// StoringErrorIn makes an error about the znode, such as [ErrNoNode], [ErrNoAuth] or
// [ErrCompression], the result of this read alone: the error is stored in *into, nil for
// success, and the other reads of the pipeline keep their results. [Retryable] errors still
// fail the pipeline.
//
//nolint:gocritic // the place for an error is a pointer to an interface
func (r Read) StoringErrorIn(into *error) Read {
	build := r.build
	if build == nil || into == nil {
		return Read{operation: r.operation, path: r.path, build: func(*Framework) (*call, error) {
			return nil, fmt.Errorf("%w: StoringErrorIn of the zero Read or into nil, expected a read and a *error", ErrInvalidOption)
		}}
	}
	r.build = func(f *Framework) (*call, error) {
		c, err := build(f)
		if err != nil {
			return nil, err
		}
		store := func(err error) error {
			if err == nil || Retryable(err) {
				return err // the whole pipeline is retried
			}
			*into = failed(c.operation, c.path, err)
			return nil
		}
		begin, decode, refused := c.begin, c.decode, c.refused
		c.begin = func() func(conduit.Reply, error) {
			*into = nil // of an earlier try
			if begin == nil {
				return nil
			}
			return begin()
		}
		c.refused = func(err error) error {
			if refused != nil {
				err = refused(err)
			}
			return store(err)
		}
		if decode != nil {
			c.decode = func(d *wire.Decoder) error { return store(decode(d)) }
		}
		return c, nil
	}
	return r
}
