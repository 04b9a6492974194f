// SPDX-License-Identifier: Apache-2.0

// Package usercode calls functions of the program where their panic must not end the process.
package usercode

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is the panic of a function of the program, such as a retry policy.
type PanicError struct {
	Value any    // [ErrExited] if the function has ended its goroutine
	Stack string // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("user code panicked: %v", e.Value) }

// ErrExited stands for the value of a panic when a function has ended its goroutine with
// [runtime.Goexit], as testing.T.FailNow does.
var ErrExited = errors.New("runtime.Goexit was called")

// Call calls fn, and then done with its panic, nil for none. If fn ends the goroutine, done is the
// last that runs on it, but for deferred functions of the caller.
func Call(fn func(), done func(*PanicError)) {
	p := &PanicError{Value: ErrExited} // unless fn returns
	defer func() {
		if recovered := recover(); recovered != nil {
			p.Value = recovered
		}
		if p != nil {
			p.Stack = string(debug.Stack())
		}
		done(p)
	}()
	fn()
	p = nil
}

// Apart calls fn on a goroutine of its own, because fn may end that, and waits for its end. It
// returns the panic of fn, nil for none.
func Apart(fn func()) *PanicError {
	ended := make(chan *PanicError, 1)
	go Call(fn, func(p *PanicError) { ended <- p })
	return <-ended
}
