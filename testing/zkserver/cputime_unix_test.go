// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zkserver_test

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used. Other processes do not add to it.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for bad arguments only
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
