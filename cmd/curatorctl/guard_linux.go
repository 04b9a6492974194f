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

// process is a process for as long as the machine runs: numbers are used again.
type process struct {
	pid   int
	start string // in ticks of the machine's clock
}

// kin is a set of processes.
type kin map[process]bool

// killOrphans kills the children of this process, and theirs, until there are none but the
// spared ones.
func killOrphans(spared kin) {
	for {
		var killed []int
		for child, parent := range processes() {
			if parent == os.Getpid() && !spared[child] {
				_ = unix.Kill(child.pid, unix.SIGKILL) // it may have ended
				killed = append(killed, child.pid)
			}
		}
		if len(killed) == 0 {
			return
		}
		for _, pid := range killed {
			for {
				if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
					break // it has ended, or another goroutine has seen that
				}
			}
		}
	}
}

// descendants returns the children of this process, and theirs.
func descendants() kin {
	found := make(kin)
	parents := processes()
	for before := -1; before != len(found); {
		before = len(found)
		pids := map[int]bool{os.Getpid(): true}
		for p := range found {
			pids[p.pid] = true
		}
		for p, parent := range parents {
			if pids[parent] {
				found[p] = true
			}
		}
	}
	return found
}

// processes returns all processes with their parents.
func processes() map[process]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parents := make(map[process]int)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent ... start ...; the name may contain anything
		const parent, start = 1, 19 // after the name
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > start {
			parents[process{pid, string(fields[start])}], _ = strconv.Atoi(string(fields[parent]))
		}
	}
	return parents
}
