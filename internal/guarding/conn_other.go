// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package guarding

import (
	"context"
	"errors"
)

// Conn is the connection of a client to a guard, which only Linux can have.
type Conn struct{}

// Dial fails: no other kernel shows the end of a process to any other process.
func Dial(context.Context, string) (*Conn, error) {
	return nil, errors.New("guards need Linux, which this system is not")
}

// Register is never called.
func (*Conn) Register(context.Context, Registration) error { return nil }

// Lost is never called.
func (*Conn) Lost() <-chan struct{} { return nil }

// Drop is never called.
func (*Conn) Drop() {}

// Withdraw is never called.
func (*Conn) Withdraw() {}
