// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"runtime/debug"
)

// panicked is a panic of a function of the program.
type panicked struct {
	value any
	stack string
}

// errExited stands for the value of a panic when a function of the program has ended its goroutine.
var errExited = errors.New("runtime.Goexit was called")

// apart calls a function of the program, and returns its panic, nil for none. The function has a goroutine of its
// own, because it may end that with runtime.Goexit, as testing.T.FailNow does. The client's must go on.
func apart(call func()) *panicked {
	done := make(chan *panicked, 1)
	go func() {
		p := &panicked{value: errExited} // unless it returns
		defer func() { done <- p }()
		defer func() {
			if recovered := recover(); recovered != nil {
				p.value = recovered
			}
			if p != nil {
				p.stack = string(debug.Stack())
			}
		}()
		call()
		p = nil
	}()
	return <-done
}
