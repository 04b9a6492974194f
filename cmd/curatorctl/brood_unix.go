// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// brood is the children of this process, among them those that it has adopted. Only one goroutine
// uses it: as long as it has not waited for a child, the number is that child's.
type brood struct {
	command int // the child whose end is noted
	ended   bool
	status  unix.WaitStatus
}

// reap waits for children that have ended, and reports whether others are left.
func (b *brood) reap() bool {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); {
		case err == unix.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == b.command:
			b.ended, b.status = true, status
		}
	}
}

// end kills all descendants at once, and again what they have started meanwhile, until there are none. It waits for those that it
// may not kill.
func (b *brood) end() {
	b.reach(unix.SIGKILL, 0) // what the command has left behind, where that is no child
	for pause := time.Millisecond; b.reap(); pause = min(2*pause, look) {
		<-time.After(pause)
		b.reach(unix.SIGKILL, 0)
	}
}

// signal reaches all processes of the command. One that is stopped goes on, so that it heeds the signal.
func (b *brood) signal(s unix.Signal) {
	b.reach(s, 0)
	b.reach(unix.SIGCONT, 0)
}
