package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// notAcquired returns the error of an acquisition behind these contenders.
func (q *queue) notAcquired(ahead []string, cause error) error {
	e := &NotAcquiredError{Position: len(ahead), path: q.path, lockName: q.lockName, ahead: ahead, cause: cause}
	for _, name := range ahead[:min(len(ahead), identified)] {
		data, _ := q.line.Data(name)
		e.identities = append(e.identities, data)
	}
	return e
}

// acquireError returns the error of an acquisition with the prefix that all of them have.
func (q *queue) acquireError(ctx context.Context, path string, err error) error {
	return fmt.Errorf("locks: acquire %s: %w", path, q.whyNot(ctx, err))
}

// whyNot returns the reason for a failed acquisition: err, the end of the context if it has
// ended, and the missing connection if there is none.
func (q *queue) whyNot(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	end := ended(ctx)
	// Without a connection it is unknown which contenders are in the way now.
	if health := q.client.Health().Err; errors.Is(health, framework.ErrNotConnected) {
		return fmt.Errorf("%w: %w", health, end)
	}
	if !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}
