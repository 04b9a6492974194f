// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

var (
	// ErrStop is returned by the function of [LeaderSelector.Run] to end the
	// Run, even with [WithAutoRequeue]. Run then returns nil.
	ErrStop = errors.New("stop standing for election")

	// ErrInterrupted is the cause with which the context of a leadership ends when
	// [LeaderSelector.InterruptLeadership] is called.
	ErrInterrupted = errors.New("leadership interrupted")

	// ErrNotStarted says that a latch was used before Start.
	ErrNotStarted = errors.New("latch not started")

	// ErrClosed says that a latch was closed, and is the cause with which its
	// leadership ends then.
	ErrClosed = errors.New("latch closed")

	// ErrRevoked says that another client has asked for the leadership, so the leader has no value
	// to proclaim any more.
	ErrRevoked = errors.New("another client has asked for the leadership")

	// ErrRunning says that Run was called while another Run of the selector was under
	// way. A selector stands for election once at a time.
	ErrRunning = errors.New("selector runs already")
)

// mayPass reports whether an attempt to join that failed with err may succeed
// by itself later. Lack of rights and the like take a person to change.
func mayPass(err error) bool {
	var lost *locks.LostError
	var panicked *attempt.PanicError
	return framework.Retryable(err) || attempt.RefusedForNow(err) || errors.As(err, &lost) || errors.As(err, &panicked) ||
		errors.Is(err, framework.ErrSessionEnded)
}
