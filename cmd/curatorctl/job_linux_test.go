// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The keys of a terminal that have signals sent.
const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// terminalSession is a shell with job control on a terminal. In it, $lock is "curatorctl lock run /locks/job --".
type terminalSession struct {
	t       *testing.T
	server  *zkserver.Server
	client  *framework.Framework
	user    *os.File
	mark    string // a file's name, $mark in the shell
	hangUp  func()
	changed chan struct{} // for each piece of text

	mu   sync.Mutex
	text string // that has not been awaited
}

// prompt is what the shell says when it takes a line.
const prompt = "READY> "

func newTerminalSession(t *testing.T) *terminalSession {
	t.Helper()
	server := zktest.NewServer(t)
	user, program := openTerminal(t)
	s := &terminalSession{t: t, server: server, client: zktest.Client(t, server), user: user, mark: filepath.Join(t.TempDir(), "mark"), changed: make(chan struct{}, 1)}
	s.hangUp = sync.OnceFunc(func() { require.NoError(t, user.Close()) })
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr(), "PS1="+prompt, "TERM=dumb", "HISTFILE=",
		"lock="+os.Args[0]+" lock run /locks/job --", "mark="+s.mark)
	shell.Stdin, shell.Stdout, shell.Stderr = program, program, program
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, shell.Start())
	require.NoError(t, program.Close())
	read := make(chan struct{})
	go func() {
		defer close(read)
		piece := make([]byte, 4096)
		for {
			n, err := user.Read(piece)
			s.mu.Lock()
			s.text += string(piece[:n])
			s.mu.Unlock()
			select {
			case s.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return // the terminal is gone
			}
		}
	}()
	t.Cleanup(func() {
		s.hangUp()
		<-read
		_ = shell.Wait() // its status is that of the last job
		s.free()
	})
	s.await(prompt)
	return s
}

// await waits until the terminal shows a text, which no echo of a line may have.
func (s *terminalSession) await(text string) {
	s.t.Helper()
	for limit := time.After(limit); ; {
		s.mu.Lock()
		before, after, found := strings.Cut(s.text, text)
		if found {
			s.text = after
		}
		s.mu.Unlock()
		if found {
			s.t.Logf("%q", before+text)
			return
		}
		select {
		case <-s.changed:
		case <-limit:
			s.t.Fatalf("the terminal has not shown %q but %q", text, s.text)
		}
	}
}

// press types keys.
func (s *terminalSession) press(keys string) {
	s.t.Helper()
	must.Get(s.user.WriteString(keys))(s.t)
}

// line types a line.
func (s *terminalSession) line(line string) { s.t.Helper(); s.press(line + "\n") }

// holders returns the holders of the lock.
func (s *terminalSession) holders() int {
	s.t.Helper()
	recipes := must.Get(inspect.At(zktest.Context(s.t), s.client, "/locks/job"))(s.t)
	n := 0
	for _, r := range recipes {
		n += r.Holders
	}
	return n
}

// stopped waits until the process that has written its number to the file mark is stopped. The shell waits for the
// front only, and a read(2) of the terminal that has a signal to come takes a key that is there before.
func (s *terminalSession) stopped() {
	s.t.Helper()
	number := must.Get(os.ReadFile(s.mark))(s.t)
	require.Eventually(s.t, func() bool {
		status := must.Get(os.ReadFile("/proc/" + strings.TrimSpace(string(number)) + "/status"))(s.t)
		return strings.Contains(string(status), "\nState:\tT")
	}, limit, 10*time.Millisecond)
}

// free waits until the lock can be had.
func (s *terminalSession) free() {
	s.t.Helper()
	mutex := must.Get(locks.NewInterProcessMutex(s.client, "/locks/job"))(s.t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit) // it may be the test's end
	defer cancel()
	require.NoError(s.t, mutex.Do(ctx, func(context.Context) error { return nil }))
}

// TestJobControl: a shell and its terminal see of lock run what they see of flock(1).
func TestJobControl(t *testing.T) {
	t.Parallel()
	for _, job := range []struct {
		name string
		play func(t *testing.T, s *terminalSession)
	}{
		{"Ctrl-Z and fg keep the lock", func(t *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'echo $$ >$mark; echo BE""GUN; read a; echo GO""T-$a'`)
			s.await("BEGUN")
			s.press(ctrlZ)
			s.await(prompt)
			s.stopped()
			require.Equal(t, 1, s.holders())
			s.line("fg")
			s.line("hello")
			s.await("GOT-hello")
			s.await(prompt)
			require.Zero(t, s.holders(), "released before the prompt")
		}},
		{"Ctrl-Z and bg", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'echo BE""GUN; until [ -e $mark ]; do sleep 0.01; done; exit 7'; echo`)
			s.await("BEGUN")
			s.press(ctrlZ)
			s.await(prompt)
			s.line("bg; : >$mark; wait %1; echo STATUS $?")
			s.await("STATUS 7")
		}},
		{"a job in the background that reads stops", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'echo BE""GUN; read a </dev/tty; echo GO""T-$a' &`)
			s.await("BEGUN")
			s.line(`until jobs | grep -q Stopped; do sleep 0.05; done; fg`)
			s.line("hello")
			s.await("GOT-hello")
			s.await(prompt)
		}},
		{"a prompt on the terminal beside another input", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'echo PASS""WORD; read a </dev/tty; echo GO""T-$a' </dev/null`)
			s.await("PASSWORD")
			s.line("hello")
			s.await("GOT-hello")
			s.await(prompt)
		}},
		{"a pager", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock seq 3 | sh -c 'cat; echo MO""RE; read a </dev/tty; echo GO""T-$a'`)
			s.await("MORE")
			s.line("hello")
			s.await("GOT-hello")
			s.await(prompt)
		}},
		{"Ctrl-C", func(_ *testing.T, s *terminalSession) {
			// Without exec, dash makes a child that loses a SIGINT until it is the sleep.
			s.line(`$lock sh -c 'echo BE""GUN; exec sleep 600'`)
			s.await("BEGUN")
			s.press(ctrlC)
			s.await(prompt)
			s.line("echo STATUS $?")
			s.await("STATUS 130")
		}},
		{"Ctrl-backslash", func(_ *testing.T, s *terminalSession) {
			s.line(`ulimit -c 0; $lock sh -c 'echo BE""GUN; exec sleep 600'`)
			s.await("BEGUN")
			s.press(ctrlBackslash)
			s.await(prompt)
			s.line("echo STATUS $?")
			s.await("STATUS 131")
		}},
		{"Ctrl-C while it waits for the lock", func(t *testing.T, s *terminalSession) {
			mutex := must.Get(locks.NewInterProcessMutex(s.client, "/locks/job"))(t)
			require.NoError(t, mutex.Do(zktest.Context(t), func(context.Context) error {
				s.line(`$lock true`)
				zktest.AwaitEvent(t, s.server, func(e zkserver.Event) bool {
					return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID != s.client.Session().ID()
				})
				s.press(ctrlC)
				s.await(prompt)
				s.line("echo STATUS $?")
				s.await("STATUS 130")
				return nil
			}))
		}},
		{"Ctrl-C ends a script", func(_ *testing.T, s *terminalSession) { // with exec, as above
			s.line(`cat >$mark.sh <<'END'
for i in 1 2 3; do echo TU''RN $i; $lock sh -c "echo BE''GUN; exec sleep 60"; done
echo SCRIPT''ENDS
END
PS2=; bash $mark.sh`)
			s.await("TURN 1")
			s.await("BEGUN")
			s.press(ctrlC)
			s.await(prompt)
			s.line("echo STATUS $?")
			s.await("STATUS 130")
		}},
		{"each signal comes once", func(_ *testing.T, s *terminalSession) {
			s.line(`cat >$mark.sh <<'END'
n=0
for s in INT TERM USR1; do trap "n=\$((n+1)); echo CAU''GHT $s \$n" $s; done
echo BE''GUN
until [ -e $mark ]; do sleep 0.05; done
END
PS2=; $lock sh $mark.sh`)
			s.await("BEGUN")
			s.press(ctrlC)
			s.await("CAUGHT INT 1")
			s.press(ctrlZ)
			s.await(prompt)
			s.line("bg")
			for i, kill := range []string{"kill -TERM %1", "kill -TERM $!", "kill -USR1 $!", "kill -INT %1"} {
				s.await(prompt)
				s.line(strings.ReplaceAll(kill, "$!", "$(jobs -p %1)"))
				s.await(fmt.Sprintf("CAUGHT %s %d", strings.Fields(kill)[1][1:], i+2))
				time.Sleep(2 * look) // a second one would come within that
				s.line("")
			}
			s.await(prompt)
			s.line(`kill -USR1 %1`)
			s.await("CAUGHT USR1 6")
			s.line(": >$mark")
		}},
		{"the terminal hangs up", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'echo BE""GUN; exec sleep 600'`)
			s.await("BEGUN")
			s.hangUp()
			s.free()
		}},
		{"nohup", func(t *testing.T, s *terminalSession) {
			mark := filepath.Join(t.TempDir(), "mark")
			s.line(`nohup $lock sh -c 'echo BE""GUN; until [ -e ` + mark + ` ]; do sleep 0.01; done; mv ` + mark + ` ` + mark + `.done' | cat &`)
			s.await("BEGUN")
			s.hangUp()
			time.Sleep(2 * look) // a hangup that was not ignored would be handed on within that
			require.NoError(t, os.WriteFile(mark, nil, 0o600))
			s.free()
			require.FileExists(t, mark+".done")
		}},
		{"inherited descriptors", func(_ *testing.T, s *terminalSession) {
			s.line(`$lock sh -c 'cat <&9 >&3' 3>$mark 9<<<DESCRIP''TOR; cat $mark`)
			s.await("DESCRIPTOR")
		}},
	} {
		t.Run(job.name, func(t *testing.T) {
			t.Parallel()
			job.play(t, newTerminalSession(t))
		})
	}
}

// openTerminal returns both sides of a pseudo terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	raw, err := user.SyscallConn() // with Fd a Close would not end a Read
	require.NoError(t, err)
	number := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}))
	require.NoError(t, err)
	program = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	return user, program
}
