// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// monotonic returns the time in nanoseconds of the clock that all processes of this machine
// share and that cannot be set.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // no Linux is without it
	}
	return t.Nano()
}

// stop halts a process that is a child of this one, and returns when all its threads
// stand still.
func stop(process *os.Process) error {
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("nemesis: stop process %d: %w", process.Pid, err)
	}
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("nemesis: wait for process %d to stop: %w", process.Pid, err)
		}
	}
}

// goOn lets a stopped process go on.
func goOn(process *os.Process) error {
	if err := process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("nemesis: let process %d go on: %w", process.Pid, err)
	}
	return nil
}

// fillDisk makes every write of a process to a file fail from now on, as on a disk that
// is full: by the limit on the size of files, which only a new process is rid of.
func fillDisk(pid int) error {
	limit := unix.Rlimit{Cur: 1, Max: 1}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		return fmt.Errorf("nemesis: limit the files of process %d: %w", pid, err)
	}
	return nil
}

// cannotFillDisk is an error where the limits of processes are out of reach, as in some
// containers.
func cannotFillDisk() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(os.Getpid(), unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return fmt.Errorf("nemesis: prlimit: %w", err)
	}
	return nil
}

// measure tells what this process uses.
func measure() (figures, error) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return figures{}, fmt.Errorf("nemesis: %w", err)
	}
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return figures{}, fmt.Errorf("nemesis: %w", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[1], 10, 64)
	if err != nil {
		return figures{}, fmt.Errorf("nemesis: /proc/self/statm: %w", err)
	}
	return figures{
		Goroutines: runtime.NumGoroutine(), Files: len(files) - 1, Resident: pages * int64(os.Getpagesize()),
	}, nil
}

// startTied starts a process that dies with this one. The kernel ties it to the
// thread that forks, which is kept for as long as the process runs. What is sent on the
// channel in the end is the result of Wait.
func startTied(cmd *exec.Cmd) (exited <-chan error, err error) {
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
