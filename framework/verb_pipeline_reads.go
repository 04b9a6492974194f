package framework

import (
	"fmt"
)

// ReadStat is [Framework.Exists] as part of a pipeline: *into is nil if there is no znode.
// CreatingParentsIfNeeded is refused.
func ReadStat(path string, into **Stat, opts ...ExistsOption) Read {
	return Read{operation: opExists, path: path, build: func(f *Framework) (*call, error) {
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
// fail the pipeline, and so does [ErrTooLarge]: a reply that is too large ends the connection.
//
//nolint:gocritic // the place for an error is a pointer to an interface
func (r Read) StoringErrorIn(into *error) Read {
	r.storesError, r.errInto = true, into
	return r
}
