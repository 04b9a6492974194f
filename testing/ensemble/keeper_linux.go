// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// keeper is the process that holds the network namespaces of an ensemble: one for each host, and one for the switch between them. They
// are in no list and have no names; with the process, and with the files of them that this one has, they are gone.
type keeper struct {
	process *process
	user    *os.File // the user namespace that the others belong to; nil when they belong to this process's own

	mu      sync.Mutex // held while a request is answered
	control *net.UnixConn
}

// startKeeper starts a keeper, in a user namespace of its own, in which it may do what takes privileges otherwise. Where the machine
// has no user namespaces, root needs none.
func startKeeper(dir string) (*keeper, error) {
	for _, tool := range []struct{ name, pkg string }{{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"setpriv", "util-linux"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return nil, fmt.Errorf("%w: no command %s for WithNetwork: install %s (Debian): %w", ErrNotInstalled, tool.name, tool.pkg, err)
		}
	}
	k, err := startKeeperIn(dir, syscall.CLONE_NEWUSER|syscall.CLONE_NEWNET)
	if err != nil && os.Geteuid() == 0 {
		k, err = startKeeperIn(dir, syscall.CLONE_NEWNET)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	return k, nil
}

func startKeeperIn(dir string, namespaces uintptr) (*keeper, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = theirs.Close() }() // the child has its own
	control, err := unixConn(os.NewFile(uintptr(pair[0]), "control"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"zk-ensemble-keeper"} // for ps
	cmd.Env = append(os.Environ(), keeperEnv+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if namespaces&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Join(err, control.Close())
	}
	k := &keeper{control: control}
	if k.process, err = launch(cmd, filepath.Join(dir, "network.log")); err != nil {
		return nil, errors.Join(err, control.Close())
	}
	if namespaces&syscall.CLONE_NEWUSER != 0 {
		if k.user, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", k.process.os.Pid)); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}

// ask sends a request and returns the files of the answer, which must have so many.
func (k *keeper) ask(q request, count int) ([]*os.File, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	message, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if err := send(k.control, message, nil); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, k.process.outputTail())
	}
	message, files, err := receive(k.control)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, k.process.outputTail())
	}
	var r reply
	err = json.Unmarshal(message, &r)
	switch {
	case err != nil:
	case r.Err != "":
		err = errors.New(r.Err)
	case len(files) != count:
		err = fmt.Errorf("%d files came with the answer to %+v, expected %d", len(files), q, count)
	default:
		return files, nil
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return nil, err
}

// join makes a new host's namespace. It returns the namespace and the switch's port to it.
func (k *keeper) join(host int) (space, port *os.File, err error) {
	files, err := k.ask(request{Do: askJoin, Host: host}, 2)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	return files[0], files[1], nil
}

// dial connects from a host's namespace.
func (k *keeper) dial(ctx context.Context, host int, to netip.AddrPort) (net.Conn, error) {
	files, err := k.ask(request{Do: askSocket, Host: host}, 1)
	if err != nil {
		return nil, err
	}
	socket := files[0]
	defer func() { _ = socket.Close() }() // net.FileConn makes a copy
	if err := connect(ctx, socket, to); err != nil {
		return nil, err
	}
	return net.FileConn(socket)
}

// connect connects a socket that does not block, and waits until it is connected or the context ends.
func connect(ctx context.Context, socket *os.File, to netip.AddrPort) error {
	forget := context.AfterFunc(ctx, func() {
		_ = socket.SetWriteDeadline(time.Now()) // fails on a closed socket, for which no caller waits
	})
	defer forget()
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	asked := false
	err = raw.Write(func(fd uintptr) (done bool) {
		if !asked {
			asked = true
			failure = syscall.Connect(int(fd), &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
			return !errors.Is(failure, syscall.EINPROGRESS)
		}
		failure = connected(int(fd))
		return !errors.Is(failure, syscall.ENOTCONN)
	})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return os.NewSyscallError("connect", failure)
}

// connected returns nil for a connected socket, why it cannot be connected, or ENOTCONN for as long as that is open.
func connected(fd int) error {
	switch code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR); {
	case err != nil:
		return err
	case code != 0:
		return syscall.Errno(code)
	}
	_, err := syscall.Getpeername(fd)
	return err
}

// inside changes a command to run in the namespace of a host. It keeps its process id. It still dies
// with its parent, although a change of the user namespace alone would undo that.
func (k *keeper) inside(space *os.File, cmd *exec.Cmd) *exec.Cmd {
	args := []string{"--net=/proc/self/fd/3"}
	files := []*os.File{space}
	if k.user != nil {
		args = append(args, "--user=/proc/self/fd/4", "--preserve-credentials")
		files = append(files, k.user)
	}
	args = append(args, "--", "setpriv", "--pdeathsig", "KILL", "--")
	inside := exec.Command("nsenter", slices.Concat(args, []string{cmd.Path}, cmd.Args[min(1, len(cmd.Args)):])...)
	inside.Dir, inside.Env, inside.ExtraFiles = cmd.Dir, cmd.Env, files
	return inside
}

func (k *keeper) close() error {
	err := errors.Join(k.control.Close(), k.process.kill())
	if k.user != nil {
		err = errors.Join(err, k.user.Close())
	}
	return err
}

// unixConn takes over the file.
func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func send(conn *net.UnixConn, message []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(message, rights, nil)
	return err
}

// receive returns a message and the files that came with it, ready for Go's poller where they can be.
func receive(conn *net.UnixConn) ([]byte, []*os.File, error) {
	message, ancillary := make([]byte, 4096), make([]byte, 256)
	n, m, _, _, err := conn.ReadMsgUnix(message, ancillary)
	if err != nil {
		return nil, nil, err
	}
	controls, err := syscall.ParseSocketControlMessage(ancillary[:m])
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	for _, c := range controls {
		fds, err := syscall.ParseUnixRights(&c)
		if err != nil {
			return nil, nil, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			if err := syscall.SetNonblock(fd, true); err != nil {
				return nil, nil, os.NewSyscallError("fcntl", err)
			}
			files = append(files, os.NewFile(uintptr(fd), "from the keeper"))
		}
	}
	return message[:n], files, nil
}
