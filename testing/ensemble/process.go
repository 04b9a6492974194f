// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// process is one run of a server: from fork to exit.
type process struct {
	os     *os.Process
	log    string        // the file that gets its output, after the output of earlier runs
	logged int64         // where in log its own output begins
	exited chan struct{} // closed when the process is gone and has been waited for
	status string        // how it ended; to be read after exited
}

// launch starts cmd with its output appended to the file log, and keeps watch over it until it exits.
//
// The kernel delivers the parent-death signal that tieToParent asks for when the *thread* that forked dies, not the process. So a
// goroutine locked to its thread does both: it forks, and it holds the thread by waiting for the child.
func launch(cmd *exec.Cmd, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ensemble: %w", err)
	}
	earlier, err := output.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ensemble: %w", err), output.Close())
	}
	cmd.Stdout, cmd.Stderr = output, output // files, so that os/exec needs no goroutine to copy
	tieToParent(cmd)

	p := &process{log: log, logged: earlier, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = output.Close() // the child has its own descriptor, so its output is not lost
		p.os = cmd.Process
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // an exit status is no error here: most servers are killed, and status says how
		p.status = cmd.ProcessState.String()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("ensemble: start server: %w", err)
	}
	return p, nil
}

// alive reports whether the process had not been waited for a moment ago.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process at once, paused or not, and returns when it is gone.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

func (p *process) signal(sig os.Signal) error {
	if err := p.os.Signal(sig); err != nil {
		return fmt.Errorf("ensemble: signal %v to pid %d: %w", sig, p.os.Pid, err)
	}
	return nil
}

// outputTail returns the end of what the process wrote, or why that cannot be read.
func (p *process) outputTail() string {
	const most = 4096
	all, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	output := all[min(p.logged, int64(len(all))):]
	return string(output[max(0, len(output)-most):])
}
