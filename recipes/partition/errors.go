// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

var (
	// ErrMoved is the cause with which the context of a partition's function ends when the
	// partition goes to another member. The partition is released when the function has
	// returned.
	ErrMoved = errors.New("the partition moves to another member")

	// ErrRemoved is the cause with which the context of a partition's function ends when the
	// partition is no longer in the set.
	ErrRemoved = errors.New("the partition was removed from the set")

	// ErrRunning reports a [Member.Run] while another one is under way.
	ErrRunning = errors.New("member runs already")
)

// mayPass reports whether the znode of a member may be created later, although an attempt has
// failed with err. Lack of rights and the like take a person to change.
func mayPass(err error) bool {
	var panicked *attempt.PanicError
	return framework.Retryable(err) || framework.OutcomeUnknown(err) || attempt.RefusedForNow(err) || attempt.Overtaken(err) ||
		errors.Is(err, framework.ErrNotEmpty) || errors.Is(err, framework.ErrSessionEnded) || errors.As(err, &panicked)
}
