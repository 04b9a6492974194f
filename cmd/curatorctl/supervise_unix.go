//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/recipes/locks"
)

// The command of lock run must have ended before another client can get the lock, even when this
// process is killed or stopped. So this process, which has the session, does not run the command
// itself. A guard does: the same program with the verb __guard. It kills the command
//
//   - at the time that it was last told, by the clock of the machine,
//   - when the pipe from this process ends,
//   - when it is told to.
//
// This process moves that time on for as long as servers confirm the session. When the command has
// exited, the guard kills what remains of it. Only then the lock is released.

// guardVerb is what a process is called with that is a guard.
const guardVerb = "__guard"

// Of the session timeout, how much is left when the command gets SIGTERM, and SIGKILL. A
// healthy connection never lets it come below a third.
const (
	termShare = 4
	killShare = 10
)

// renewals is how often the time is moved on in the span of a session timeout.
const renewals = 20

var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
}

// endsWait reports whether a signal ends a wait for a lock.
func endsWait(s syscall.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// keeper is a guard as its parent sees it.
type keeper struct {
	cmd     *exec.Cmd
	control *os.File
	reports chan string // closed with the end of the guard's pipe
	group   int         // of the command's processes; 0 before it has started, and when it has ended
	alone   bool        // children of this process that are not among the earlier ones are the guard's
	earlier kin         // descendants of this process before the guard, as of a script that has become it
}

// supervise runs the command under the lease and returns when none of it is left.
func (u *underLock) supervise(c *call, lease *locks.Lease) error {
	k, err := c.startGuard(lease)
	if err != nil {
		return &exit{exitCannotRun, err}
	}
	w := &watch{u: u, c: c, lease: lease, keeper: k}
	err = w.run()
	if endErr := k.end(); err == nil {
		err = endErr
	}
	return err
}

func (c *call) startGuard(lease *locks.Lease) (*keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirs, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, theirReports, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirs.Close(), control.Close())
	}
	cmd := exec.Command(self, append([]string{guardVerb}, c.command...)...) //nolint:noctx // its end is watch's to decide
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, c.stderr
	cmd.ExtraFiles = []*os.File{theirs, theirReports}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which hands it on
	cmd.Env = append(os.Environ(),
		"CURATOR_LOCK_PATH="+c.args[0], "CURATOR_LOCK_NODE="+lease.Path(), "CURATOR_LOCK_TOKEN="+strconv.FormatInt(lease.Token(), 10))
	var earlier kin
	if c.alone {
		earlier = descendants()
		adopt()
	}
	err = cmd.Start()
	err = errors.Join(err, theirs.Close(), theirReports.Close())
	if err != nil {
		return nil, errors.Join(err, control.Close(), reports.Close())
	}
	k := &keeper{cmd: cmd, control: control, reports: make(chan string), alone: c.alone, earlier: earlier}
	go func() {
		defer close(k.reports)
		defer func() { _ = reports.Close() }() // it was only read
		for lines := bufio.NewScanner(reports); lines.Scan(); {
			k.reports <- lines.Text()
		}
	}()
	return k, nil
}

// patience is how long a guard has to take a word, or to end when it must. One that takes
// longer is stopped.
const patience = 2 * time.Second

// tell sends the guard a word. One that is gone has killed the command, or its parent sees the
// end of its pipe. One that is stopped can leave the pipe full.
func (k *keeper) tellf(format string, args ...any) {
	_ = k.control.SetWriteDeadline(time.Now().Add(patience / 100)) // a pipe has deadlines
	_, _ = fmt.Fprintf(k.control, format+"\n", args...)
}

// kill kills the command without the guard's help.
func (k *keeper) kill() {
	if k.group > 0 {
		_ = unix.Kill(-k.group, unix.SIGKILL) // none of it may be left
	}
}

// end waits for the guard's end.
func (k *keeper) end() error {
	err := k.control.Close() // a guard that is still there ends now
	for range k.reports {
	}
	_ = k.cmd.Wait() // its status says nothing that it has not reported
	k.kill()
	if k.alone {
		killOrphans(k.earlier)
	}
	return err
}

// watch is one command under a lease.
type watch struct {
	*keeper

	u     *underLock
	c     *call
	lease *locks.Lease
	lost  error // why the lease has ended, or the command before it could

	unanswered <-chan time.Time // when the guard must have ended; nil until it must
}

func (w *watch) run() error {
	w.renew()
	timeout := w.lease.Session().Timeout()
	renewal := time.NewTicker(timeout / renewals)
	defer renewal.Stop()
	var maxHold <-chan time.Time
	if w.u.maxHold > 0 {
		timer := time.NewTimer(w.u.maxHold)
		defer timer.Stop()
		maxHold = timer.C
	}
	var revoked <-chan struct{}
	if w.u.revocable {
		revoked = w.lease.Revoked()
	}
	var deadline <-chan time.Time
	lost, overdue := w.lease.Done(), false
	for {
		select {
		case report, open := <-w.reports:
			if status, done := w.heed(report, open); done {
				return w.outcome(status, overdue)
			}
		case <-renewal.C:
			w.renew()
		case <-lost:
			lost, w.lost = nil, w.lease.Err()
			w.killAll()
		case <-deadline:
			deadline = nil
			w.killAll()
		case <-w.unanswered:
			_ = w.cmd.Process.Kill() // it may have ended; end kills what it leaves behind
		case <-revoked:
			revoked = nil
			w.tellf("signal %d", syscall.SIGTERM)
		case <-maxHold:
			overdue, maxHold = true, nil
			w.tellf("signal %d", syscall.SIGTERM)
			deadline = time.After(w.u.grace)
		case s := <-w.c.signals:
			if number, ok := s.(syscall.Signal); ok {
				w.tellf("signal %d", number)
			}
		}
	}
}

// killAll ends the command now, even when the guard is stopped.
func (w *watch) killAll() {
	w.kill()
	w.tellf("kill")
	if w.unanswered == nil {
		w.unanswered = time.After(patience)
	}
}

// renew tells the guard until when the lock is certain to be held.
func (w *watch) renew() {
	now := clock() // first, so that a pause in between makes the time no later
	left := time.Until(w.lease.Session().HoldDeadline(w.u.policy))
	timeout := w.lease.Session().Timeout()
	switch {
	case w.lease.Err() != nil:
	case left <= timeout/killShare:
		w.lost = errUnconfirmed
		w.killAll()
	default:
		w.tellf("until %d %d", now+left-timeout/termShare, now+left-timeout/killShare)
	}
}

var errUnconfirmed = errors.New("no server has confirmed the lock in time")

// heed reads a report, and returns the command's status when that is over.
func (w *watch) heed(report string, open bool) (status int, done bool) {
	word, value, _ := strings.Cut(report, " ")
	number, _ := strconv.Atoi(value)
	switch {
	case !open: // the guard is gone
		w.kill()
		return exitSignal + int(syscall.SIGKILL), true
	case word == "started":
		w.group = number
		return 0, false
	case word == "exited", word == "expired":
		w.group = 0
		if word == "expired" {
			w.lost = errUnconfirmed
		}
		return number, true
	default:
		w.c.complainf("curatorctl: %s\n", report)
		return exitCannotRun, true
	}
}

func (w *watch) outcome(status int, overdue bool) error {
	if err := w.lease.Err(); err != nil {
		w.lost = err
	}
	switch {
	case w.lost != nil:
		return &exit{exitLost, fmt.Errorf("the command was ended: %w", w.lost)}
	case overdue:
		return &exit{exitMaxHold, fmt.Errorf("the command was ended after %v", w.u.maxHold)}
	case status != 0:
		return &exit{status: status}
	default:
		return nil
	}
}

// clock is the time since the machine was started. All processes have the same.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clockID, &now); err != nil {
		panic(err) // there is such a clock on every system that this is compiled for
	}
	return time.Duration(now.Nano())
}
