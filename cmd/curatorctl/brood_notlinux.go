// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const clockID = unix.CLOCK_MONOTONIC

// lastSignal is a signal that no other program sends. It may come before others, and then the guard has waited for them before.
const lastSignal = unix.SIGIO

// Only Linux can do some of this. Elsewhere a command without a terminal has a group of its own, in
// which its processes are found. One with a terminal shares the group of the job, so only the command
// itself is reached.

func self() (string, error) { return os.Executable() }

func beCalled(string) {}

func adopt() {}

func isIgnored(s syscall.Signal) bool { return signal.Ignored(s) }

func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close() // it was only opened
	}
	return err == nil
}

// commandAttributes gives the command a group of its own unless that would cost it the terminal.
func commandAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: !hasTerminal()} }

func (b *brood) reach(s unix.Signal, _ int) {
	if b.command == 0 {
		return // of a keeper, whose guard is gone
	}
	if err := unix.Kill(-b.command, s); err != nil && !b.ended { // it has no group of its own
		_ = unix.Kill(b.command, s) // it may have ended
	}
}
