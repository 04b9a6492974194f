// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look is how often a guard looks at the clock, which goes on while the machine sleeps, unlike
// timers.
const look = 50 * time.Millisecond

// guard runs a command until it ends or must end; see supervise_unix.go.
func guard() int {
	runtime.LockOSThread() // the kernel kills the command with the thread that has started it
	beCalled(guardName)
	adopt()
	control, reports := json.NewDecoder(inherited(os.Args[2])), inherited(os.Args[3])
	inherited(os.Args[4]) // the front's; the command does not get it
	// The signals of the job are for the front and the command.
	signals := make(chan os.Signal, 16)
	catch(signals, append([]syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCHLD}, forwarded...)...)
	var first handover
	g := &guarded{orders: make(chan order), signals: signals, marks: marks()}
	if control.Decode(&first) != nil || control.Decode(&g.until) != nil || g.isOver() {
		_ = send(reports, report{Ended: true, Late: true, Status: exitLost}) // the command has not run
		return exitDone
	}
	go func() {
		defer close(g.orders)
		for {
			var next order
			if control.Decode(&next) != nil {
				return
			}
			g.orders <- next
		}
	}()
	command := exec.Command(first.Args[0], first.Args[1:]...) //nolint:noctx // its end is decided below
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), first.Env...)
	command.SysProcAttr = commandAttributes()
	if err := command.Start(); err != nil {
		_ = send(reports, report{Say: err.Error()})
		return exitDone
	}
	g.command = command.Process.Pid
	g.begin()
	g.watch()
	g.end()
	end := report{Ended: true, Late: g.termed, Status: statusOfProcess(g.status)}
	if g.status.Signaled() {
		end.Died = int(g.status.Signal())
	}
	_ = send(reports, end) // a keeper that is gone reads nothing
	return exitDone
}

// guarded is the command of a guard.
type guarded struct {
	brood

	orders  chan order
	signals <-chan os.Signal
	marks   <-chan os.Signal // what the guard sends itself
	until   order
	started time.Time // the command, or a moment later
	termed  bool
	stopped time.Time                    // the front, by a signal to the group
	resumed time.Time                    // likewise
	ours    map[syscall.Signal]time.Time // when the guard has last had one
	waiting []waitingSignal
}

// waitingSignal is a signal that the front has had.
type waitingSignal struct {
	number syscall.Signal
	since  time.Time
}

// begin notes the signals that have come before there was a command.
func (g *guarded) begin() {
	g.ours = make(map[syscall.Signal]time.Time)
	g.take()
	g.started = time.Now()
}

// take notes the signals that are in the channel.
func (g *guarded) take() {
	for {
		select {
		case s := <-g.signals:
			g.note(s)
		default:
			return
		}
	}
}

func (g *guarded) note(s os.Signal) {
	number, _ := s.(syscall.Signal)
	g.ours[number] = time.Now()
	switch number { //nolint:exhaustive // no other signal stops the front
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		g.stopped = g.ours[number]
	case unix.SIGCONT:
		g.resumed = g.ours[number]
	}
}

// marks returns the channel of lastSignal.
func marks() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, lastSignal)
	return c
}

// catchUp notes all signals that the kernel has for this process, however late a busy machine lets it see them. It sends itself another
// signal, which comes after them.
func (g *guarded) catchUp() {
	_ = unix.Kill(os.Getpid(), lastSignal) // a process may always do that
	select {
	case <-g.marks:
	case <-time.After(together):
	}
	g.take()
}

// watch returns when the command has exited or must be killed.
func (g *guarded) watch() {
	tick := time.NewTicker(look)
	defer tick.Stop()
	looked, rested, hasRested := clock(), time.Duration(0), false
	for g.reap(); !g.ended; g.reap() {
		select {
		case s := <-g.signals:
			g.note(s)
			continue
		case next, open := <-g.orders:
			switch {
			case !open:
				return
			case next.Signal != 0:
				g.waiting = append(g.waiting, waitingSignal{syscall.Signal(next.Signal), time.Now()})
			default:
				g.until, hasRested = next, false
			}
			continue
		case <-tick.C:
		}
		g.handOnSignals()
		now := clock()
		if now-looked > 4*look && !hasRested { // a guard that was stopped reads first what the keeper has told it meanwhile
			rested, hasRested = now+4*look, true
		}
		if looked = now; now < rested {
			continue
		}
		if g.isLate() && !g.termed {
			g.termed = true
			g.signal(unix.SIGTERM)
		}
		if g.isOver() {
			return
		}
	}
}

func (g *guarded) isLate() bool { return int64(clock()) >= g.until.Term }

func (g *guarded) isOver() bool { return int64(clock()) >= g.until.Kill }

// together is how much later than this process the front may see a signal to their group, apart from the time for which it is stopped.
const together = 5 * time.Second

// handOnSignals hands on what the front has had, unless it was for the whole group: the guard then
// has had it too, and so has the command.
func (g *guarded) handOnSignals() {
	if len(g.waiting) == 0 {
		return
	}
	now := time.Now()
	g.catchUp()
	var left []waitingSignal
	for _, s := range g.waiting {
		switch {
		case g.hasReached(s):
			delete(g.ours, s.number)
		case now.Sub(s.since) < look: // the kernel may not have come to this process of the group
			left = append(left, s)
		case endsWait(s.number):
			g.signal(s.number)
		default:
			_ = unix.Kill(g.command, s.number)
		}
	}
	g.waiting = left
}

// hasReached reports whether the command has had a signal of the front. One that ends programs may have come before there was a
// command: rather twice than never.
func (g *guarded) hasReached(s waitingSignal) bool {
	own, found := g.ours[s.number]
	late := s.since.Sub(own)
	if g.stopped.Sub(own) < together { // the front may have been stopped before it could tell
		late = min(late, s.since.Sub(g.resumed))
	}
	isForGroup := found && late < together
	return isForGroup && (own.After(g.started) || !endsWait(s.number))
}

// statusOfProcess is what a shell makes of the end of a process.
func statusOfProcess(status unix.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// clock is the time since the machine was started. All processes have the same.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clockID, &now); err != nil {
		panic(err) // there is such a clock on every system that this is compiled for
	}
	return time.Duration(now.Nano())
}
