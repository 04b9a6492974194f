//go:build unix && !linux

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const clockID = unix.CLOCK_MONOTONIC

// Only Linux can do these. Elsewhere processes that leave the group of the command are not found.

func dieWithParent(*syscall.SysProcAttr) {}

func adopt() {}

type kin map[int]bool

func descendants() kin { return nil }

func killOrphans(kin) {}
