// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/recipes/locks"
)

// voice is the standard error of a keeper: the front writes for it, since a process outside the
// job may be stopped by the terminal when it writes.
type voice struct{ reports io.Writer }

func (v voice) Write(text []byte) (int, error) {
	return len(text), send(v.reports, report{Say: string(text)})
}

// keep is the work of a keeper: it runs a command line with a lock.
func keep(verbs []*verb) int {
	beCalled(keeperName)
	control, reports := json.NewDecoder(inherited(os.Args[2])), inherited(os.Args[3])
	var first handover
	if err := control.Decode(&first); err != nil {
		return exitCannotRun // the front is gone
	}
	signals, gone := make(chan os.Signal, 16), make(chan struct{})
	catch(signals, forwarded...)
	go func() {
		defer close(gone)
		for {
			var next order
			if control.Decode(&next) != nil {
				return
			}
			select {
			case signals <- syscall.Signal(next.Signal):
			default: // as os/signal does
			}
		}
	}()
	p := program{
		verbs: verbs, stdin: os.Stdin, stdout: os.Stdout, stderr: voice{reports}, signals: signals, gone: gone, reports: reports,
		getenv: func(name string) string {
			for _, pair := range first.Env {
				if value, found := strings.CutPrefix(pair, name+"="); found {
					return value
				}
			}
			return ""
		},
	}
	err := p.attempt(context.Background(), first.Args)
	_ = send(reports, report{Ended: true, Status: statusOf(err), Died: int(signalOf(err))}) // a front that is gone reads nothing
	return exitDone
}

// Of the session timeout, how much is left when the command gets SIGTERM, and SIGKILL. A
// healthy connection never lets it come below a third.
const (
	termShare = 4
	killShare = 10
)

// renewals is how often the time is moved on in the span of a session timeout.
const renewals = 20

// supervise runs the command with more in its environment, and returns when none of it is left. A lease that is not nil bounds it.
func (u *underLock) supervise(c *call, lease *locks.Lease, env ...string) error {
	if lease != nil {
		token := strconv.FormatInt(lease.Token(), 10)
		env = append(env, "CURATOR_LOCK_PATH="+c.args[0], "CURATOR_LOCK_NODE="+lease.Path(), "CURATOR_LOCK_TOKEN="+token)
	}
	p := c.program
	p.stderr = os.Stderr                                                                           // of the command
	guard, err := p.startHelper(guardVerb, guardName, handover{c.command, env}, handOn(c.reports)) // so the front waits for the guard's end too
	if err != nil {
		return &exit{status: exitCannotRun, err: err}
	}
	guarding.Beside(guard.process.Process) // before it may start the command
	adopt()
	// A group of its own in the same session is not enough. At the end of the guard the kernel could then take the group that
	// the keeper has left for an orphan. It sends SIGHUP to all of an orphaned group in which a process is stopped.
	_, _ = unix.Setsid() // it fails for the leader of a group only, which has no front
	w := &watch{helper: guard, u: u, c: c, lease: lease}
	err = w.run()
	status := guard.end()
	if errors.Is(err, errGuardGone) {
		if early := endedEarly(status); early != nil {
			return early
		}
		return &exit{status: exitSignal + int(syscall.SIGKILL)}
	}
	return err
}

// endedEarly returns the end of a helper by a signal that it catches. It had not come so far, as at a Ctrl-C right after the start,
// and so there was no command.
func endedEarly(status unix.WaitStatus) error {
	if !status.Signaled() || !endsWait(status.Signal()) {
		return nil
	}
	return notStarted(signalError{status.Signal()})
}

// end returns when no process of the command is left. A guard that can ends them, and goes last: so
// there is one even if this process is killed meanwhile. Its status is the result.
func (h *helper) end() unix.WaitStatus {
	_ = h.control.Close() // it was only written
	b := brood{command: h.process.Process.Pid}
	for given := time.Now(); b.reap() && time.Since(given) < 2*time.Second; {
		b.reach(unix.SIGKILL, h.process.Process.Pid)
		<-time.After(time.Millisecond)
	}
	b.end()
	return b.status
}

// watch is one command under a lease, as the keeper sees it.
type watch struct {
	*helper

	u     *underLock
	c     *call
	lease *locks.Lease // nil for a command without one
}

func (w *watch) run() error {
	if err := w.renew(); err != nil {
		return w.outcome(err)
	}
	every, done, revoked := w.ofLease()
	renewal := time.NewTicker(every)
	defer renewal.Stop()
	var maxHold, deadline <-chan time.Time
	if w.u.maxHold > 0 {
		maxHold = time.After(w.u.maxHold)
	}
	var overdue error
	for {
		select {
		case r, open := <-w.reports:
			if !open {
				return w.outcome(errGuardGone)
			}
			return w.reported(r, overdue)
		case <-renewal.C:
			if err := w.renew(); err != nil {
				return w.outcome(err)
			}
		case <-done:
			return w.outcome(nil)
		case <-w.c.gone: // the process that waits for the outcome has ended
			return errFrontGone
		case <-deadline:
			return w.outcome(overdue)
		case <-revoked: // the signal is sent once, and the command may take its time
			revoked = nil
			w.tell(order{Signal: int(syscall.SIGTERM)})
		case <-maxHold:
			overdue, maxHold = &exit{status: exitMaxHold, err: fmt.Errorf("the command was ended after %v", w.u.maxHold)}, nil
			w.tell(order{Signal: int(syscall.SIGTERM)})
			deadline = time.After(w.u.grace)
		case s := <-w.c.signals:
			if number, ok := s.(syscall.Signal); ok {
				w.tell(order{Signal: int(number)})
			}
		}
	}
}

// ofLease returns how often a lease must be renewed, and what tells of its end and of a revocation. They never come without one.
func (w *watch) ofLease() (every time.Duration, done, revoked <-chan struct{}) {
	if w.lease == nil {
		return time.Hour, nil, nil
	}
	if w.u.revocable {
		revoked = w.lease.Revoked()
	}
	return w.lease.Session().Timeout() / renewals, w.lease.Done(), revoked
}

// reported returns the end of a command as its guard has reported it. A command that was overdue has ended for that, with whatever status.
func (w *watch) reported(r report, overdue error) error {
	switch {
	case !r.Ended: // it could not be started
		return &exit{status: exitCannotRun, err: errors.New(r.Say)}
	case r.Late:
		return w.outcome(lost(errUnconfirmed))
	case overdue == nil && r.Status != exitDone:
		return w.outcome(&exit{status: r.Status, died: syscall.Signal(r.Died)})
	default:
		return w.outcome(overdue)
	}
}

// renew tells the guard until when the lock is certain to be held.
func (w *watch) renew() error {
	if w.lease == nil {
		w.tell(order{Term: math.MaxInt64, Kill: math.MaxInt64})
		return nil
	}
	now := clock() // first, so that a pause in between makes the time no later
	left := time.Until(w.lease.Session().HoldDeadline(w.u.policy))
	timeout := w.lease.Session().Timeout()
	if left <= timeout/killShare {
		return lost(errUnconfirmed)
	}
	w.tell(order{Term: int64(now + left - timeout/termShare), Kill: int64(now + left - timeout/killShare)})
	return nil
}

var (
	errUnconfirmed = errors.New("no server has confirmed the lock in time")
	errGuardGone   = errors.New("the guard is gone")
)

func lost(err error) error {
	return &exit{status: exitLost, err: fmt.Errorf("the command was ended: %w", err)}
}

// outcome returns the end of a command as its user sees it: the end of the lease counts most.
func (w *watch) outcome(err error) error {
	if w.lease != nil && w.lease.Err() != nil {
		return lost(w.lease.Err())
	}
	return err
}
