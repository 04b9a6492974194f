// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// clockID names a clock that goes on while the machine is suspended.
const clockID = unix.CLOCK_BOOTTIME

// lastSignal is the signal that the kernel delivers last. No other program has a use for it here.
const lastSignal = syscall.Signal(64)

// self names the running program, even when its file is gone or another.
func self() (string, error) { return "/proc/self/exe", nil }

// beCalled gives this process a name.
func beCalled(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // the name of /proc/self/exe is not the program's either
}

// isIgnored reports whether this process ignores a signal.
func isIgnored(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	field, _, _ := bytes.Cut(after, []byte("\n"))
	mask, _ := strconv.ParseUint(string(bytes.TrimSpace(field)), 16, 64)
	return mask&(1<<(s-1)) != 0
}

// adopt makes this process the parent of descendants whose own parents end.
func adopt() {
	// Linux before 3.4 knows no such thing: then those that outlive their parents are not found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// commandAttributes has the command killed with the guard.
func commandAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// reach sends all descendants a signal, except a spared one. Parents come first, or a script could see its child end and exit
// with another status.
func (b *brood) reach(s unix.Signal, spared int) {
	all := processes()
	for _, pid := range slices.Sorted(maps.Keys(all)) { // in which parents are first, unless numbers begin again
		if p := all[pid]; p.pid != spared && p.isBelow(os.Getpid(), all) {
			p.signal(s)
		}
	}
}

// process is a process for as long as the machine runs: numbers are used again.
type process struct {
	pid, parent int
	start       string // in ticks of the machine's clock
}

func (p process) isBelow(ancestor int, all map[int]process) bool {
	parent := p.parent
	for range len(all) { // parents may have changed while they were read
		if parent == ancestor {
			return true
		}
		parent = all[parent].parent
	}
	return false
}

// signal sends it a signal, if it still is the same process.
func (p process) signal(s unix.Signal) {
	found, err := os.FindProcess(p.pid) // by its pidfd, where the kernel has such: its number may be used again from now on
	if err != nil {
		return // it has ended
	}
	defer func() { _ = found.Release() }() // nothing waits for it
	if now, isThere := readProcess(p.pid); isThere && now.start == p.start {
		_ = found.Signal(s) // it may have ended
	}
}

// processes returns all processes by their numbers.
func processes() map[int]process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := make(map[int]process)
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, found := readProcess(pid); found {
				all[pid] = p
			}
		}
	}
	return all
}

func readProcess(pid int) (p process, found bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// pid (name) state parent ... start ...; the name may contain anything
	const parent, start = 1, 19 // after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start {
		return process{}, false
	}
	p = process{pid: pid, start: string(fields[start])}
	p.parent, err = strconv.Atoi(string(fields[parent]))
	return p, err == nil
}
