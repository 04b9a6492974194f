// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// signalError ends a verb that was interrupted.
type signalError struct{ number syscall.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.number.String() }

// untilSignal returns a context that ends with the first signal that ends programs, and after a limit unless that is 0. A second
// such signal kills the process. After stop, which may be called again, the context goes on and signals are for a command.
func (c *call) untilSignal(ctx context.Context, limit time.Duration) (until context.Context, stop func()) {
	until, end := context.WithCancelCause(ctx)
	var tooLate <-chan time.Time
	if limit > 0 {
		tooLate = time.After(limit)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-c.signals:
				if number, ok := s.(syscall.Signal); ok && endsWait(number) {
					if c.uncatch != nil {
						c.uncatch()
					}
					end(signalError{number})
				}
			case <-tooLate:
				end(fmt.Errorf("-w %v is over: %w", limit, context.DeadlineExceeded))
			case <-c.gone:
				end(errFrontGone)
				return
			case <-done:
				return
			}
		}
	}()
	return until, sync.OnceFunc(func() {
		close(done)
		<-ended // or a signal that has come could be lost
	})
}

// signalled returns the error of a wait that a signal has ended before there was a command, whether or not the lock was acquired.
// It returns nil for other waits.
func (c *call) signalled(ctx context.Context) error {
	var s signalError
	switch {
	case !errors.As(context.Cause(ctx), &s):
		return nil
	case len(c.command) == 0: // of elect -l
		return s
	default:
		return notStarted(s)
	}
}

// endsWait reports whether a signal ends programs, so a wait for a lock too.
func endsWait(s syscall.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

var errFrontGone = errors.New("curatorctl was killed, and so was the command")

func notStarted(s signalError) error { return fmt.Errorf("the command was not started: %w", s) }

// interruptible returns what f returns, or the cause when ctx ends first. f goes on then.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type returned struct {
		value T
		err   error
	}
	done := make(chan returned, 1)
	go func() {
		value, err := f()
		done <- returned{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
