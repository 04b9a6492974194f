package interop

import (
	"context"
	"fmt"
)

// Actor is one thread in the Java process, with a Curator client of its own.
type Actor struct {
	java *Java
	name string
}

// Actor returns the actor with this name, which begins to exist with the first
// command it is given.
func (j *Java) Actor(name string) *Actor { return &Actor{j, name} }

// Name returns the actor's name.
func (a *Actor) Name() string { return a.name }

// Do has the actor carry out a command after those it was given before, and returns
// the results. When the context ends first the command is not withdrawn: it may still
// be carried out, and its results are lost. What Java throws is a [*JavaError].
func (a *Actor) Do(ctx context.Context, command string, args ...string) ([]string, error) {
	return a.Begin(command, args...)(ctx)
}

// Begin gives the actor a command and returns without waiting; the function it
// returns, to be called once, waits as Do does. Commands that one goroutine begins
// reach Java in that order.
func (a *Actor) Begin(command string, args ...string) func(context.Context) ([]string, error) {
	answer, err := a.java.send(append([]string{a.name, command}, args...))
	return func(ctx context.Context) ([]string, error) {
		if err != nil {
			return nil, err
		}
		select {
		case words := <-answer:
			return results(words)
		case <-ctx.Done():
			return nil, fmt.Errorf("interop: %s %s %q: no answer yet: %w", a.name, command, args, context.Cause(ctx))
		case <-a.java.gone:
		}
		select {
		case words := <-answer: // the last words of the process
			return results(words)
		default:
			return nil, fmt.Errorf("interop: java ended: %v\n%s", a.java.cmd.ProcessState, a.java.log.String())
		}
	}
}

// JavaError is an exception that a command ended with.
type JavaError struct {
	Class   string // its full name
	Message string
}

// Error returns class and message.
func (e *JavaError) Error() string { return "interop: java threw " + e.Class + ": " + e.Message }

func results(words []string) ([]string, error) {
	switch {
	case words[0] == "ok":
		return words[1:], nil
	case words[0] == "error" && len(words) == 3:
		return nil, &JavaError{words[1], words[2]}
	default:
		return nil, fmt.Errorf("interop: answer %q, expected ok or error", words)
	}
}
