// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// scattered works in two process groups, and only when there are both. Neither of them ends at SIGTERM.
const scattered = `trap '' TERM; setsid sh -c '>"$` + pipeOfTokens + `.left"; ` + tokens + `' & ` +
	`until [ -e "$` + pipeOfTokens + `.left" ]; do sleep 0.01; done; ` + tokens

// TestRunEndsProcessesThatLeaveTheirGroup: they end with the command too. On Linux they are found by
// whichever of lock run and its guard is left.
func TestRunEndsProcessesThatLeaveTheirGroup(t *testing.T) {
	t.Parallel()
	under(t, "the command ends", longSession, `setsid sh -c '`+tokens+`' & `+untilTold+`exit 6`, func(t *testing.T, p *patient) {
		p.tell()
		p.end(6)
		require.Zero(t, p.nothingLeft())
	})
	under(t, "the session is killed", longSession, scattered, func(t *testing.T, p *patient) {
		require.True(t, p.server.KillSession(p.holder.Session))
		p.end(exitLost)
		t.Logf("%d writes were refused", p.nothingLeft())
	})
	t.Run("front and keeper are killed", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p, writer := startAlone(t, server, server.Addr(), longSession, scattered)
		require.NoError(t, writer.Close())
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP)) // so that it is there until it is killed
		p.kill(p.keeper, syscall.SIGKILL)
		require.NoError(t, p.cmd.Process.Kill())
		require.Error(t, zktest.Await(t, p.ended, "the end of lock run"))
		require.Zero(t, zktest.Await(t, p.refused, "the end of all processes"), "the guard ends them")
	})
	under(t, "the keeper is stopped", shortSession, scattered, func(t *testing.T, p *patient) {
		p.kill(p.keeper, syscall.SIGSTOP)
		require.Zero(t, p.nothingLeft(), "the guard ends them")
		p.kill(p.keeper, syscall.SIGCONT)
		p.end(exitLost)
	})
	under(t, "the guard is killed", longSession, scattered, func(t *testing.T, p *patient) {
		p.kill(p.guard, syscall.SIGKILL)
		p.end(exitSignal + int(syscall.SIGKILL))
		require.Zero(t, p.nothingLeft(), "lock run ends them before it releases the lock")
	})
	under(t, "the guard is stopped", longSession, scattered, func(t *testing.T, p *patient) {
		p.kill(p.guard, syscall.SIGSTOP)
		require.True(t, p.server.KillSession(p.holder.Session))
		p.end(exitLost)
		t.Logf("%d writes were refused", p.nothingLeft())
	})
}

// TestRunSignalReachesParentsFirst: a script that sees its child end before it has the signal exits with another status.
func TestRunSignalReachesParentsFirst(t *testing.T) {
	t.Parallel()
	server := newServerFor(t)
	p, writer := startAlone(t, server, server.Addr(), longSession,
		`exec bash -c 'for i in $(seq 20); do sleep 600 & done; echo $CURATOR_LOCK_TOKEN; wait -n; exit 0'`)
	require.NoError(t, writer.Close())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.end(exitSignal + int(syscall.SIGTERM))
}

// TestRunReapsOrphans: a command that runs for months must not fill the table of processes.
func TestRunReapsOrphans(t *testing.T) {
	t.Parallel()
	server := newServerFor(t)
	p, writer := startAlone(t, server, server.Addr(), longSession, `i=0; while [ $i -lt 20 ]; do (true & ); i=$((i+1)); done; echo $CURATOR_LOCK_TOKEN; sleep 600`)
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool {
		children := 0
		for _, q := range processes() {
			if q.parent == p.guard {
				children++
			}
		}
		return children == 1
	}, limit, look, "the command only")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.end(exitSignal + int(syscall.SIGTERM))
}

// TestRunGuardSurvivesAKillByName, as killall and pkill -f do it.
func TestRunGuardSurvivesAKillByName(t *testing.T) {
	t.Parallel()
	server := newServerFor(t)
	p, writer := startAlone(t, server, server.Addr(), longSession, tokens)
	require.NoError(t, writer.Close())
	for _, file := range []string{"comm", "cmdline"} {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.guard, file)))(t)
		require.True(t, strings.HasPrefix(string(text), guardName), "%s", text)
		require.NotContains(t, string(text), filepath.Base(os.Args[0]))
		require.NotContains(t, string(text), "lock run")
		require.NotContains(t, string(text), "sleep")
	}
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, zktest.Await(t, p.ended, "the end of lock run"))
	require.Zero(t, zktest.Await(t, p.refused, "the end of all processes"))
}

// TestRunProgramMayBeReplaced while lock run waits for the lock.
func TestRunProgramMayBeReplaced(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	file := filepath.Join(t.TempDir(), "curatorctl")
	program := must.Get(os.ReadFile(os.Args[0]))(t)
	syscall.ForkLock.RLock()                  // a process that another test starts meanwhile would have the file open for writing, and no program may be so
	err := os.WriteFile(file, program, 0o700) //nolint:gosec // a program
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/a"))(t)
	cmd := exec.Command(file, "lock", "run", "/locks/a", "--", "echo", "done")
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, mutex.Do(zktest.Context(t), func(context.Context) error {
		require.NoError(t, cmd.Start())
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
			return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID != client.Session().ID()
		})
		require.NoError(t, os.Remove(file))
		return os.WriteFile(file, []byte("#!/bin/false\n"), 0o700) //nolint:gosec // a program
	}))
	require.NoError(t, cmd.Wait(), "%s", &out)
	require.Equal(t, "done\n", out.String())
}

// TestRunBesideAStoppedProcess: the script goes on that no shell with a terminal has started, although
// a process of its group is stopped when the command ends.
func TestRunBesideAStoppedProcess(t *testing.T) {
	t.Parallel()
	server := newServerFor(t)
	script := `sleep 600 & kill -STOP $!; "$0" lock run /locks/a -- echo done; kill -KILL $!; echo "$? and on"`
	cmd := exec.Command("sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, "done\n0 and on\n", string(output))
}

// TestRunSparesEarlierProcesses: what a script has started before it becomes lock run is not the command's.
func TestRunSparesEarlierProcesses(t *testing.T) {
	server := zktest.NewServer(t)
	in, toHelper, err := os.Pipe()
	require.NoError(t, err)
	fromHelper, out, err := os.Pipe()
	require.NoError(t, err)
	// The helper's own child is started after lock run, and its parent is gone when the command ends.
	script := `sh -c '(sleep 0.5; cat <&3 >&4 2>&1) & :' & exec 3<&- 4>&-; exec "$0" lock run /locks/a -- sleep 0.2`
	cmd := exec.Command("sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	cmd.ExtraFiles = []*os.File{in, out}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, errors.Join(in.Close(), out.Close()))
	_, err = toHelper.WriteString("there")
	require.NoError(t, errors.Join(err, toHelper.Close()))
	require.Equal(t, "there", string(must.Get(io.ReadAll(fromHelper))(t)))
	require.NoError(t, fromHelper.Close())
}

// TestRunGuardCatchesUp: a guard that a busy machine lets see its signals late hands none on that was for the whole group. Here one comes
// right before the mark that the guard waits for.
func TestRunGuardCatchesUp(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sleep", "600") // which SIGUSR2 ends
	require.NoError(t, command.Start())
	signals, late := make(chan os.Signal, 1), make(chan os.Signal)
	g := &guarded{brood: brood{command: command.Process.Pid}, signals: signals, marks: late, ours: make(map[syscall.Signal]time.Time)}
	received := marks()
	go func() {
		mark := <-received
		signals <- unix.SIGUSR2
		late <- mark
	}()
	g.waiting = []waitingSignal{{unix.SIGUSR2, time.Now().Add(-look)}}
	g.handOnSignals()
	require.Empty(t, g.waiting)
	require.NoError(t, command.Process.Kill())
	require.Equal(t, exitSignal+int(unix.SIGKILL), statusOfShell(must.As[*exec.ExitError](t, command.Wait())))
}
