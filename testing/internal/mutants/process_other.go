// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os/exec"

// interruptible leaves cmd as it is: without process groups the end of its
// context kills it alone, and not what it has started.
func interruptible(*exec.Cmd) {}
