// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/gocurator/curator/recipes/locks"
)

const keepVerb, guardVerb = "__keep", "__guard"

var (
	forwarded = []syscall.Signal{syscall.SIGINT}
	errNoJobs = &exit{status: exitCannotRun, err: errors.New("lock run needs Unix, which this system is not")}
)

func catch(signals chan<- os.Signal, list ...syscall.Signal) {
	for _, s := range list {
		signal.Notify(signals, s)
	}
}

func die(syscall.Signal) {}

func keep([]*verb) int { return exitCannotRun }

func guard() int { return exitCannotRun }

func (program) front([]string) error { return errNoJobs }

func (u *underLock) supervise(*call, *locks.Lease, ...string) error { return errNoJobs }
