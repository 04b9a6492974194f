package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// devserver is the program examples/devserver in a process of its own.
type devserver struct {
	addr   string
	cmd    *exec.Cmd
	in     io.Closer // the program ends with it, and so with this process, whatever ends that
	folder string    // of the program
}

// sharedDevserver is the one that the tests of this package share.
var sharedDevserver struct {
	sync.Mutex
	server *devserver
}

// sharingDevserver ends the shared one after the tests.
type sharingDevserver struct{ m zktest.TestRunner }

func (s sharingDevserver) Run() int {
	code := s.m.Run()
	sharedDevserver.Lock()
	defer sharedDevserver.Unlock()
	if sharedDevserver.server != nil {
		if err := sharedDevserver.server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "devserver:", err)
			code = max(code, 1)
		}
	}
	return code
}

// onDevserver is the devserver as a backend.
func onDevserver(t *testing.T) zktest.Backend {
	t.Helper()
	sharedDevserver.Lock()
	defer sharedDevserver.Unlock()
	if sharedDevserver.server == nil {
		server, err := startDevserver(withLimit(t))
		require.NoError(t, err)
		sharedDevserver.server = server
	}
	return zktest.At("devserver", sharedDevserver.server.addr)
}

// untilInputEnds is a script that runs a command, its name and its arguments, and asks it to end when the input does. The
// output is the command's alone.
const untilInputEnds = `"$0" "$@" & exec >&-; read -r _; kill $!; wait $!`

// startDevserver builds the program and starts it. The context bounds the building.
func startDevserver(ctx context.Context) (*devserver, error) {
	folder, err := os.MkdirTemp("", "devserver-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(folder, "devserver")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "../../examples/devserver")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, output), os.RemoveAll(folder))
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", untilInputEnds,
		program, "-addr", "127.0.0.1:0", "-container-check", "200ms")
	d := &devserver{cmd: cmd, folder: folder}
	if err := d.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return d, nil
}

// start starts the process, whose first line tells its address.
func (d *devserver) start() error {
	d.cmd.Stderr = os.Stderr
	in, err1 := d.cmd.StdinPipe()
	stdout, err2 := d.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	d.in = in
	if err := d.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return errors.Join(err, d.in.Close(), d.cmd.Wait())
	}
	d.addr = strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	return nil
}

// stop ends the process, with SIGTERM, and removes the program.
func (d *devserver) stop() error {
	return errors.Join(d.in.Close(), d.cmd.Wait(), os.RemoveAll(d.folder))
}
