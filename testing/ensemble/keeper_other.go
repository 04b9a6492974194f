// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ensemble

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
)

// keeper exists on Linux only.
type keeper struct{}

func startKeeper(string) (*keeper, error) {
	return nil, fmt.Errorf("%w: on %s", ErrNoNamespaces, runtime.GOOS)
}

func (*keeper) join(int) (space, port *os.File, err error) { return nil, nil, ErrNoNamespaces }

func (*keeper) dial(context.Context, int, netip.AddrPort) (net.Conn, error) {
	return nil, ErrNoNamespaces
}

func (*keeper) inside(_ *os.File, cmd *exec.Cmd) *exec.Cmd { return cmd }

func (*keeper) close() error { return nil }
