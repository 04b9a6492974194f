// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// TestServeWritesNoFile, whatever it is sent, and ends on a signal.
func TestServeWritesNoFile(t *testing.T) {
	server := zktest.NewServer(t)
	home := t.TempDir()
	cmd := exec.CommandContext(zktest.Context(t), os.Args[0], "serve", "-listen", "127.0.0.1:0") //nolint:gosec // this program
	cmd.Dir = home
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr(), "HOME="+home, "TMPDIR="+home)
	stdout := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	line := must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	addr := strings.TrimSpace(strings.TrimPrefix(line, "listening on http://"))
	const part = "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"x\"\r\n\r\n"
	for _, target := range []string{"/", "/?page=1", "/?lock=/locks"} {
		ask(t, addr, "", target, http.NoBody)
		request := must.Get(http.NewRequestWithContext(zktest.Context(t), http.MethodGet, "http://"+addr+target, strings.NewReader(part+strings.Repeat("x", 50<<20))))(t)
		request.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err == nil { // otherwise it was cut off while it sent
			require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	found := must.Get(filepath.Glob(filepath.Join(home, "*")))(t)
	require.Empty(t, found)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitSignal+int(syscall.SIGTERM), statusOfShell(must.As[*exec.ExitError](t, cmd.Wait())))
	found = must.Get(filepath.Glob(filepath.Join(home, "*")))(t)
	require.Empty(t, found)
}
