// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// errNeedsLinux is what everything here comes to elsewhere: the ensemble's network is
// made of Linux's namespaces.
var errNeedsLinux = errors.New("nemesis: needs Linux")

var start = time.Now()

func monotonic() int64                          { return int64(time.Since(start)) }
func stop(*os.Process) error                    { return errNeedsLinux }
func goOn(*os.Process) error                    { return errNeedsLinux }
func fillDisk(int) error                        { return errNeedsLinux }
func cannotFillDisk() error                     { return errNeedsLinux }
func measure() (figures, error)                 { return figures{}, errNeedsLinux }
func startTied(*exec.Cmd) (<-chan error, error) { return nil, errNeedsLinux }
