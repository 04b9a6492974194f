// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// ErrNilContext is what calls with a nil context return.
var ErrNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)

// Check returns what is wrong with the client and the path that a recipe is made with, or nil.
func Check(client *framework.Framework, path string) error {
	if client == nil {
		return fmt.Errorf("%w: client nil, expected a framework client", framework.ErrInvalidOption)
	}
	return framework.ValidatePath(path)
}

// CheckCall is Check for a call that makes nothing.
func CheckCall(ctx context.Context, client *framework.Framework, path string) error {
	if ctx == nil {
		return ErrNilContext
	}
	return Check(client, path)
}

// LogPanics makes a set of listeners log their panics with this message.
func LogPanics(client *framework.Framework, path, message string) listen.Option {
	return listen.OnPanic(func(recovered any, stack []byte) {
		//nolint:sloglint // each set has its constant
		client.Logger().Error(message, "curator.path", path, "panic", recovered, "stack", string(stack))
	})
}

// Signal puts a value into a channel that has room for one, unless there is one.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// IsClosed reports whether a channel without values is closed. It is false for nil.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
