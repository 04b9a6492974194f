// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The command of lock run must have ended before another client can get the lock, whatever happens
// to the processes around it. To its terminal and its user it must look as under flock(1). So there
// are three processes around it, all of this program:
//
//	shell
//	└ front       what the user has started; waits for the keeper and has its status
//	  └ keeper    has the session and the lock
//	    └ guard   has the command, and ends it when the keeper does not renew its time
//	      └ command
//
// Terminal. Front, guard and command are in the process group that the shell has made for the job.
// No process changes the terminal's group, so the kernel treats the command as it does without
// curatorctl: Ctrl-C, Ctrl-Z, fg, bg, hangups, changes of size and prompts on /dev/tty. A stop
// signal of the terminal stops the front, which the shell waits for, and the command, but not the
// guard. While the keeper waits for the lock it is in the group too, so a stopped job does not keep
// others from the lock for longer than a session timeout. Then it begins a session of its own: a job
// that is stopped while it has the lock keeps it, as under flock(1).
//
// Signals. A signal to the front alone is handed on to the command; one to the whole group has
// reached the command already. The guard can tell: it gets the second, too. The signals that end
// programs are handed on to all processes of the command. A signal that was ignored when the front
// was started stays so in all of them. Go's runtime replaces what it finds for other signals than
// SIGHUP and SIGINT, except stop signals, before a program can look; SIGQUIT is taken to be ignored
// where SIGINT is, since shells ignore both for jobs in the background.
//
// Killing. Each of the three ends the command when one of the others is gone:
//
//   - The front is gone: the keeper sees the end of its pipe, kills, and releases the lock.
//   - The keeper is gone or stopped: the guard sees the end of its pipe, or that the time has come
//     which the keeper has moved on for as long as servers confirmed the session. It kills.
//   - The guard is gone: the keeper sees the end of its pipe and kills before it releases the lock.
//   - Front and keeper are gone, as after killall -9 curatorctl: the guard kills. It has a name of
//     its own, and its command line has neither that of the program nor that of the command.
//
// A guard of sessions (see verbGuard) ends the session of a keeper only when keeper and guard are gone. So the command has ended before the
// next holder begins. When keeper and guard are killed together, the kernel kills the command (on Linux), but not what it
// has started. The lock goes with the session then.
//
// Proof. On Linux keeper and guard are the parents that the kernel gives to orphans below them, also
// to daemons with sessions of their own. Both are started for this one command, so every process below
// them is the command's, and no other is: what a script has started before it became the front is
// below the front only. They kill all of them in one pass, and again until no child is left. A process is killed by its
// pidfd, and only if it began when the one that was found began, so its number may be used again. Elsewhere a process that has left the group of the command is not found.
//
// A cgroup of the command's own, with cgroup.kill, would end the tree in one write. It is not made. The user would have to own
// a part of the hierarchy, which containers and most services do not give. Keeper and guard that are killed together would leave it behind. The
// next holder does not begin sooner without it, since the guard ends only when no child is left.
//
// Program. Keeper and guard are started from the running program (on Linux), not from the file of its
// name, which may be gone or replaced. They speak JSON over pipes whose numbers are no descriptors of
// the user's: all of those go on to the command under the same numbers.

// The verbs of keeper and guard, and their names for ps(1) and killall(1).
const (
	keepVerb, keeperName = "__keep", "lock-keeper"
	guardVerb, guardName = "__guard", "lock-guard"
)

// handover is the first word to a keeper or guard.
type handover struct {
	Args []string // the command line of curatorctl, or the command
	Env  []string // of curatorctl, or what is added to the command's environment
}

// order is a further word to a keeper or guard.
type order struct {
	Signal     int   `json:",omitempty"` // to be handed on
	Term, Kill int64 `json:",omitempty"` // until when the command may run, by clock; SIGTERM comes first
}

// report is a word from a keeper or guard.
type report struct {
	Say    string `json:",omitempty"` // for the standard error
	Ended  bool   `json:",omitempty"` // the command, or the keeper's work, with the status
	Late   bool   `json:",omitempty"` // the command had SIGTERM since its time had come
	Status int    `json:",omitempty"`
	Died   int    `json:",omitempty"` // the signal that has ended the command
}

// forwarded are signals that are handed on to the command.
var forwarded = []syscall.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
}

// die ends this process by a signal, as the shell that has started it expects it of a job that was interrupted: it
// does not go on with the script then. It returns where that is not possible: if the signal is ignored, for
// SIGQUIT, at which Go's runtime shows the stacks of goroutines, and in the first process of a container, which the kernel spares.
func die(s syscall.Signal) {
	if isIgnored(s) || s == syscall.SIGQUIT || !endsWait(s) || os.Getpid() == 1 {
		return
	}
	signal.Reset(s)
	if unix.Kill(os.Getpid(), s) == nil {
		<-time.After(time.Second) // until it comes
	}
}

// catch has signals sent to a channel, except those that were ignored when this process was started.
func catch(signals chan<- os.Signal, list ...syscall.Signal) {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	for _, s := range list {
		if !isIgnored(s) {
			signal.Notify(signals, s)
		}
	}
}

// helper is a keeper or guard as its parent sees it.
type helper struct {
	process *exec.Cmd
	control *os.File
	reports chan report // closed when the helper, and what it has handed its pipe on to, are gone
}

// startHelper starts a keeper or guard. It gets the numbers of its pipes as arguments, and of others
// that it shall have.
func (p program) startHelper(verb, name string, first handover, more ...string) (*helper, error) {
	self, err := self()
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
	cmd := exec.Command(self, verb, handOn(theirs), handOn(theirReports)) //nolint:noctx // its end is decided by its pipes
	cmd.Args = append(append([]string{name}, cmd.Args[1:]...), more...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	err = cmd.Start()
	err = errors.Join(err, theirs.Close(), theirReports.Close())
	if err != nil {
		return nil, errors.Join(err, control.Close(), reports.Close())
	}
	h := &helper{process: cmd, control: control, reports: make(chan report)}
	go func() {
		defer close(h.reports)
		defer func() { _ = reports.Close() }() // it was only read
		for decoder := json.NewDecoder(reports); ; {
			var r report
			if decoder.Decode(&r) != nil {
				return // the end of the pipe
			}
			h.reports <- r
		}
	}()
	_ = send(control, first) // as in tell
	return h, nil
}

// handOn has a descriptor inherited under its own number, which it returns.
func handOn(f *os.File) string {
	fd := f.Fd()
	_, _ = unix.FcntlInt(fd, unix.F_SETFD, 0) // fails for descriptors that are not open only
	return strconv.Itoa(int(fd))              //nolint:gosec // descriptors are small
}

// inherited returns a descriptor that was handed on, which goes no further.
func inherited(number string) *os.File {
	fd, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("descriptor %q of a pipe", number)) // startHelper has written it
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe") //nolint:gosec // descriptors are small
}

func send(to io.Writer, word any) error { return json.NewEncoder(to).Encode(word) }

// tell sends the helper a word, and does not wait: a helper that is stopped can leave the pipe full, and
// then the word is dropped. A write with a deadline would drop it on a busy machine, too, which may leave
// this process alone for longer than that before it writes. One that is gone has a parent that sees the
// end of its pipe.
func (h *helper) tell(word order) {
	var text bytes.Buffer
	err := send(&text, word)
	pipe, failed := h.control.SyscallConn()
	if err = errors.Join(err, failed); err != nil {
		return // the pipe is closed
	}
	_ = pipe.Write(func(fd uintptr) bool {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			_, err = unix.Write(int(fd), text.Bytes()) //nolint:gosec // descriptors are small
		}
		return true // as a pipe takes such a word whole, or not at all
	})
}

// front has a keeper run the command line, and returns its outcome.
func (p program) front(args []string) error {
	h, err := p.startHelper(keepVerb, keeperName, handover{args, environment(p.getenv)})
	if err != nil {
		return &exit{status: exitCannotRun, err: err}
	}
	outcome := error(&exit{status: exitLost, err: errors.New("the process that had the lock was killed, and so was the command")})
	for {
		select {
		case s := <-p.signals:
			if number, ok := s.(syscall.Signal); ok {
				h.tell(order{Signal: int(number)})
			}
		case r, open := <-h.reports:
			switch {
			case !open:
				_ = h.process.Wait() // the error is the status
				if status, ok := h.process.ProcessState.Sys().(syscall.WaitStatus); ok {
					outcome = cmp.Or(endedEarly(unix.WaitStatus(status)), outcome)
				}
				return errors.Join(outcome, h.control.Close())
			case r.Ended && r.Status == exitDone:
				outcome = nil
			case r.Ended:
				outcome = &exit{status: r.Status, died: syscall.Signal(r.Died)}
			default:
				p.complainf("%s", r.Say)
			}
		}
	}
}
