// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/internal/guarding"
)

// The guard never ends the session of a process that lives. The end of a connection proves nothing: a program may
// close the descriptor by mistake, or become another program. So the guard ends a session only when the kernel says,
// by the pidfds that the process has handed over, that it is gone, and all that acts under its session: the keeper of
// lock run, and the guard that ends the command. A pidfd stands for one process: it is
// not mistaken about numbers that are used again, holds in every namespace, and speaks before a parent has waited.
// A process that is stopped, traced or frozen is not gone.
//
// A guard that is stopped, killed or restarted ends no session. Clients register again with the next one. A guard
// that was stopped for long finds that the session has ended by itself.
//
// Only processes of the user of the guard can register. The socket and its folder are that user's, and the
// kernel names the user of each peer.

// lastEnds is how long a guard goes on with sessions that it is ending when it is told to stop.
const lastEnds = 2 * time.Second

// sessionGuard ends the sessions of processes that are gone.
type sessionGuard struct {
	call *call
	end  func(context.Context, guarding.Registration) error
	path string

	listener *net.UnixListener
	failed   chan error      // why it has stopped to listen
	ctx      context.Context // of its attempts to end sessions
	stop     context.CancelFunc
	serving  sync.WaitGroup

	mu    sync.Mutex
	wards map[*ward]bool // nil once the guard is closed
}

// ward is a process, or one client in it, that the guard has in its care.
type ward struct {
	socket *net.UnixConn
	peer   *syscall.Ucred

	acting    sync.Mutex
	processes []*os.File // the pidfds of what acts under the session, of which the first is the peer's

	registration guarding.Registration // guarded by the mutex of the guard
}

func newSessionGuard(c *call, end func(context.Context, guarding.Registration) error) *sessionGuard {
	g := &sessionGuard{call: c, end: end, failed: make(chan error, 1), wards: make(map[*ward]bool)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// listen begins to serve at a path. From now on passwords of sessions are in the memory of this process.
func (g *sessionGuard) listen(path string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping passwords out of core files: %w", err)
	}
	lock, err := makeRoom(path)
	if err != nil {
		return fmt.Errorf("-socket %s: %w", path, err)
	}
	defer func() { _ = lock.Close() }() // it was only locked
	listener, err := net.ListenUnix(guarding.Network, &net.UnixAddr{Name: path, Net: guarding.Network})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	g.path, g.listener = path, listener
	g.serving.Go(g.accept)
	return nil
}

// acceptPause is how long a guard without room for another client waits before it looks again.
const acceptPause = 100 * time.Millisecond

// accept serves clients until the listener is closed. A guard that has used up its descriptors goes on with the clients that it has, and
// has others wait.
func (g *sessionGuard) accept() {
	for isFull := false; ; {
		socket, err := g.listener.AcceptUnix()
		switch {
		case err == nil:
			isFull = false
			g.serving.Go(func() { g.serve(socket) })
		case !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE):
			g.failed <- err
			return
		default:
			if !isFull {
				isFull = true
				g.call.complainf("curatorctl: guard: no room for another client, which waits: %s\n", said(err))
			}
			<-time.After(acceptPause)
		}
	}
}

// makeRoom creates the folder of a socket, and removes the socket of a guard that is gone. It returns the folder, which is locked
// until it is closed: another guard that begins there at the same time must see the socket of this one.
func makeRoom(path string) (folder *os.File, err error) {
	name := filepath.Dir(path)
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	folder, err = os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := clearRoom(folder, path); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

func clearRoom(folder *os.File, path string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &stat); err != nil {
		return err
	}
	if int(stat.Uid) != os.Geteuid() || stat.Mode&0o077 != 0 {
		return fmt.Errorf("the folder belongs to user %d and has mode %#o, expected user %d and 0700", stat.Uid, stat.Mode&0o777, os.Geteuid())
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	other, err := net.Dial(guarding.Network, path) //nolint:noctx // it does not block
	switch {
	case err == nil:
		return errors.Join(errors.New("another guard listens there"), other.Close())
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	default:
		return err
	}
}

// close stops the guard. It forgets the processes that live, and goes on for a moment with the sessions of those
// that are gone.
func (g *sessionGuard) close() {
	_ = g.listener.Close() // which removes the socket
	g.mu.Lock()
	wards := g.wards
	g.wards = nil
	g.mu.Unlock()
	forget := func(which func(*ward) bool) {
		for w := range wards {
			if which(w) {
				w.forget()
			}
		}
	}
	forget(func(w *ward) bool { return !w.isGone() })
	tooLate := time.AfterFunc(lastEnds, func() {
		g.stop()
		forget(func(*ward) bool { return true })
	})
	defer tooLate.Stop()
	g.serving.Wait()
}

// serve has a client in the care of the guard until it withdraws, or its process is gone.
func (g *sessionGuard) serve(socket *net.UnixConn) {
	w := &ward{socket: socket}
	defer w.forget()
	refusal := w.meet()
	if refusal == nil {
		if !g.take(w) {
			return
		}
		defer g.dismiss(w)
		refusal = g.heed(w)
	}
	if refusal != nil { // perhaps of a process that acts under the session, which ends by itself then
		w.answer(refusal)
		return
	}
	if g.registration(w).Session == 0 || !w.awaitEnd() {
		return
	}
	if r := g.registration(w); r.Session != 0 {
		g.endSession(w, r)
	}
}

// heed keeps what a client says until the end of the connection. The error is the reason of a refusal.
func (g *sessionGuard) heed(w *ward) error {
	for w.answer(nil) {
		var next guarding.Registration
		switch acts, err := w.read(&next); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !acts:
			g.register(w, next)
		}
	}
	return nil
}

func (g *sessionGuard) take(w *ward) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wards == nil {
		return false
	}
	g.wards[w] = true
	return true
}

func (g *sessionGuard) registration(w *ward) guarding.Registration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return w.registration
}

// register has a session in the care of one ward only: a client may have come back over another connection, with more
// processes. Sessions of two ensembles may have the same number.
func (g *sessionGuard) register(w *ward, r guarding.Registration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range g.wards {
		if r.Session != 0 && other.registration.Session == r.Session && other.registration.Servers == r.Servers {
			other.registration = guarding.Registration{}
		}
	}
	w.registration = r
}

func (g *sessionGuard) dismiss(w *ward) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.wards, w)
}

// endSession ends the session of a process that is gone. It tries for as long as the servers can have the session.
func (g *sessionGuard) endSession(w *ward, r guarding.Registration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(g.ctx, r.Timeout)
	defer cancel()
	if err := g.end(ctx, r); err != nil {
		g.call.complainf("curatorctl: guard: session %v of process %d, which is gone, must time out: %s\n", r, w.peer.Pid, said(err))
		return
	}
	g.call.logger().Info("the session of a process that is gone has ended",
		"curator.session", r, "process", w.peer.Pid, "after", time.Since(began))
}

// meet receives the pidfd of the peer, and refuses a peer of another user.
func (w *ward) meet() (err error) {
	if w.peer, err = guarding.Peer(w.socket); err != nil {
		return err
	}
	switch acts, err := w.read(new(guarding.Registration)); {
	case err != nil:
		return err
	case !acts:
		return errors.New("no descriptor in the first message, expected that of the process")
	}
	if int(w.peer.Uid) != os.Geteuid() { // after its message, or the answer would be lost
		return fmt.Errorf("a process of user %d, expected user %d", w.peer.Uid, os.Geteuid())
	}
	return nil
}

// watch receives a pidfd.
func (w *ward) watch(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("%d control messages with a message, expected one", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	for _, more := range fds[1:] { // the room for one has room for two
		err = errors.Join(err, unix.Close(more))
	}
	if err != nil || len(fds) > 1 {
		return errors.Join(fmt.Errorf("%d descriptors in a message, expected that of a process", len(fds)), err, unix.Close(fds[0]))
	}
	unix.CloseOnExec(fds[0])
	if err := unix.PidfdSendSignal(fds[0], 0, nil, 0); errors.Is(err, unix.EBADF) {
		return errors.Join(errors.New("the descriptor in a message is not that of a process"), unix.Close(fds[0]))
	}
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that the wait for it can be ended
		return errors.Join(err, unix.Close(fds[0]))
	}
	w.acting.Lock()
	defer w.acting.Unlock()
	w.processes = append(w.processes, os.NewFile(uintptr(fds[0]), "process"))
	return nil
}

// read reads one message, and reports whether it has handed over a process. The error is io.EOF at the end of the connection.
func (w *ward) read(into *guarding.Registration) (acts bool, err error) {
	message, rights := make([]byte, guarding.MaxMessage), make([]byte, unix.CmsgSpace(4))
	length, n, flags, _, err := w.socket.ReadMsgUnix(message, rights)
	if acts = n > 0; acts { // a message without sense may have descriptors, too
		if bad := w.watch(rights[:n]); bad != nil {
			return acts, bad
		}
	}
	switch {
	case err != nil, length == 0:
		return acts, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return acts, errors.New("a message that is too long")
	}
	*into, err = guarding.Decode(message[:length])
	return acts, err
}

// answer answers a message, and reports whether the connection goes on.
func (w *ward) answer(refusal error) bool {
	var answer guarding.Answer
	if refusal != nil {
		answer.Refused = refusal.Error()
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = w.socket.Write(text)
	}
	return err == nil
}

// awaitEnd waits until all processes are gone, and returns false if the guard forgets them before. No other is handed over
// any more.
func (w *ward) awaitEnd() bool {
	for _, process := range w.processes {
		raw, err := process.SyscallConn()
		if err != nil || raw.Read(hasExited) != nil {
			return false
		}
	}
	return true
}

// isGone reports whether all processes are gone.
func (w *ward) isGone() bool {
	w.acting.Lock()
	defer w.acting.Unlock()
	return !slices.ContainsFunc(w.processes, func(process *os.File) bool {
		gone := false
		raw, err := process.SyscallConn()
		return err != nil || raw.Control(func(fd uintptr) { gone = hasExited(fd) }) != nil || !gone
	})
}

// hasExited reports whether the process of a pidfd is gone. One that no parent has waited for is.
func hasExited(pidfd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1 && poll[0].Revents&unix.POLLIN != 0
}

// forget ends the care of processes, which may live on.
func (w *ward) forget() {
	_ = w.socket.Close() // the client sees it
	w.acting.Lock()
	defer w.acting.Unlock()
	for _, process := range w.processes {
		_ = process.Close() // it was only read
	}
}
