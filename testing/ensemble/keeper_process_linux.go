// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// keeperEnv turns a program that links this package into a keeper: a process that does nothing but hold network namespaces, and that
// has none of its own program's work to do.
const keeperEnv = "CURATOR_ENSEMBLE_KEEPER"

// controlFD is the keeper's end of the socket through which it is asked, and which ends it when the other end is closed.
const controlFD = 3

// A keeper is a process because an unprivileged one can only get into a user namespace, and so make network namespaces, when it is
// cloned or as long as it has a single thread, which a Go program never has. And it is the same program because no other is certain to
// be there. It has to stop before TestMain or main begin, which do not know of it.
//
//nolint:gochecknoinits // nothing else runs before a main that is not ours
func init() {
	if os.Getenv(keeperEnv) == "" {
		return
	}
	if err := keep(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // the log, which is what the ensemble shows
		os.Exit(1)
	}
	os.Exit(0)
}

// The requests to a keeper. It answers one after the other.
const (
	askJoin   = "join"   // make the namespace of a new host; answered with it and with the switch's port
	askSocket = "socket" // make a TCP socket in the namespace of a host; answered with it
)

// request is what is asked of a keeper, in JSON, one to a packet.
type request struct {
	Do   string
	Host int
}

// reply is its answer. Files go along with it, as ancillary data.
type reply struct {
	Err string
}

// keep serves requests until the control socket is closed. It runs in init, and so on the process's first thread, which is in the
// network namespace of the switch.
func keep() error {
	control, err := unixConn(os.NewFile(controlFD, "control"))
	if err != nil {
		return err
	}
	spaces := map[int]*space{}
	for {
		message, _, err := receive(control)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var q request
		if err := json.Unmarshal(message, &q); err != nil {
			return err
		}
		files, err := serve(spaces, q)
		if err := answer(control, files, err); err != nil {
			return err
		}
	}
}

func serve(spaces map[int]*space, q request) ([]*os.File, error) {
	switch q.Do {
	case askJoin:
		s, err := newSpace()
		if err != nil {
			return nil, err
		}
		spaces[q.Host] = s
		return s.join(q.Host)
	case askSocket:
		return spaces[q.Host].socket()
	default:
		return nil, fmt.Errorf("request %q, expected %q or %q", q.Do, askJoin, askSocket)
	}
}

func answer(control *net.UnixConn, files []*os.File, failure error) error {
	var r reply
	if failure != nil {
		r.Err = failure.Error()
	}
	message, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = send(control, message, files)
	for _, f := range files {
		err = errors.Join(err, f.Close()) // the other side has its own
	}
	return err
}

// space is a network namespace. It belongs to one thread, which does all work there.
type space struct{ calls chan func() }

func newSpace() (*space, error) {
	s := &space{make(chan func())}
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: no other goroutine may run here
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		began <- err
		for err == nil {
			(<-s.calls)()
		}
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	return s, nil
}

func (s *space) do(f func() error) error {
	done := make(chan error)
	s.calls <- func() { done <- f() }
	return <-done
}

// join connects the namespace with the switch by a pair of virtual Ethernet devices. It returns the namespace, and a packet socket at the
// switch's end.
//
// All hosts have the same hardware address, and none asks for another's: what the switch hands to a host is for it.
func (s *space) join(host int) ([]*os.File, error) {
	var self *os.File
	err := s.do(func() (err error) {
		self, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	port := fmt.Sprintf("host%d", host)
	err = ip(
		fmt.Sprintf("link add %s type veth peer name eth0 netns /proc/%d/fd/%d", port, os.Getpid(), self.Fd()),
		fmt.Sprintf("link set %s up", port))
	if err != nil {
		return nil, err
	}
	err = s.do(func() error {
		return ip("link set lo up", "link set eth0 address 02:00:00:00:00:01 arp off up",
			fmt.Sprintf("addr add %s/24 dev eth0", hostAddr(host)))
	})
	if err != nil {
		return nil, err
	}
	socket, err := packetSocket(port)
	if err != nil {
		return nil, err
	}
	return []*os.File{self, socket}, nil
}

// ip runs commands of iproute2 on the thread of the caller.
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; ip "), err, output)
	}
	return nil
}

// What package syscall lacks of Linux's if_packet.h.
const (
	solPacket     = 263
	packetVnetHdr = 15
)

// packetSocket returns a socket that reads and writes the IPv4 frames of a device. Before each is the header of virtio_net.h: with it
// frames can be handed on as the kernel has them, not yet cut into segments and with the checksums left out.
func packetSocket(device string) (*os.File, error) {
	d, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	ipv4 := binary.NativeEndian.Uint16([]byte{syscall.ETH_P_IP >> 8, syscall.ETH_P_IP & 0xff}) // in network order
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, int(ipv4))
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), device)
	if err := syscall.SetsockoptInt(fd, solPacket, packetVnetHdr, 1); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt", err), socket.Close())
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: ipv4, Ifindex: d.Index}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), socket.Close())
	}
	return socket, nil
}

// socket returns a TCP socket of the namespace, not connected yet.
func (s *space) socket() (files []*os.File, err error) {
	err = s.do(func() error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		files = []*os.File{os.NewFile(uintptr(fd), "socket")}
		return nil
	})
	return files, err
}
