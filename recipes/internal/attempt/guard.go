// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"runtime/debug"

	"github.com/gocurator/curator/framework"
)

// PanicError is a panic of user code, such as a retry policy, that ran on a
// goroutine of a recipe.
type PanicError struct {
	Value any
	Stack string // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("user code panicked: %v", e.Value) }

// Guard calls fn on a goroutine of a recipe, and returns its error. A panic
// of user code that fn calls must not end the process: it is logged with its
// stack and returned as a [*PanicError].
func Guard(client *framework.Framework, fn func() error) error {
	err := Catch(fn)
	if panicked, ok := err.(*PanicError); ok { //nolint:errorlint // of this call, not one that fn returns
		client.Logger().Error("user code panicked", "panic", panicked.Value, "stack", panicked.Stack)
	}
	return err
}

// Catch calls fn and returns its error, or its panic as a [*PanicError], which
// the caller logs.
func Catch(fn func() error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = &PanicError{Value: recovered, Stack: string(debug.Stack())}
		}
	}()
	return fn()
}
