// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// lacks fails if the server cannot have a request. There must be a connection already.
func (r *requests) lacks(ctx context.Context, op int32, without bool) error {
	return r.checked(ctx, r.conduit.Lacks(ctx, op, without))
}

// checked translates the error of what the conduit knows of a server.
func (r *requests) checked(ctx context.Context, err error) error {
	var tooOld *conduit.TooOldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooOld):
		return unsupported(tooOld)
	default:
		return r.requestError(ctx, err, false)
	}
}

func unsupported(why *conduit.TooOldError) error { return fmt.Errorf("%w: %w", ErrUnsupported, why) }

// withoutUnknown returns the calls that the server may know. The others fail as if the server had refused them: one that
// does not know a request hangs up, and may end the session.
func (r *requests) withoutUnknown(ctx context.Context, calls []*call) ([]*call, error) {
	left := calls
	for _, c := range calls {
		err := r.lacks(ctx, c.code, c.errInto != nil)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrUnsupported) && c.refused != nil && c.refused(errUnimplemented) == nil, c.keep(err) == nil:
			left = slices.DeleteFunc(slices.Clone(left), func(other *call) bool { return other == c })
		default:
			return nil, named(c.operation, c.path, err)
		}
	}
	return left, nil
}

// RequireZooKeeper returns an error that matches [ErrUnsupported] if the server of the connection is not ZooKeeper, such as
// ClickHouse Keeper. It is for code that relies on what only ZooKeeper promises, such as the numbers of sequential
// znodes, or the Cversion of a parent. The server is asked by the four-letter word srvr on a separate connection, once
// per connection. One that does not answer within a sixth of the session timeout counts as ZooKeeper if it numbers
// sessions as ZooKeeper does.
func (f *Framework) RequireZooKeeper(ctx context.Context, opts ...CallOption) error {
	cfg, err := newCommon(opts)
	attempt := func(ctx context.Context) error {
		if err := f.awaitConnection(ctx, f.cfg.ConnectTimeout, cfg.session); err != nil {
			return err
		}
		return f.checked(ctx, f.conduit.CheckZooKeeper(ctx))
	}
	return f.run(ctx, opRequireZooKeeper, "", plan{common: cfg, attempt: attempt}, err)
}
