// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/usercode"
)

// PanicError is the panic of user code that ran on a goroutine of a recipe.
type PanicError = usercode.PanicError

// Guard calls fn on a goroutine of a recipe, and returns its error. A panic
// of user code that fn calls must not end the process: it is logged with its
// stack and returned as a [*PanicError].
func Guard(client *framework.Framework, fn func() error) error {
	ended := make(chan error, 1)
	go GuardHere(client, fn, func(err error) { ended <- err })
	return <-ended
}

// GuardHere is Guard on the goroutine of its caller, which fn may end. It calls done with the
// error, last and in any case.
func GuardHere(client *framework.Framework, fn func() error, done func(error)) {
	var err error
	usercode.Call(func() { err = fn() }, func(p *PanicError) {
		if p != nil {
			client.Logger().Error("user code panicked", "panic", p.Value, "stack", p.Stack)
			err = p
		}
		done(err)
	})
}

// Catch calls fn and returns its error, or its panic as a [*PanicError], which
// the caller logs. It calls fn on a goroutine of its own; see [usercode.Apart].
func Catch(fn func() error) (err error) {
	if p := usercode.Apart(func() { err = fn() }); p != nil {
		return p
	}
	return err
}
