//go:build !unix

package main

import "os/exec"

// interruptible leaves cmd as it is: without process groups the end of its
// context kills the go command alone, and a test that hangs ends at its timeout.
func interruptible(*exec.Cmd) {}
