// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"unsafe"
)

// tieToParent makes the kernel kill the child when the thread that forks it ends, which includes the death of the test process by
// any cause. The child gets a process group of its own, because a paused server must not stand in the group of the test. If the
// group is orphaned while a process of it is stopped, the kernel sends SIGHUP to all of it.
func tieToParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true
}

// pause stops the process and returns when all its threads stand still, which SIGSTOP alone does not wait for. Asking for
// stopped children only, waitid never takes an exit away from the goroutine that waits for that.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	const pPID = 1 // P_PID of waitid(2)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(p.os.Pid),
			uintptr(unsafe.Pointer(&info)), syscall.WSTOPPED, 0, 0)
		switch {
		case errno == 0:
			return nil
		case errors.Is(errno, syscall.EINTR):
		default:
			return fmt.Errorf("ensemble: wait for pid %d to stop: %w", p.os.Pid, errno)
		}
	}
}

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }
