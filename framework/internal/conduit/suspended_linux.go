// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime: both count from the start of the machine, and only the
// second one goes on while it is suspended.
const (
	clockMonotonic = 1
	clockBootTime  = 7
)

// systemSuspended returns a function that reports for how long the machine has been
// suspended since it was started, or nil if the kernel does not know.
func systemSuspended() func() time.Duration {
	if _, ok := clockTime(clockBootTime); !ok {
		return nil
	}
	return func() time.Duration {
		// In this order: a thread that is stopped in between makes the difference smaller,
		// and a lease must not end because of that. The next reading is right.
		boot, _ := clockTime(clockBootTime)
		monotonic, _ := clockTime(clockMonotonic)
		return boot - monotonic
	}
}

func clockTime(id uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	// The syscall package has no function for it. The kernel does not keep the pointer.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
