// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// TestImage builds what the Dockerfile puts into the image, by its own steps. The program is static, and runs as the user of the
// image with nothing else in its root. It guards a process in another container of the pod. The two share the process namespace.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the program as the image has it")
	}
	image, user := builtImage(t)

	t.Run("static", func(t *testing.T) {
		program := must.Get(elf.Open(filepath.Join(image, "curatorctl")))(t)
		defer program.Close()
		for _, part := range program.Progs {
			require.NotEqual(t, elf.PT_INTERP, part.Type, "it needs a dynamic linker, which the image has not")
		}
	})
	confined := &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: user, Gid: user}}
	t.Run("in its root", func(t *testing.T) {
		require.Contains(t, spawnFile(t, "/curatorctl", asProgram, confined, nil, "version").read("curatorctl"), "go1.")
		spawnFile(t, "/curatorctl", asProgram, confined, nil, "guard", "-v", "-socket", "/tmp/own/sock").read("listening on /tmp/own/sock")
	})
	t.Run("page", func(t *testing.T) {
		server := zktest.NewServer(t)
		spawnFile(t, "/curatorctl", asProgram, confined, []string{"CURATOR_SERVERS=" + server.Addr()},
			"serve", "-listen", "127.0.0.1:0").read("127.0.0.1:")
	})
	t.Run("guard in one process namespace", func(t *testing.T) {
		server := zktest.Embedded(zktest.NewServer(t))
		socket := newSocket(t)
		pause := exec.CommandContext(t.Context(), "sleep", "600") // the first process of the pod
		pause.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		require.NoError(t, pause.Start())
		t.Cleanup(func() { // after the others of its namespace have been reaped, for which the kernel waits
			_ = pause.Process.Kill()
			_ = pause.Wait()
		})

		guard, h := inNamespace(t, pause.Process.Pid, func() (*child, *holder) {
			guard := spawnFile(t, filepath.Join(image, "curatorctl"), asProgram, nil, nil, "guard", "-v", "-socket", socket)
			guard.read("listening on " + socket)
			return guard, startHolder(t, server, socket, nil)
		})
		require.NotEqual(t, h.cmd.Process.Pid, h.pid, "it is in another process namespace")
		h.signal(syscall.SIGKILL)
		t.Logf("from kill -9 to the next holder: %v", h.succeeded())
		guard.read(fmt.Sprintf("session=0x%x", uint64(h.session)))
	})
}

// builtImage runs the steps of the Dockerfile that build, and returns the folder that it copies into the image, and the user.
func builtImage(t *testing.T) (folder string, user uint32) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	folder, err = os.MkdirTemp("", "image") //nolint:usetesting // other users have no access to the folders of a test
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755)) //nolint:gosec // for the user of the image
	steps := regexp.MustCompile(`(?m)^RUN (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, steps)
	for _, step := range steps {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(step[1], "/out", folder)) //nolint:gosec // of the Dockerfile
		cmd.Dir = "../.."
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s:\n%s", step[1], output)
	}
	_, last, found := strings.Cut(string(text), "\nFROM scratch\n")
	require.True(t, found)
	require.Contains(t, last, "\nCOPY --from=build /out/ /\n")
	require.Contains(t, last, "\nENTRYPOINT [\"/curatorctl\"]\n")
	_, after, found := strings.Cut(last, "\nUSER ")
	require.True(t, found)
	var group uint32
	must.Get(fmt.Sscanf(after, "%d:%d\n", &user, &group))(t)
	require.NotZero(t, user)
	return folder, user
}

// inNamespace calls f, whose processes start in the process namespace of another process.
func inNamespace(t *testing.T, of int, f func() (*child, *holder)) (guard *child, h *holder) {
	t.Helper()
	namespace := must.Get(os.Open(fmt.Sprintf("/proc/%d/ns/pid", of)))(t)
	defer namespace.Close()
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		runtime.LockOSThread() // and never unlock it: the thread ends with its namespace
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWPID); err != nil {
			failed <- err
			return
		}
		guard, h = f() //nolint:revive // they are read when the channel is closed
	}()
	require.NoError(t, <-failed)
	require.NotNil(t, h)
	return guard, h
}
