//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"

	"github.com/gocurator/curator/recipes/locks"
)

const guardVerb = "__guard"

var forwarded = []os.Signal{os.Interrupt}

func endsWait(syscall.Signal) bool { return true }

func guard() int { return exitCannotRun }

func (u *underLock) supervise(*call, *locks.Lease) error {
	return &exit{exitCannotRun, errors.New("lock run needs process groups, which this system does not have")}
}
