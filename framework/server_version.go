// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// exchangeNewer is exchange for a request that is new in ZooKeeper 3.6. There must be a
// connection already.
func (r *requests) exchangeNewer(ctx context.Context, c *call) error {
	if err := r.checkVersion(ctx, 3, 6); err != nil {
		return err
	}
	c.newer = true
	return r.exchange(ctx, c)
}

// checkVersion fails if the server is known to be older than this version of ZooKeeper. It waits for
// the server's version for no longer than the client lives.
func (r *requests) checkVersion(ctx context.Context, major, minor int) error {
	return r.checkServer(ctx, func(ctx context.Context) error { return r.conduit.CheckVersion(ctx, major, minor) })
}

// checkServer fails if the check does, which may wait for what the server says of itself.
func (r *requests) checkServer(ctx context.Context, check func(context.Context) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	unbind := context.AfterFunc(r.ctx, cancel)
	defer unbind()
	err := check(asking)
	var tooOld *conduit.TooOldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooOld):
		return unsupported(tooOld)
	case r.ctx.Err() != nil:
		return r.ended()
	case ctx.Err() != nil:
		return interrupted(ctx)
	default:
		return r.requestError(ctx, err, false)
	}
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
		return f.checkServer(ctx, f.conduit.CheckZooKeeper)
	}
	return f.run(ctx, opRequireZooKeeper, "", plan{common: cfg, attempt: attempt}, err)
}

// exchangeWatches is exchange for calls with setWatches among them. A server without it hangs up. So
// setWatches is left out at a server that has done so, and with a place for its error also at a server that
// is not known to have it.
func (r *requests) exchangeWatches(ctx context.Context, calls []*call) error {
	if err := r.awaitConnection(ctx, r.cfg.ConnectTimeout, calls[0].session); err != nil {
		return &OpError{calls[0].name, calls[0].path, err}
	}
	known, tooOld := r.conduit.CheckSetWatches()
	left := make([]*call, 0, len(calls))
	for _, c := range calls {
		err := fmt.Errorf("%w: the server has not reported a version of ZooKeeper", ErrUnsupported)
		if tooOld != nil {
			err = unsupported(tooOld)
		} else if known || c.errInto == nil {
			err = nil
		}
		if c.code != wire.OpSetWatches || err == nil {
			left = append(left, c)
		} else if err := c.keep(err); err != nil {
			return &OpError{c.name, c.path, err}
		}
	}
	if len(left) == 0 {
		return nil
	}
	return r.exchange(ctx, left...)
}

// newer returns the attempt of a plan for a read that is new in ZooKeeper 3.6.
func (r *requests) newer(calls []*call) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := r.awaitConnection(ctx, r.cfg.ConnectTimeout, nil); err != nil {
			return err
		}
		return r.exchangeNewer(ctx, calls[0])
	}
}
