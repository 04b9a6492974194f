// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed python/*.py
var scripts embed.FS

// Debian's own interpreter, for which it packages kazoo; another one that comes first
// in PATH does not see Debian's packages.
const (
	pythonCommand = "/usr/bin/python3"
	kazooPackage  = "/usr/lib/python3/dist-packages/kazoo/__init__.py"
)

// Kazoo is a running process of the program in Python. Its methods may be called from
// any goroutine. It ends with [Kazoo.Close], and with the process that has started it.
type Kazoo struct{ process process }

// StartKazoo starts the program. Where Python or kazoo are missing it fails with
// [ErrNotInstalled].
func StartKazoo() (*Kazoo, error) {
	for _, path := range []string{pythonCommand, kazooPackage} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: no %s: install python3-kazoo (Debian): %w", ErrNotInstalled, path, err)
		}
	}
	folder, err := os.MkdirTemp("", "interop-")
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	if err := os.CopyFS(folder, scripts); err != nil {
		return nil, errors.Join(fmt.Errorf("interop: %w", err), os.RemoveAll(folder))
	}
	k := new(Kazoo)
	failure := func(class, message string) error { return &PythonError{class, message} }
	cmd := exec.Command(pythonCommand, "-B", filepath.Join(folder, "python", "peer.py"))
	if err := k.process.launch("python", folder, cmd, failure); err != nil {
		return nil, err
	}
	return k, nil
}

// Actor returns the actor with this name, which begins to exist with the first
// command it is given: a thread with a kazoo client of its own.
func (k *Kazoo) Actor(name string) *Actor { return &Actor{&k.process, name} }

// Close ends the process, if need be by force, and removes its files. Sessions that
// are still open are left to expire. Only the first call does something; all return
// its result.
func (k *Kazoo) Close() error { return k.process.close() }

// PythonError is an exception that a command ended with.
type PythonError struct {
	Class   string // its name, without its module
	Message string
}

// Error returns class and message.
func (e *PythonError) Error() string { return "interop: python raised " + e.Class + ": " + e.Message }
