// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/internal/instruments"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
)

// ErrConflict reports that other clients have changed what the transaction had read, each
// time until the context ended. Nothing was written.
var ErrConflict = errors.New("conflict: another client has changed what the transaction has read")

// errEnded reports the use of a Tx after its function has returned.
var errEnded = errors.New("txn: the transaction has ended, expected calls within the function only")

// Option is an option of [Do].
type Option func(*config) error

type config struct {
	lease        *locks.Lease
	versionsOnly bool
}

// With makes the transaction succeed only while the lease is held: its lock node must exist when the
// server applies the transaction. The client of [Do] must name paths as the client of the lock does.
func With(lease *locks.Lease) Option {
	return options.Checked(lease != nil, func(c *config) { c.lease = lease },
		"%w: With(nil), expected a lease that is held", framework.ErrInvalidOption)
}

// VersionsOnly makes the transaction check znodes that exist by their versions alone. It spares the last look, two
// operations for each folder and its sequential number, and transactions on different znodes of a folder do not
// meet. A znode that is deleted and created again may be taken for the old one if both have the same version.
func VersionsOnly() Option {
	return options.Plain(func(c *config) { c.versionsOnly = true })
}

// Do calls fn and then applies, as one transaction, what fn has written with its Tx. If other clients
// have changed what fn has read, Do applies nothing and calls fn again, after a short random pause, until the
// context ends. Then the error matches [ErrConflict] and the context's.
//
// An error of fn ends the transaction and is returned; nothing is applied. If what fn has read cannot be checked,
// the error of the check is returned instead, with the text of fn's. The context bounds the whole call. See the package documentation for what fn must not do.
func Do(ctx context.Context, client *framework.Framework, fn func(tx *Tx) error, opts ...Option) error {
	var cfg config
	if err := cfg.apply(ctx, client, fn, opts); err != nil {
		return fmt.Errorf("txn: %w", err)
	}
	t, err := newTelemetry(client)
	if err != nil {
		return fmt.Errorf("txn: %w", err)
	}
	var tx *Tx
	var failed error // of fn
	err = retry.Do(ctx, contention, func(ctx context.Context) error {
		if tx == nil {
			tx = newTx(ctx, client, cfg)
			failed = tx.run(fn)
		}
		err := tx.finish(failed)
		switch err.(type) { //nolint:errorlint // an error of fn may wrap the conflict of another transaction
		case nil:
			t.commits.Add(1)
			return nil
		case *conflictError:
			tx = nil
			t.conflicts.Add(1)
			return err
		case *crowdedError: // what fn has seen is still true
			t.conflicts.Add(1)
			return err
		default:
			return backoff.Permanent(err)
		}
	})
	var own *userError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own.error // the caller's own error is returned as it is
	default:
		return fmt.Errorf("txn: %w", err)
	}
}

// contention is the policy after conflicts. The pauses are random, so that the same clients do not meet again, and
// short, because each commit in a folder takes no longer than two round trips.
var contention = retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
	return rand.N(min(time.Millisecond<<min(attempt, 10), longestPause)), true
})

const longestPause = 16 * time.Millisecond

func (c *config) apply(ctx context.Context, client *framework.Framework, fn func(*Tx) error, opts []Option) error {
	switch err := attempt.CheckCall(ctx, client, "/"); {
	case err != nil:
		return err
	case fn == nil:
		return fmt.Errorf("%w: function nil, expected one that reads and writes with its Tx", framework.ErrInvalidOption)
	}
	for _, opt := range opts {
		if opt == nil {
			return fmt.Errorf("%w: option nil, expected With or VersionsOnly", framework.ErrInvalidOption)
		}
		if err := opt(c); err != nil {
			return err
		}
	}
	return nil
}

// conflictError is a conflict over one znode.
type conflictError struct {
	path  string
	cause error
}

func conflict(path string, cause error) *conflictError { return &conflictError{path, cause} }

func (e *conflictError) Error() string {
	return fmt.Sprintf("%v: %s (%v)", ErrConflict, e.path, e.cause)
}

func (e *conflictError) Is(target error) bool { return target == ErrConflict }

func (e *conflictError) Unwrap() error { return e.cause }

// crowdedError says that a check has failed although nothing that was read has changed. The check is made again.
type crowdedError struct {
	path  string
	cause error
}

func (e *crowdedError) Error() string {
	if framework.OutcomeUnknown(e.cause) { // no check is known to have failed
		return e.cause.Error()
	}
	return fmt.Sprintf("%s: other clients create or delete in the folder all the time (%v)", e.path, e.cause)
}

func (e *crowdedError) Unwrap() error { return e.cause }

// userError is an error that the function has returned.
type userError struct{ error }

func (e *userError) Unwrap() error { return e.error }

func newTx(ctx context.Context, client *framework.Framework, cfg config) *Tx {
	return &Tx{
		ctx: ctx, client: client, cfg: cfg, history: client.History(),
		nodes: make(map[string]node), folders: make(map[string]*framework.Stat), lists: make(map[string]list), writes: make(map[string]write),
		above: make(map[string]bool),
	}
}

// run calls the function. Its Tx is of no use afterwards, even after a panic.
func (tx *Tx) run(fn func(*Tx) error) error {
	defer func() { tx.ended = true }()
	return fn(tx)
}

// finish ends the transaction after its function, which may have failed.
func (tx *Tx) finish(failed error) error {
	err := tx.check(failed)
	if tx.doubt == nil || err == nil || framework.OutcomeUnknown(err) {
		return err
	}
	err = attempt.Then(tx.doubt, err) // an answer to a later commit says nothing about an earlier one
	if crowded, ok := errors.AsType[*crowdedError](err); ok {
		return &crowdedError{crowded.path, err}
	}
	return err
}

func (tx *Tx) check(failed error) error {
	switch {
	case tx.conflict != nil:
		return tx.conflict // met by a read, whatever the function has made of it
	case failed != nil:
		switch err := tx.verify().(type) { //nolint:errorlint // they are not wrapped
		case nil:
			return &userError{failed}
		case *conflictError, *crowdedError:
			return err
		default: // the function's error may come from two states, so the caller must not match it
			return fmt.Errorf("the error of the function could not be checked: %w (it was: %v)", err, failed) //nolint:errorlint // see above
		}
	case len(tx.writes) == 0 && tx.cfg.lease == nil:
		return tx.verify()
	default:
		return tx.commit()
	}
}

// telemetry counts the outcomes of tries; "Metrics" in doc.go has the table.
type telemetry struct{ commits, conflicts *instruments.Count }

func newTelemetry(client *framework.Framework) (telemetry, error) {
	s := instruments.New(client, "txn", "")
	t := telemetry{
		commits:   s.Counter("curator.txn.commits", "{transaction}", "Transactions that have succeeded."),
		conflicts: s.Counter("curator.txn.conflicts", "{try}", "Tries of transactions that have met a conflict, or another commit in the folder."),
	}
	return t, s.Err()
}
