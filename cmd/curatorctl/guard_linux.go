package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// clockID names a clock that goes on while the machine is suspended.
const clockID = unix.CLOCK_BOOTTIME

// dieWithParent has a process killed when its parent dies.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// adopt makes this process the parent of descendants whose own parents end, so that they can
// be found.
func adopt() {
	// An old kernel knows no such thing: then those that leave their group are not found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// killOrphans kills the descendants of this process until there are none.
func killOrphans() {
	for killDescendants() {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}

// killDescendants kills the children of this process, and theirs. It reports whether there
// were any. It may miss those that begin meanwhile.
func killDescendants() bool {
	children := childrenByParent()
	var kill func(parent int)
	kill = func(parent int) {
		for _, pid := range children[parent] {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			kill(pid)
		}
	}
	kill(os.Getpid())
	return len(children[os.Getpid()]) > 0
}

// childrenByParent returns all processes by the process whose child they are.
func childrenByParent() map[int][]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent ...; the name may contain anything
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}
