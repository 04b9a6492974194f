// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package ensemble

import (
	"os/exec"
	"syscall"
)

// tieToParent does nothing: only Linux can tie a child's life to its parent's.
func tieToParent(*exec.Cmd) {}

// pause asks for a stop. The threads of the process may run on for a moment.
func (p *process) pause() error { return p.signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }
