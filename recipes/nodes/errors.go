// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

var (
	// ErrNotStarted reports a call that needs a node or a group before Start.
	ErrNotStarted = errors.New("not started")

	// ErrClosed reports a call on a node or a group that is closed.
	ErrClosed = errors.New("closed")

	// ErrNotCreated reports that the znode has not been created yet, and that no
	// attempt has failed.
	ErrNotCreated = errors.New("not created yet")

	// ErrDeleted is the reason in a [Change], and from Err, when another client has
	// deleted the znode, or a server has because its session ended. It is created again.
	ErrDeleted = errors.New("the znode was deleted")

	// ErrTaken reports that a znode of the same name is there that is not the node's: another
	// client holds it, or it is of another kind. The node waits until it is gone.
	ErrTaken = errors.New("another client has taken the znode")
)

// mayPass reports whether a failed attempt may succeed without a change at the
// server that no event reports. A missing permission does not pass by itself.
func mayPass(err error) bool {
	var panicked *attempt.PanicError
	return errors.As(err, &panicked) || framework.Retryable(err) || framework.OutcomeUnknown(err) || attempt.Overtaken(err) ||
		errors.Is(err, framework.ErrNotEmpty) || errors.Is(err, framework.ErrSessionEnded) ||
		errors.Is(err, framework.ErrNotReadOnly)
}

// reason returns what a failure says apart from the verb. A node whose creation was refused next asks
// whether its znode is there, and is refused for the same reason.
func reason(err error) string {
	if op, ok := errors.AsType[*framework.OpError](err); ok {
		return op.Path + ": " + op.Err.Error()
	}
	return err.Error()
}
