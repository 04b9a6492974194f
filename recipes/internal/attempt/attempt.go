// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Conditional makes a write that the server applies only on a condition, such as the version of a
// znode, and repeats it when its outcome is unknown. If the first write was applied, its own
// condition keeps the second from being applied, so the write is applied at most once. But then
// Conditional cannot distinguish it from a write of another process, and
// [framework.OutcomeUnknown] is true for the error.
func Conditional(write func() error) error {
	first := write()
	for err := first; ; err = write() {
		switch {
		case err == nil || !framework.OutcomeUnknown(first):
			return err
		case !framework.OutcomeUnknown(err):
			// The condition has answered, so the doubt about the first one stays.
			return fmt.Errorf("%w (and then %w)", first, err)
		case !framework.Retryable(err):
			return err
		}
	}
}

// Overtaken reports whether a conditional write has certainly failed because
// the znode was written, created or deleted first.
func Overtaken(err error) bool {
	return !framework.OutcomeUnknown(err) &&
		(errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNodeExists))
}

// NotSent reports whether a write was not sent because its session or its history has ended.
func NotSent(err error) bool {
	return errors.Is(err, framework.ErrSessionEnded) && !framework.OutcomeUnknown(err)
}

// RefusedForNow reports whether a server has refused a request for a reason that may end without
// an event: a quota, or an error inside the server. The retry policy does not repeat such a request.
func RefusedForNow(err error) bool {
	return errors.As(err, new(framework.ServerError)) && !errors.Is(err, framework.ErrUnsupported)
}

// InDoubt returns err as one for which [framework.OutcomeUnknown] is true: the
// caller leaves while a write is under way.
func InDoubt(err error) error { return inDoubtError{err} }

type inDoubtError struct{ error }

func (e inDoubtError) Error() string {
	return e.error.Error() + ": a write is under way, its outcome is unknown"
}

func (e inDoubtError) Unwrap() error { return e.error }

// Is matches what framework.OutcomeUnknown looks for.
func (inDoubtError) Is(target error) bool { return framework.OutcomeUnknown(target) }

// ErrNilContext is what calls with a nil context return.
var ErrNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)
