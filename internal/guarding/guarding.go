// SPDX-License-Identifier: Apache-2.0

// Package guarding is what keeps the session of a process beyond its end: a guard, or a file.
//
// A guard ends the sessions of processes that are gone. The command curatorctl has one. It may give such a session to the
// same program, started again. A [File] does only that.
//
// # Clients and guards
//
// They speak over a Unix socket that keeps the bounds of messages. The first message of a client hands
// over a pidfd of its own process, by which the kernel shows the end of that process alone. It names the program. Each
// further message is a [Registration], which replaces the one before. The guard answers each message with an
// [Answer], the first one with the session that the program has left. The end of the connection says nothing about the process.
package guarding

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// Env names the environment variable with the path of the socket.
	Env = "CURATOR_GUARD"

	// EnvID names the environment variable with the name of the program.
	EnvID = "CURATOR_ID"

	// Network is the network of the socket.
	Network = "unixpacket"

	// MaxMessage is the length in bytes of the longest message.
	MaxMessage = 64 << 10
)

// Keeper keeps the session of this process. One goroutine may use it.
type Keeper interface {
	// Register replaces the registration, and returns once the keeper has it.
	Register(ctx context.Context, r Registration) error

	// Lost is closed when the keeper has ended.
	Lost() <-chan struct{}

	// Drop ends the use of the keeper by a client that is closed, or after a failure. The registration stays: a guard keeps it
	// for as long as this process lives, and a file until another client takes it.
	Drop()

	// Withdraw ends the registration and the use of the keeper.
	Withdraw()
}

// Registration is what a guard needs to end a session. The zero value withdraws a registration.
type Registration struct {
	// Program is what may have the session after this process. It is empty if no program may.
	Program string

	Servers  string // host:port,...
	Session  int64
	Password []byte
	Timeout  time.Duration // after which the servers end the session by themselves
}

// Format writes the session for every verb, and never the password.
func (r Registration) Format(f fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(f, fmt.Sprintf("0x%x", uint64(r.Session)))
}

// Answer is what a guard says to a message.
type Answer struct {
	Refused string        // why, or empty
	Left    *Registration // what the program has left, or nil; the guard has registered it for this process
}
