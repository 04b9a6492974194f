package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// exchangeNewer is exchange for a request that is new in ZooKeeper 3.6. There must be a
// connection already.
func (f *Framework) exchangeNewer(ctx context.Context, c *call) error {
	server, err := f.checkVersion(ctx)
	if err != nil {
		return err
	}
	err = f.exchange(ctx, c)
	// The version could not be found out, but the answer shows it.
	if isUnimplemented(err) {
		return unsupported(f.conduit.NoteTooOld(server))
	}
	return err
}

// checkVersion fails if the server is known to be older than ZooKeeper 3.6. It asks the
// server for its version for no longer than the client lives.
func (f *Framework) checkVersion(ctx context.Context) (server string, err error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	unbind := context.AfterFunc(f.ctx, cancel)
	defer unbind()
	server, err = f.conduit.CheckVersion(asking)
	var tooOld *conduit.TooOldError
	switch {
	case err == nil:
		return server, nil
	case errors.As(err, &tooOld):
		return server, unsupported(tooOld)
	case f.ctx.Err() != nil:
		return server, f.ended()
	case ctx.Err() != nil:
		return server, interrupted(ctx)
	default:
		return server, f.requestError(ctx, err, false)
	}
}

func unsupported(why *conduit.TooOldError) error { return fmt.Errorf("%w: %w", ErrUnsupported, why) }
