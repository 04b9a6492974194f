//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The pipes that a guard gets.
const (
	controlFD = 3
	reportFD  = 4
)

// look is how often a guard looks at the clock, which goes on while the machine sleeps, unlike
// timers.
const look = 50 * time.Millisecond

// guard runs a command until it ends or must end; see supervise.
func guard() int {
	// The command dies with the thread that has started it.
	runtime.LockOSThread()
	control, report := os.NewFile(controlFD, "control"), os.NewFile(reportFD, "report")
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(reportFD)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, forwarded...) // they come through the pipe; ignored ones would be so in the command, too
	adopt()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(report, format+"\n", args...) // a parent that is gone is seen on the other pipe
	}
	orders := make(chan string)
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(control); lines.Scan(); {
			orders <- lines.Text()
		}
	}()
	g := &guarded{orders: orders}
	if !g.readOrder(<-orders) || g.isOver() {
		say("expired %d", exitSignal+int(syscall.SIGKILL)) // the command has not run
		return exitDone
	}
	command := exec.Command(os.Args[2], os.Args[3:]...) //nolint:noctx // its end is decided below
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = commandAttributes()
	if err := command.Start(); err != nil {
		say("cannot run %v", err)
		return exitDone
	}
	g.group = command.Process.Pid
	say("started %d", g.group)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = command.Wait() // how it ended is in its state
	}()
	g.watch(exited)
	g.signal(unix.SIGKILL)
	<-exited
	killOrphans(nil)
	takeTerminalBack()
	word := "exited"
	if g.termed {
		word = "expired"
	}
	say("%s %d", word, statusOfProcess(command.ProcessState))
	return exitDone
}

// guarded is the command of a guard.
type guarded struct {
	orders     <-chan string
	group      int
	term, kill time.Duration // by clock
	termed     bool
}

// watch returns when the command has exited or must be killed.
func (g *guarded) watch(exited <-chan struct{}) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return
		case order := <-g.orders:
			if !g.readOrder(order) {
				return
			}
		case <-tick.C:
		}
		if clock() >= g.term && !g.termed {
			g.termed = true
			g.signal(unix.SIGTERM)
		}
		if g.isOver() {
			return
		}
	}
}

func (g *guarded) isOver() bool { return clock() >= g.kill }

// readOrder obeys an order, and returns false if the command must be killed: that is one, and
// so is the end of the parent.
func (g *guarded) readOrder(order string) bool {
	word, rest, _ := strings.Cut(order, " ")
	switch word {
	case "until":
		var term, kill int64
		if _, err := fmt.Sscan(rest, &term, &kill); err != nil {
			return false
		}
		g.term, g.kill = time.Duration(term), time.Duration(kill)
		return true
	case "signal":
		number, err := strconv.Atoi(rest)
		g.signal(unix.Signal(number))
		return err == nil
	default:
		return false
	}
}

// signal reaches all processes of the command.
func (g *guarded) signal(s unix.Signal) {
	if g.group > 0 {
		_ = unix.Kill(-g.group, s) // they may have ended
	}
}

// statusOfProcess is what a shell makes of the end of a process.
func statusOfProcess(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}

// foreground returns the process group that has the terminal, if the standard input is one and
// it is the group of the guard's parent.
func foreground() (group int, found bool) {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0, false
	}
	parent, err := unix.Getpgid(os.Getppid())
	return group, err == nil && parent == group
}

// takeTerminalBack gives the terminal back to the parent's group after the command had it.
func takeTerminalBack() {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	parent, parentErr := unix.Getpgid(os.Getppid())
	if errors.Join(err, parentErr) != nil || group == parent {
		return
	}
	signal.Ignore(unix.SIGTTOU) // which a group in the background gets for it
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, parent)
}

// commandAttributes makes the command a group of its own, with the terminal if there is one.
func commandAttributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if _, found := foreground(); found {
		attributes.Foreground, attributes.Ctty = true, int(os.Stdin.Fd())
	}
	dieWithParent(attributes)
	return attributes
}
