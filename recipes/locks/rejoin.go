// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

// rejoining decides whether an acquisition that has failed makes another attempt: within the
// retry policy, and without limit once an attempt has stood in the queue, so that only the context
// ends a wait.
type rejoining struct {
	run      retry.Run
	queued   bool // an attempt has stood in the queue
	failures attempt.Pause
}

func rejoin(policy retry.Policy) rejoining { return rejoining{run: retry.Begin(policy)} }

// after pauses before the attempt that follows one that has failed with this error, and has
// waited in the queue since then, or not at all if that is zero. If none follows, it returns the
// error of the acquisition.
func (r *rejoining) after(ctx context.Context, since time.Time, err error) error {
	r.queued = r.queued || !since.IsZero()
	pause := time.Duration(0)
	switch {
	case r.queued && outlasted(err):
		pause = r.pause(since)
	case !startsAgain(err):
		return err
	case ctx.Err() == nil:
		allowed := r.run.AllowRetry(err, true)
		if allowed {
			pause, allowed = r.run.Next(err)
		}
		if !allowed {
			return err
		}
	}
	attempt.Sleep(ctx, pause)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; last error: %w", context.Cause(ctx), err)
	}
	return nil
}

// pause returns the pause of an acquisition that nothing but its context ends.
func (r *rejoining) pause(since time.Time) time.Duration {
	if since.IsZero() {
		return min(r.failures.Next(), maxRejoinPause)
	}
	r.failures.Reset()
	// A node that was deleted right after its creation is not created again at once:
	// whatever deletes it would spin with us.
	return time.Until(since.Add(lookDelay))
}

// outlasted reports whether a wait outlasts the error: its place in the queue is gone, or there
// is an outage.
func outlasted(err error) bool {
	return startsAgain(err) || framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// startsAgain reports whether the error says that a place in the queue is gone.
func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, errTurnLost) || errors.Is(err, ErrSequenceExhausted)
}
