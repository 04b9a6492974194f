// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/gocurator/curator/internal/guarding"
)

// sessionGuard is for Linux only: no other kernel shows the end of a process to any other process.
type sessionGuard struct {
	path   string
	failed chan error
}

func newSessionGuard(*call, func(context.Context, guarding.Registration) error) *sessionGuard {
	return new(sessionGuard)
}

func (*sessionGuard) listen(string) error {
	return &exit{status: exitCannotRun, err: errors.New("guard needs Linux, which this system is not")}
}

func (*sessionGuard) close() {}
