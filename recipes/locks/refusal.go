package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// notAcquired returns the error of an acquisition behind these contenders.
func (q *queue) notAcquired(f *folder, ahead []string, cause error) error {
	describe := func(names []string) []Participant { return q.describe(f, names) }
	return &NotAcquiredError{Position: len(ahead), ahead: ahead, describe: describe, cause: cause}
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

// describe returns the contenders ahead as participants, as far as they are known without a
// request.
func (q *queue) describe(f *folder, contenders []string) []Participant {
	participants := make([]Participant, len(contenders))
	for i, name := range contenders {
		p := Participant{Path: framework.JoinPath(q.path, name), LockName: q.lockName, Position: i}
		p.Sequence, _ = trailingNumber(name)
		p.Identity = f.identityOf(name)
		p.Host, p.PID, p.Label = parseIdentity(p.Identity)
		participants[i] = p
	}
	return participants
}
