// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Exit statuses; see the documentation of the command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitFound       = 2
	exitUnknown     = 3
	exitUsage       = 64
	exitUnavailable = 69
	exitLost        = 70
	exitNotAcquired = 75
	exitNoPerm      = 77
	exitMaxHold     = 124
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number
)

// exit is an error with a status of its own. Without an error it is silent.
type exit struct {
	status int
	err    error
	died   syscall.Signal // that has ended the command; 0 if none has
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exit{status: exitUsage, err: fmt.Errorf(format, args...)}
}

// monitored returns the status that monitors look for when a verb has found some.
func monitored(some bool) error {
	if some {
		return &exit{status: exitFound}
	}
	return nil
}

// statusOf returns the exit status for an error of a verb.
func statusOf(err error) int {
	var with *exit
	var end signalError
	var lost *locks.LostError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &with):
		return with.status
	case errors.As(err, &end):
		return exitSignal + int(end.number)
	case errors.Is(err, framework.ErrInvalidPath), errors.Is(err, framework.ErrInvalidOption):
		return exitUsage
	case errors.As(err, &lost):
		return exitLost
	case errors.Is(err, locks.ErrNotAcquired):
		return exitNotAcquired
	case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrAuthFailed):
		return exitNoPerm
	case errors.Is(err, framework.ErrNotConnected), framework.Retryable(err), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	default:
		return exitFailed
	}
}

// signalOf returns the signal that has ended a verb or its command, 0 if none has.
func signalOf(err error) syscall.Signal {
	var with *exit
	var end signalError
	switch {
	case errors.As(err, &end):
		return end.number
	case errors.As(err, &with):
		return with.died
	default:
		return 0
	}
}

// inFlags has the flags for what the library calls its options.
var inFlags = map[string]string{
	"CreatingParentsIfNeeded": "-p", "DeletingChildrenIfNeeded": "-r", "WithTTL": "-ttl", "WithVersion": "-version",
	"WithMaxLeases": "-permits", "WithSessionTimeout": "-session-timeout", "WithConnectionTimeout": "-timeout",
	"WithLabel": "-label", "WithErrorPolicy": "-policy", "WithTLS": "-tls",
	"Keytab": "-sasl-keytab", "WithServerPrincipal": "-sasl-server",
}

// capitalized is a word with the text before it. A name in a path has a slash before it.
var capitalized = regexp.MustCompile(`(?:^|[ (])[A-Z][A-Za-z]+`)

// packages are the names of the library's packages in its errors. They say nothing to the user of a command.
var packages = regexp.MustCompile(`(^|: )(?:(?:framework|gssapi|inspect|leader|page|partition|schedule|zk): )+`)

// ofLocks is an error of package locks, whose name is also a verb.
var ofLocks = regexp.MustCompile(`(^|: )locks: ([a-z]+ /)`)

// said returns an error as the user of a command reads it, on one line.
func said(err error) string {
	text := strings.ReplaceAll(oneLine(err.Error()), context.Canceled.Error()+": ", "") // the cause follows
	text = ofLocks.ReplaceAllString(packages.ReplaceAllString(text, "$1"), "$1$2")
	return capitalized.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimLeft(found, " (")
		return strings.TrimSuffix(found, name) + cmp.Or(inFlags[name], name)
	})
}

var oneLine = inspect.OneLine
