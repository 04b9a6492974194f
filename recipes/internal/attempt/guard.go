// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/gocurator/curator/framework"
)

// PanicError is a panic of user code, such as a retry policy, that ran on a
// goroutine of a recipe. A call of [runtime.Goexit] counts as a panic.
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
	if panicked, ok := err.(*PanicError); ok { //nolint:errorlint // of this call, not an error that fn returns
		client.Logger().Error("user code panicked", "panic", panicked.Value, "stack", panicked.Stack)
	}
	return err
}

// errExited is the value of a panic when user code has ended its goroutine.
var errExited = errors.New("runtime.Goexit was called")

// Catch calls fn and returns its error, or its panic as a [*PanicError], which
// the caller logs. It calls fn on a goroutine of its own, because fn may end that with
// [runtime.Goexit], as testing.T.FailNow does. The goroutine of a recipe must go on.
func Catch(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		var err error = &PanicError{Value: errExited} // unless fn returns
		defer func() { result <- err }()
		defer func() {
			if recovered := recover(); recovered != nil {
				err = &PanicError{Value: recovered}
			}
			if panicked, ok := err.(*PanicError); ok && panicked.Stack == "" { //nolint:errorlint // of this call
				panicked.Stack = string(debug.Stack())
			}
		}()
		err = fn()
	}()
	return <-result
}
