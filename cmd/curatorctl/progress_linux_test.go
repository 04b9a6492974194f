// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// terminal is a pseudo terminal, and what was written to it.
type terminal struct {
	program *os.File
	shown   chan string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	user, program := openTerminal(t)
	t.Cleanup(func() { require.NoError(t, user.Close()) })
	term := &terminal{program, make(chan string, 1)}
	go func() {
		text, _ := io.ReadAll(user) // it ends with an error when the program has closed its side
		term.shown <- string(text)
	}()
	return term
}

// openTerminal returns both sides of a pseudo terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	raw, err := user.SyscallConn() // with Fd a Close would not end a Read
	require.NoError(t, err)
	number := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}))
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return user, program
}

// end closes the program's side and returns what the terminal has shown.
func (term *terminal) end(t *testing.T) string {
	t.Helper()
	require.NoError(t, term.program.Close())
	return zktest.Await(t, term.shown, "the end of the terminal")
}

// onTerminal runs a command line whose standard error is a terminal. The third write that it
// makes waits until a signal has come, if it shall be interrupted.
func onTerminal(t *testing.T, server *zkserver.Server, stdin string, interrupted bool, args ...string) (status int, shown string) {
	t.Helper()
	term := newTerminal(t)
	signals := make(chan os.Signal, 1)
	p := program{stdin: strings.NewReader(stdin), stdout: io.Discard, stderr: term.program, signals: signals, getenv: func(string) string { return "" }}
	if interrupted {
		writes, never := 0, make(chan struct{})
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpCreate2 && r.Op != zkserver.OpCreate && r.Op != zkserver.OpDelete && r.Op != zkserver.OpGetACL {
				return zkserver.Pass
			}
			if writes++; writes < 3 {
				return zkserver.Pass
			}
			if writes == 3 {
				signals <- syscall.SIGINT
			}
			return zkserver.HoldUntil(never)
		})
		defer remove()
		defer close(never)
	}
	status = p.run(zktest.Context(t), append([]string{"-servers", server.Addr()}, args...))
	return status, term.end(t)
}

// TestProgressOfLongWork: it is shown on a terminal only, and cleared at the end.
func TestProgressOfLongWork(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	fill(t, client)
	status, shown := onTerminal(t, server, "", false, "rm", "-r", "-yes", "/from")
	require.Zero(t, status, shown)
	require.True(t, strings.HasPrefix(shown, "deletes 5 znodes at /from and below\r\n"+clearLine+"deleted 1 of 5 znodes"), "%q", shown)
	require.True(t, strings.HasSuffix(shown, clearLine), "%q", shown)
	stat, err := client.Exists(t.Context(), "/from")
	require.NoError(t, err)
	require.Nil(t, stat)

	fill(t, client)
	got := curatorctl(t, server.Addr(), "", "rm", "-r", "-yes", "/from")
	require.Equal(t, "deletes 5 znodes at /from and below\n", got.stderr, "a file is no terminal")
}

// TestProgressOfInterruptedWork says what has been done, and the program exits as those do that a signal
// ends. Of what is done several at a time, the last answers may come later than the signal.
func TestProgressOfInterruptedWork(t *testing.T) {
	for _, test := range []struct {
		said string
		args []string
	}{
		{"deleted [0-2] of 5 znodes", []string{"rm", "-r", "-yes", "/from"}},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			server := zktest.NewServer(t)
			fill(t, zktest.Client(t, server))
			status, shown := onTerminal(t, server, "", true, test.args...)
			require.Equal(t, exitSignal+int(syscall.SIGINT), status, shown)
			require.Regexp(t, "curatorctl: "+test.said+": ended by signal: interrupt\r\n$", shown)
		})
	}
}

// fill makes five znodes at /from.
func fill(t *testing.T, client *framework.Framework) {
	t.Helper()
	for i := range 4 {
		_, err := client.Create(t.Context(), fmt.Sprintf("/from/%d", i), []byte("data"), framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
	}
}
