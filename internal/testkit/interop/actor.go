// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
)

// Actor is one thread in a process, with a client of its own.
type Actor struct {
	process *process
	name    string
}

// Name returns the actor's name.
func (a *Actor) Name() string { return a.name }

// Do has the actor carry out a command after those it was given before, and returns
// the results. When the context ends first the command is not withdrawn: it may still
// be carried out, and its results are lost. What Java throws is a
// [*JavaError], what Python raises a [*PythonError].
func (a *Actor) Do(ctx context.Context, command string, args ...string) ([]string, error) {
	return a.Begin(command, args...)(ctx)
}

// Begin gives the actor a command and returns without waiting; the function it
// returns, to be called once, waits as Do does. Commands that one goroutine begins
// reach the process in that order.
func (a *Actor) Begin(command string, args ...string) func(context.Context) ([]string, error) {
	answer, err := a.process.send(append([]string{a.name, command}, args...))
	return func(ctx context.Context) ([]string, error) {
		if err != nil {
			return nil, err
		}
		select {
		case words := <-answer:
			return a.process.results(words)
		case <-ctx.Done():
			return nil, fmt.Errorf("interop: %s %s %q: no answer yet: %w", a.name, command, args, context.Cause(ctx))
		case <-a.process.gone:
		}
		select {
		case words := <-answer: // the last words of the process
			return a.process.results(words)
		default:
			return nil, fmt.Errorf("interop: %s ended: %v\n%s",
				a.process.name, a.process.cmd.ProcessState, a.process.log.String())
		}
	}
}
