package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// scattered works in two process groups, and only when there are both. Neither of them ends at SIGTERM.
const scattered = `trap '' TERM; setsid sh -c '>"$` + pipeOfTokens + `.left"; ` + tokens + `' & ` +
	`until [ -e "$` + pipeOfTokens + `.left" ]; do sleep 0.01; done; ` + tokens

// TestProcessesThatLeaveTheirGroup end with the command too. On Linux they are found by
// whichever of lock run and its guard is left.
func TestProcessesThatLeaveTheirGroup(t *testing.T) {
	t.Parallel()
	t.Run("the command ends", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p := start(t, server, server.Addr(), longSession, `setsid sh -c '`+tokens+`' & `+untilTold+`exit 6`)
		p.tell()
		p.end(6)
		require.Zero(t, p.nothingLeft())
	})
	t.Run("the session is killed", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p := start(t, server, server.Addr(), longSession, scattered)
		require.True(t, server.KillSession(p.holder.Session))
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
	t.Run("the keeper is stopped", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p := start(t, server, server.Addr(), shortSession, scattered)
		p.kill(p.keeper, syscall.SIGSTOP)
		require.Zero(t, p.nothingLeft(), "the guard ends them")
		p.kill(p.keeper, syscall.SIGCONT)
		p.end(exitLost)
	})
	t.Run("the guard is killed", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p := start(t, server, server.Addr(), longSession, scattered)
		p.kill(p.guard, syscall.SIGKILL)
		p.end(exitSignal + int(syscall.SIGKILL))
		require.Zero(t, p.nothingLeft(), "lock run ends them before it releases the lock")
	})
	t.Run("the guard is stopped", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p := start(t, server, server.Addr(), longSession, scattered)
		p.kill(p.guard, syscall.SIGSTOP)
		require.True(t, server.KillSession(p.holder.Session))
		p.end(exitLost)
		t.Logf("%d writes were refused", p.nothingLeft())
	})
}

// TestEarlierProcessesAreSpared: what a script has started before it becomes lock run is not the command's.
func TestEarlierProcessesAreSpared(t *testing.T) {
	server := zktest.NewServer(t)
	in, toHelper, err := os.Pipe()
	require.NoError(t, err)
	fromHelper, out, err := os.Pipe()
	require.NoError(t, err)
	script := `sh -c 'cat; :' <&3 >&4 2>&1 & exec 3<&- 4>&-; exec "$0" lock run /locks/a -- true`
	cmd := exec.Command("sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	cmd.ExtraFiles = []*os.File{in, out}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, errors.Join(in.Close(), out.Close()))
	_, err = toHelper.WriteString("there")
	require.NoError(t, errors.Join(err, toHelper.Close()))
	answer, err := io.ReadAll(fromHelper)
	require.NoError(t, err)
	require.Equal(t, "there", string(answer))
	require.NoError(t, fromHelper.Close())
}
