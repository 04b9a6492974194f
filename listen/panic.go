// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
)

// PanicHandler receives the panic of a listener: the value given to panic, and the stack of the goroutine as debug.Stack
// returns it. It runs on the goroutine of the listener, which receives no further value until it returns. It may be called for
// several listeners at once. If it panics itself, both panics go to slog.Default and the listener lives on.
type PanicHandler func(recovered any, stack []byte)

// Option sets up a [Set] made by [New].
type Option interface{ apply(*settings) }

type settings struct {
	handler PanicHandler
	latest  bool
}

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// OnPanic sets the handler that receives panics of listeners. By default, and with nil, each panic is logged through
// slog.Default, as it is at that moment, at level Error. The record has the attributes "of", which is "listener",
// "panic" and "stack".
func OnPanic(handler PanicHandler) Option {
	return optionFunc(func(s *settings) { s.handler = handler })
}

// Latest makes a value replace the value that still waits in a listener's queue. A listener that is slower than the
// Notify calls gets the newest value after each call, and misses older ones. It suits values that are whole states,
// such as a list of all members. For [Set.Flush] a replaced value is delivered when its replacement is.
func Latest() Option {
	return optionFunc(func(s *settings) { s.latest = true })
}

// report passes the panic of a listener to handler, to slog when there is no handler or it panics, and to standard error
// when slog panics too. It does not panic.
func report(handler PanicHandler, recovered any, stack []byte) {
	if handler == nil {
		logPanic("listener", recovered, stack)
		return
	}
	defer func() {
		if again := recover(); again != nil {
			logPanic("listener", recovered, stack)
			logPanic("panic handler", again, debug.Stack())
		}
	}()
	handler(recovered, stack)
}

func logPanic(of string, recovered any, stack []byte) {
	defer func() {
		if again := recover(); again != nil {
			fmt.Fprintf(os.Stderr, "listen: panic of a %s: %v\n%s\nlisten: panic of the log handler: %v\n", of, recovered, stack, again)
		}
	}()
	slog.Default().Error("listen: recovered from a panic",
		slog.String("of", of), slog.Any("panic", recovered), slog.String("stack", string(stack)))
}
