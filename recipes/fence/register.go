// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var (
	// ErrStale reports that a newer token has been seen: the holder of this one has lost
	// the lock. The error is a [*StaleError].
	ErrStale = errors.New("stale fencing token")

	// ErrInvalidToken reports that a token is malformed. Tokens are numbers from 1 to
	// 9223372036854775807.
	ErrInvalidToken = errors.New("invalid fencing token")
)

// StaleError is the refusal of a token. It matches [ErrStale].
type StaleError struct {
	Token  int64 // the token that was refused
	Newest int64 // the newest token that was seen; 0 if the receiver has not sent it
}

// Error names both tokens.
func (e *StaleError) Error() string {
	if e.Newest == 0 {
		return fmt.Sprintf("fence: %v %d", ErrStale, e.Token)
	}
	return fmt.Sprintf("fence: %v %d, the newest is %d", ErrStale, e.Token, e.Newest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Register remembers the newest token it has accepted, in memory, and refuses older
// ones. Its tokens must come from one lock that has one holder at a time, not from read
// leases or permits. The zero value has seen none. It is safe for concurrent use.
type Register struct {
	mu     sync.Mutex
	newest int64
	inside int64         // the token of the functions that are running
	count  int           // the number of functions that are running
	empty  chan struct{} // closed when the last of them returns; nil before the first
}

// NewRegister returns a register that has seen the given token, as it was stored, or
// 0 for none.
func NewRegister(newest int64) (*Register, error) {
	if newest < 0 {
		return nil, fmt.Errorf("fence: %w %d, expected 0 for none, or more", ErrInvalidToken, newest)
	}
	return &Register{newest: newest}, nil
}

// Newest returns the newest token that was seen, 0 for none.
func (r *Register) Newest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// Accept returns nil if no newer token has been seen, and otherwise a [*StaleError].
// From then on it refuses older ones. It does not block.
//
// Accept only decides. A holder with a newer token may be accepted later and finish its
// work sooner than the caller does. Where that matters, use [Register.Do], which runs the
// work before it lets newer tokens in.
func (r *Register) Accept(token int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accept(token)
}

func (r *Register) accept(token int64) error {
	switch {
	case token < 1:
		return fmt.Errorf("fence: %w %d, expected 1 or more", ErrInvalidToken, token)
	case token < r.newest:
		return &StaleError{Token: token, Newest: r.newest}
	}
	r.newest = token
	return nil
}

// Do runs fn if no newer token has been seen, and returns the error of fn. Once it has
// accepted the token it refuses older ones, and it runs fn when the functions with older
// tokens have returned. So no function with an older token runs while fn runs, or later.
// Functions with the same token run at the same time.
//
// Do blocks until those functions have returned. If ctx ends first, it returns the
// context's error and cause. If a newer token comes first, it returns a [*StaleError]. The
// context does not end fn. A fn that calls Do of the same register with a newer token waits
// for itself.
func (r *Register) Do(ctx context.Context, token int64, fn func() error) error {
	switch {
	case ctx == nil:
		return errors.New("fence: context nil, expected one such as context.Background()")
	case fn == nil:
		return errors.New("fence: function nil, expected one that writes")
	}
	if err := r.enter(ctx, token); err != nil {
		return err
	}
	defer r.leave()
	return fn()
}

// enter waits until functions with this token may run, and counts one.
func (r *Register) enter(ctx context.Context, token int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		// Again after each wait: a newer token may have come.
		if err := r.accept(token); err != nil {
			return err
		}
		if r.count == 0 || r.inside == token {
			break
		}
		if err := r.await(ctx, r.empty); err != nil {
			return err
		}
	}
	if r.count == 0 {
		r.inside, r.empty = token, make(chan struct{})
	}
	r.count++
	return nil
}

// await unlocks the register and waits. It returns with the register locked.
func (r *Register) await(ctx context.Context, empty <-chan struct{}) error {
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		err := context.Cause(ctx)
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return fmt.Errorf("fence: waiting for functions with older tokens: %w", err)
	}
}

func (r *Register) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count--; r.count == 0 {
		close(r.empty)
	}
}

// Affected is the result of an UPDATE, such as a [database/sql.Result].
type Affected interface {
	// RowsAffected returns the number of rows that were matched.
	RowsAffected() (int64, error)
}

// CheckUpdated returns nil if an UPDATE with the condition "fence <= token" has
// changed a row, and otherwise a [*StaleError] for the token:
//
//	UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?
//
// The row must exist, or the token counts as stale. Insert the row with fence 0 before the
// first write, or use the INSERT with ON CONFLICT of the package documentation. The database
// must count the rows that matched. MySQL counts the rows that changed, unless the
// connection asks for the matched ones (clientFoundRows=true in its Go driver).
func CheckUpdated(result Affected, token int64) error {
	if result == nil {
		return errors.New("fence: result nil, expected the one of an UPDATE")
	}
	n, err := result.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("fence: rows affected: %w", err)
	case n < 0:
		return fmt.Errorf("fence: %d rows affected, expected 0 or more", n)
	case n == 0:
		return &StaleError{Token: token}
	default:
		return nil
	}
}
