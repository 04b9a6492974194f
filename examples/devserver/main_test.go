package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestProgram(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "devserver.bin")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "go build: %s", out)

	t.Run("wrong flags", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), bin, "-tick", "0").CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, string(out), "devserver: -tick is 0s, expected 1ms or more\n")
	})
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run("serves until "+sig.String(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bin, "-addr", "127.0.0.1:0", "-tick", "100ms", "-version", "3.6.3")
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

func TestWrongFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":        {[]string{"-port", "2181"}, "flag provided but not defined: -port"},
		"argument":            {[]string{"127.0.0.1:2181"}, `unexpected argument "127.0.0.1:2181", expected flags only`},
		"address, no port":    {[]string{"-addr", "127.0.0.1"}, `-addr "127.0.0.1", expected host:port`},
		"port out of range":   {[]string{"-addr", ":70000"}, `-addr ":70000", expected host:port`},
		"tick without a unit": {[]string{"-tick", "500"}, `invalid value "500" for flag -tick`},
		"no container check":  {[]string{"-container-check", "0"}, "-container-check is 0s, expected more than 0"},
		"tick too short":      {[]string{"-tick", "10us"}, "-tick is 10µs, expected 1ms or more"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			err := run(t.Context(), test.args, &stdout)
			require.Equal(t, 2, exitStatus(err))
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "-addr host:port", "the usage follows")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	err := run(t.Context(), []string{"-help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.ErrorContains(t, err, "-addr host:port")
	require.Zero(t, exitStatus(err))
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout bytes.Buffer
	require.NoError(t, run(ctx, []string{"-addr", "127.0.0.1:0"}, &stdout))
	require.True(t, strings.HasPrefix(stdout.String(), "listening on 127.0.0.1:"), stdout.String())
}

func TestAddressThatIsTaken(t *testing.T) {
	server := zktest.NewServer(t)
	var stdout bytes.Buffer
	err := run(t.Context(), []string{"-addr", server.Addr()}, &stdout)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.Equal(t, 1, exitStatus(err))
	require.Empty(t, stdout.String(), "it does not claim to listen")
}

func TestNoSuchVersion(t *testing.T) {
	err := run(t.Context(), []string{"-addr", "127.0.0.1:0", "-version", "3.8"}, io.Discard)
	require.ErrorContains(t, err, `version "3.8": three numbers expected`)
	require.Equal(t, 1, exitStatus(err))
}
