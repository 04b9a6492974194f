// SPDX-License-Identifier: Apache-2.0

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
	"testing"

	"github.com/gocurator/curator/testing/zktest"
)

// devserver is the program examples/devserver in a process of its own.
type devserver struct {
	addr   string
	cmd    *exec.Cmd
	in     io.Closer // the program ends with it, and so with this process, whatever ends that
	folder string    // of the program
}

// onDevserver is the devserver as a backend.
func onDevserver(t *testing.T) zktest.Backend {
	t.Helper()
	server := sharedDevserver.get(t, func() (*devserver, error) { return startDevserver(zktest.Context(t)) })
	return zktest.At("devserver", server.addr)
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
	build := exec.CommandContext(ctx, "go", "-C", "../../..", "build", "-o", program, "./examples/devserver")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, output), os.RemoveAll(folder))
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", untilInputEnds,
		program, "-addr", "127.0.0.1:0", "-tick", "500ms", "-container-check", "200ms")
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

// Close ends the process, with SIGTERM, and removes the program.
func (d *devserver) Close() error {
	err := errors.Join(d.in.Close(), d.cmd.Wait(), os.RemoveAll(d.folder))
	if err != nil {
		return fmt.Errorf("devserver: %w", err)
	}
	return nil
}
