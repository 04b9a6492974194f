// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// asProgram makes this test binary the program.
const asProgram = "CURATOR_TEST_DEVSERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program returns the program with these arguments. The end of the test asks it to end.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// refused runs the program, which must end with this status and print nothing to its
// standard output, and returns what it prints to standard error.
func refused(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := program(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if status != 0 {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, status, exit.ExitCode())
	} else {
		require.NoError(t, err)
	}
	require.Empty(t, string(stdout))
	return stderr.String()
}

func TestDevserverProgram(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run("serves until "+sig.String(), func(t *testing.T) {
			cmd := program(t, "-addr", "127.0.0.1:0", "-tick", "100ms", "-version", "3.6.3")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			addr := listeningOn(t, stdout)

			require.Contains(t, srvr(t, addr), "Mode: standalone")
			require.Contains(t, srvr(t, addr), "Zookeeper version: 3.6.3-")
			client := zktest.Client(t, addr)
			require.Equal(t, 2*time.Second, client.Session().Timeout(), "20 ticks")
			_, err = client.Create(t.Context(), "/node", []byte("data"), framework.WithMode(framework.Ephemeral))
			require.NoError(t, err)
			data, err := client.Get(t.Context(), "/node")
			require.NoError(t, err)
			require.Equal(t, "data", string(data))

			// With a client that is connected.
			require.NoError(t, cmd.Process.Signal(sig))
			require.NoError(t, cmd.Wait(), "status 0")
			require.Empty(t, stderr.String())
			_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}

// listeningOn reads the first line of the program.
func listeningOn(t *testing.T, stdout io.Reader) (addr string) {
	t.Helper()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	require.True(t, found, line)
	_, _, err = net.SplitHostPort(addr)
	require.NoError(t, err, line)
	return addr
}

// srvr returns the answer to the four-letter word.
func srvr(t *testing.T, addr string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "srvr")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(answer)
}

func TestDevserverWrongFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":        {[]string{"-port", "2181"}, "flag provided but not defined: -port"},
		"argument":            {[]string{"127.0.0.1:2181"}, `unexpected argument "127.0.0.1:2181", expected flags only`},
		"address, no port":    {[]string{"-addr", "127.0.0.1"}, "address 127.0.0.1: missing port in address"},
		"port out of range":   {[]string{"-addr", ":70000"}, "address 70000: invalid port"},
		"tick without a unit": {[]string{"-tick", "500"}, `invalid value "500" for flag -tick`},
		"no container check":  {[]string{"-container-check", "0"}, "container check interval of 0s: more than 0 expected"},
		"tick too short":      {[]string{"-tick", "10us"}, "tick of 10µs: at least 1ms expected"},
		"no such version":     {[]string{"-version", "3.8"}, `version "3.8": three numbers expected`},
		"no digest":           {[]string{"-super-digest", "super:secret"}, `super digest "super:secret": a name, a colon and the base64 of a SHA-1`},
		"timeouts crossed": {
			[]string{"-min-session-timeout", "3s", "-max-session-timeout", "2s"}, "smallest session timeout 3s is above the largest 2s",
		},
		"no request":       {[]string{"-max-request", "0"}, "largest frame of 0 bytes"},
		"no memory":        {[]string{"-max-memory", "1000"}, "memory of 1000 bytes for connections: 1 MiB or more expected"},
		"negative clients": {[]string{"-max-client-connections", "-1"}, "-1 connections from one address: 0 or more expected"},
	} {
		t.Run(name, func(t *testing.T) {
			said := refused(t, 2, test.args...)
			require.Contains(t, said, test.says)
			require.Contains(t, said, "-addr host:port", "the usage follows")
		})
	}
}

func TestDevserverHelpIsNoFailure(t *testing.T) {
	require.Contains(t, refused(t, 0, "-help"), "-addr host:port")
}

func TestDevserverAddressThatIsTaken(t *testing.T) {
	require.Contains(t, refused(t, 1, "-addr", zktest.NewServer(t).Addr()), "address already in use")
}

// start starts the program with these flags until the test ends, and returns its address.
func start(t *testing.T, args ...string) (addr string) {
	t.Helper()
	cmd := program(t, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { require.ErrorIs(t, cmd.Wait(), context.Canceled, "status 0") })
	return listeningOn(t, stdout)
}

// TestDevserverDoesNotWarnANewcomer connects a client as the documents do it: none of its options is about the server.
func TestDevserverDoesNotWarnANewcomer(t *testing.T) {
	var log bytes.Buffer
	client, err := framework.Connect(t.Context(), start(t),
		framework.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	require.NoError(t, err)
	timeout := client.Session().Timeout()
	require.NoError(t, client.Close())
	require.Equal(t, 20*time.Second, timeout)
	require.Empty(t, log.String())
}

// TestDevserverSettings starts the program with every flag that changes what clients see.
func TestDevserverSettings(t *testing.T) {
	addr := start(t, "-min-session-timeout", "30s", "-max-session-timeout", "40s", "-max-request", "2000000", "-reconfig",
		"-max-client-connections", "2", "-container-check", "10ms", "-super-digest", zkserver.SuperDigest("secret"))
	client := zktest.Client(t, addr, framework.WithSessionTimeout(time.Minute), framework.WithMaxRequestSize(2_000_000))
	require.Equal(t, 40*time.Second, client.Session().Timeout())
	short := zktest.Client(t, addr, framework.WithSessionTimeout(time.Second))
	require.Equal(t, 30*time.Second, short.Session().Timeout())
	third, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err == nil { // a reset may come before the connection is known to be there
		defer third.Close()
		_, err = third.Read(make([]byte, 1))
	}
	require.Error(t, err, "the server turns it away")
	require.NoError(t, short.Close())

	_, err = client.Create(t.Context(), "/container/child", nil,
		framework.CreatingParentContainersIfNeeded(), framework.WithMode(framework.Ephemeral))
	require.NoError(t, err)
	var gone *framework.Watch
	_, err = client.Exists(t.Context(), "/container", framework.Watched(&gone))
	require.NoError(t, err)
	require.NoError(t, client.Delete(t.Context(), "/container/child"))
	zktest.Await(t, gone.Fired(), "the end of the container")

	private := []framework.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: "somebody:x"}}
	_, err = client.Create(t.Context(), "/private", make([]byte, 1_500_000), framework.WithACL(private...))
	require.NoError(t, err)
	_, err = client.Get(t.Context(), "/private")
	require.ErrorIs(t, err, framework.ErrNoAuth)
	super := zktest.Client(t, addr, framework.WithAuth("digest", []byte("super:secret")), framework.WithMaxReplySize(2_000_000))
	data, err := super.Get(t.Context(), "/private")
	require.NoError(t, err)
	require.Len(t, data, 1_500_000)
}
