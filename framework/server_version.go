// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
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
