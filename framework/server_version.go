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
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	unbind := context.AfterFunc(r.ctx, cancel)
	defer unbind()
	err := r.conduit.CheckVersion(asking, major, minor)
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

// exchangeWatches is exchange for calls with setWatches among them. A server without it hangs up. So
// setWatches is left out at a server that has done so, and with a place for its error also at a server that
// is not known to have it.
func (r *requests) exchangeWatches(ctx context.Context, calls []*call) error {
	if err := r.awaitConnection(ctx, r.cfg.connectionTimeout, calls[0].session); err != nil {
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

func unsupported(why *conduit.TooOldError) error { return fmt.Errorf("%w: %w", ErrUnsupported, why) }

// newer returns the attempt of a plan for a read that is new in ZooKeeper 3.6.
func (r *requests) newer(calls []*call) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := r.awaitConnection(ctx, r.cfg.connectionTimeout, nil); err != nil {
			return err
		}
		return r.exchangeNewer(ctx, calls[0])
	}
}
