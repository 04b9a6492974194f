package zkserver_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where Debian installs Java and ZooKeeper.
const (
	javaBinary  = "/usr/bin/java"
	zookeeperCP = "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"
)

// requireApache fails the test where Java or ZooKeeper is missing.
func requireApache(t *testing.T) {
	t.Helper()
	for _, file := range []string{javaBinary, "/usr/share/java/zookeeper.jar"} {
		_, err := os.Stat(file)
		require.NoError(t, err, "this test needs the Debian packages zookeeper and default-jre-headless; -short leaves it out")
	}
}

// startApache starts a standalone Apache ZooKeeper, waits until it serves and returns its address. It is stopped with
// the test. Its settings are those of a server of ours; properties are added to them.
func startApache(t *testing.T, properties ...string) string {
	t.Helper()
	requireApache(t)
	dir, port := t.TempDir(), freePort(t)
	config := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n", dir, port)
	file := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	output, err := os.Create(filepath.Join(t.TempDir(), "zookeeper.log"))
	require.NoError(t, err)
	defer output.Close()
	args := append([]string{
		"-Xmx256m", "-cp", zookeeperCP,
		"-Dzookeeper.4lw.commands.whitelist=*",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.extendedTypesEnabled=true",
	}, properties...)
	cmd := exec.Command(javaBinary, append(args, "org.apache.zookeeper.server.ZooKeeperServerMain", file)...)
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // cmd.ProcessState tells how it ended
		close(exited)
	}()
	t.Cleanup(func() { stopProcess(t, cmd, exited) })

	addr := fmt.Sprintf("127.0.0.1:%d", port)
	deadline := time.Now().Add(60 * time.Second)
	for {
		if answer, err := ask(addr, "ruok"); err == nil && answer == "imok" {
			if answer, err := ask(addr, "srvr"); err == nil && strings.Contains(answer, "Mode: standalone") {
				return addr
			}
		}
		select {
		case <-exited:
			t.Fatalf("ZooKeeper exited: %v\n%s", cmd.ProcessState, logOf(output))
		case <-time.After(50 * time.Millisecond): // between two polls
		}
		if time.Now().After(deadline) {
			t.Fatalf("ZooKeeper is not ready after a minute\n%s", logOf(output))
		}
	}
}

func logOf(file *os.File) string {
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func stopProcess(t *testing.T, cmd *exec.Cmd, exited <-chan struct{}) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-exited:
	case <-time.After(patience):
		require.NoError(t, cmd.Process.Kill())
		<-exited
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// ask sends a four-letter word.
func ask(addr, word string) (string, error) {
	nc, err := dialTCP(addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := nc.Write([]byte(word)); err != nil {
		return "", err
	}
	var answer bytes.Buffer
	_, err = answer.ReadFrom(nc)
	return answer.String(), err
}
