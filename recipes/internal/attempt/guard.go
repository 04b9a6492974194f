// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/usercode"
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
		panicked.log(client)
	}
	return err
}

// GuardHere is Guard on the goroutine of its caller, which fn may end. It calls done with the
// error, last and in any case.
func GuardHere(client *framework.Framework, fn func() error, done func(error)) {
	var err error
	usercode.Call(func() { err = fn() }, func(p *usercode.Panic) {
		if p != nil {
			panicked := &PanicError{p.Value, p.Stack}
			panicked.log(client)
			err = panicked
		}
		done(err)
	})
}

func (e *PanicError) log(client *framework.Framework) {
	client.Logger().Error("user code panicked", "panic", e.Value, "stack", e.Stack)
}

// Catch calls fn and returns its error, or its panic as a [*PanicError], which
// the caller logs. It calls fn on a goroutine of its own; see [usercode.Apart].
func Catch(fn func() error) (err error) {
	if p := usercode.Apart(func() { err = fn() }); p != nil {
		return &PanicError{p.Value, p.Stack}
	}
	return err
}
