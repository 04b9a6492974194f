// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Java is a running process of the program in Java. Its methods may be called from
// any goroutine. It ends with [Java.Close], and with the process that has started it.
type Java struct{ process process }

// Start compiles the program and starts it. The context bounds the compilation,
// which takes a second or two.
func Start(ctx context.Context) (*Java, error) {
	found, err := find(jarFolder)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "interop-")
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	if err := found.compile(ctx, folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	j := new(Java)
	failure := func(class, message string) error { return &JavaError{class, message} }
	if err := j.process.launch("java", folder, found.command(folder), failure); err != nil {
		return nil, err
	}
	return j, nil
}

// Actor returns the actor with this name, which begins to exist with the first
// command it is given: a thread with a Curator client of its own.
func (j *Java) Actor(name string) *Actor { return &Actor{&j.process, name} }

// Close ends the process, if need be by force, and removes its files. Sessions that
// are still open are left to expire. Only the first call does something; all return
// its result.
func (j *Java) Close() error { return j.process.close() }

// JavaError is an exception that a command ended with.
type JavaError struct {
	Class   string // its full name
	Message string
}

// Error returns class and message.
func (e *JavaError) Error() string { return "interop: java threw " + e.Class + ": " + e.Message }
