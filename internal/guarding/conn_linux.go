// SPDX-License-Identifier: Apache-2.0

package guarding

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// withRights calls a function with the descriptor of a process, as a message has it.
func withRights(process *os.Process, use func(rights []byte)) error {
	err := process.WithHandle(func(handle uintptr) { use(syscall.UnixRights(int(handle))) })
	if err != nil {
		return fmt.Errorf("the kernel cannot show the end of process %d, expected Linux 5.4 or later: %w", process.Pid, err)
	}
	return nil
}

// checkOwner refuses a guard of another user, which must not get the password.
func checkOwner(socket *net.UnixConn) error {
	peer, err := Peer(socket)
	if err == nil && int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		err = fmt.Errorf("the guard runs as user %d, expected %d or 0", peer.Uid, os.Geteuid())
	}
	return err
}

// Peer returns the process at the other end of a socket, as it was when that connected or listened.
func Peer(socket *net.UnixConn) (peer *syscall.Ucred, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return peer, errors.Join(err, failed)
}
