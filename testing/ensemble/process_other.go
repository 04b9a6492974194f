// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package ensemble

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// tieToParent does nothing: only Linux can tie a child's life to its parent's.
func tieToParent(*exec.Cmd) {}

func (p *process) pause() error {
	return fmt.Errorf("ensemble: pause on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (p *process) resume() error {
	return fmt.Errorf("ensemble: resume on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
