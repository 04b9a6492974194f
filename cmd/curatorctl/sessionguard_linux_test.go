// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/secrets"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// asHolder in the environment makes the test binary a program that takes a lock, and then does what it is told.
const asHolder = "CURATORCTL_AS_HOLDER"

// asWorker has the program take the lock again and again.
const asWorker = "CURATORCTL_AS_WORKER"

// guardedSession is the longest session. Servers end it two thirds of it after a kill, at the earliest.
const guardedSession = time.Minute

// muchEarlier is long enough for a busy machine.
const muchEarlier = guardedSession / 3

// isHolder runs the program, and reports whether this process is one.
func isHolder() bool {
	if os.Getenv(asHolder) == "" {
		return false
	}
	hold()
	return true
}

// hold is the program. It writes a line for each thing it has done, and obeys lines of its standard input.
func hold() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	client, err := framework.Connect(ctx, os.Getenv("CURATOR_SERVERS"), framework.WithSessionTimeout(guardedSession),
		framework.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, nil))))
	check(err)
	mutex, err := locks.NewInterProcessMutex(client, "/locks/guarded")
	check(err)
	for os.Getenv(asWorker) != "" {
		check(mutex.Do(ctx, func(ctx context.Context) error {
			token := locks.LeaseFrom(ctx).Token()
			fmt.Println("enters", os.Getpid(), token)
			time.Sleep(time.Duration(token%4) * time.Millisecond) // work
			fmt.Println("leaves", os.Getpid(), token)
			return nil
		}))
	}
	lease, err := mutex.Acquire(ctx)
	check(err)
	fmt.Println("holds in session", client.Session().ID(), hex.EncodeToString(client.Session().Password()), os.Getpid(), lease.Token())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println("done:", lines.Text()) {
		switch word := lines.Text(); word {
		case "look": // whether the lock is held
			check(lease.Err())
			_, err := client.Get(ctx, lease.Path(), framework.InSession(client.Session()))
			check(err)
		case "panic":
			panic(word)
		case "exit":
			os.Exit(3)
		case "close descriptors": // by mistake: those of Unix sockets
			entries, err := os.ReadDir("/proc/self/fd")
			check(err)
			for _, entry := range entries {
				fd, _ := strconv.Atoi(entry.Name())
				if name, err := unix.Getpeername(fd); err == nil {
					if _, isUnix := name.(*unix.SockaddrUnix); isUnix {
						check(unix.Close(fd))
					}
				}
			}
		case "register again": // as a client does that has lost its connection to the guard
			conn, err := guarding.Dial(ctx, os.Getenv(guarding.Env))
			check(err)
			session := client.Session()
			check(conn.Register(ctx, guarding.Registration{
				Servers: os.Getenv("CURATOR_SERVERS"), Session: session.ID(), Password: secrets.Hide(session.Password()), Timeout: session.Timeout(),
			}))
		case "fork": // a child that outlives this process
			child := exec.Command("sleep", "600")
			child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			check(child.Start())
			fmt.Println("child", child.Process.Pid)
		case "beside": // a process that acts under the session, too
			child := exec.Command("sleep", "600")
			check(child.Start())
			guarding.Beside(child.Process)
			fmt.Println("child", child.Process.Pid)
		case "become": // another program, which lives
			sleep, err := exec.LookPath("sleep")
			check(err)
			fmt.Println("done:", word)
			check(syscall.Exec(sleep, []string{"sleep", "600"}, nil))
		case "close":
			check(lease.Release(ctx))
			check(client.Close())
		}
	}
}

// child is a process of a test, with its output.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	lines chan string
	text  output // all of its output
}

// spawn starts this binary as another program.
func spawn(t *testing.T, as string, attributes *syscall.SysProcAttr, env []string, args ...string) *child {
	t.Helper()
	return spawnFile(t, os.Args[0], as, attributes, env, args...)
}

// spawnFile starts a program.
func spawnFile(t *testing.T, file, as string, attributes *syscall.SysProcAttr, env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(file, args...), lines: make(chan string, 1000)}
	c.cmd.Env = append(append(os.Environ(), as+"=1"), env...)
	c.cmd.SysProcAttr = attributes
	read, write, err := os.Pipe()
	require.NoError(t, err)
	c.cmd.Stdout, c.cmd.Stderr = write, write
	c.stdin = must.Get(c.cmd.StdinPipe())(t)
	require.NoError(t, c.cmd.Start())
	require.NoError(t, write.Close())
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			_, _ = fmt.Fprintln(&c.text, lines.Text())
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // most children are killed
		_ = read.Close()
	})
	return c
}

// read returns the first line with a text in it.
func (c *child) read(text string) string {
	c.t.Helper()
	for tooLate := time.After(time.Minute); ; {
		select {
		case line, open := <-c.lines:
			require.True(c.t, open, "%q was not written:\n%s", text, &c.text)
			if strings.Contains(line, text) {
				return line
			}
		case <-tooLate:
			require.Fail(c.t, "not written in time", "%q:\n%s", text, &c.text)
		}
	}
}

// do has a holder obey, and waits until it has.
func (c *child) do(word string) {
	c.t.Helper()
	c.order(word)
	c.read("done: " + word)
}

func (c *child) order(word string) {
	c.t.Helper()
	must.Get(io.WriteString(c.stdin, word+"\n"))(c.t)
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, syscall.Kill(c.cmd.Process.Pid, s))
}

// startGuard starts a guard on a socket, as a process.
func startGuard(t *testing.T, socket string, attributes *syscall.SysProcAttr) *child {
	t.Helper()
	g := spawn(t, asProgram, attributes, nil, "guard", "-v", "-socket", socket)
	g.read("listening on " + socket)
	return g
}

// newSocket returns a path for a guard, which is short enough for a socket.
func newSocket(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "guard") //nolint:usetesting // a path with the name of a test is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "socket")
}

// holder is a process that has a lock, below a chroot of its own.
type holder struct {
	*child
	session  int64
	password []byte
	pid      int // as it knows it
	token    int64
	backend  zktest.Backend
	client   *framework.Framework // of the next holder
	next     chan error
}

// startHolder starts a holder. Another waits for the lock after it.
func startHolder(t *testing.T, server zktest.Backend, socket string, attributes *syscall.SysProcAttr) *holder {
	t.Helper()
	return startHolderAs(t, server, asHolder, attributes, []string{guarding.Env + "=" + socket})
}

func startHolderAs(t *testing.T, server zktest.Backend, as string, attributes *syscall.SysProcAttr, env []string, args ...string) *holder {
	t.Helper()
	h := &holder{client: zktest.Client(t, server), backend: server, next: make(chan error, 1)}
	h.child = spawn(t, as, attributes, append(env, "CURATOR_SERVERS="+server.ConnectString()), args...)
	var password string
	must.Get(fmt.Sscanf(h.read("holds in session"), "holds in session %d %s %d %d", &h.session, &password, &h.pid, &h.token))(t)
	h.password = must.Get(hex.DecodeString(password))(t)
	mutex := must.Get(locks.NewInterProcessMutex(h.client, "/locks/guarded"))(t)
	ctx := zktest.Context(t)
	waits := make(chan struct{})
	go func() {
		lease, err := mutex.TryAcquire(ctx)
		if err == nil {
			h.next <- fmt.Errorf("the lock was free: %s", lease.Path())
			return
		}
		close(waits)
		lease, err = mutex.Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		h.next <- err
	}()
	zktest.Await(t, waits, "a try of the next holder")
	return h
}

// succeeded waits until the next holder has the lock.
func (h *holder) succeeded() time.Duration {
	h.t.Helper()
	began := time.Now()
	require.NoError(h.t, zktest.Await(h.t, h.next, "the next holder"))
	took := time.Since(began)
	require.Less(h.t, took, muchEarlier)
	return took
}

// stillLives shows that the guard has not ended the session of a process that lives, although it has had the time: it
// has ended that of another, which was killed later.
func (h *holder) stillLives(socket string) {
	h.t.Helper()
	other := startHolder(h.t, apart(h.backend), socket, nil)
	other.signal(syscall.SIGKILL)
	other.succeeded()
	require.Empty(h.t, h.next, "the next holder has the lock of a process that lives")
}

// apart returns the server with another chroot.
func apart(b zktest.Backend) zktest.Backend {
	return zktest.At(b.Name(), b.Addr())
}

// TestGuardEndsTheSession of a process that is gone, in whatever way, so that the next holder does not wait for the
// session timeout.
func TestGuardEndsTheSession(t *testing.T) {
	deaths := map[string]func(h *holder){
		"kill -9": func(h *holder) { h.signal(syscall.SIGKILL) },
		"panic":   func(h *holder) { h.order("panic") },
		"exit":    func(h *holder) { h.order("exit") },
		"stopped before": func(h *holder) {
			h.signal(syscall.SIGSTOP)
			h.signal(syscall.SIGKILL)
		},
		"descriptors closed before": func(h *holder) {
			h.do("close descriptors")
			h.signal(syscall.SIGKILL)
		},
		"a child lives on": func(h *holder) {
			h.order("fork")
			child := must.Get(strconv.Atoi(strings.TrimPrefix(h.read("child "), "child ")))(h.t)
			h.t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
			h.signal(syscall.SIGKILL)
		},
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		socket := newSocket(t)
		g := startGuard(t, socket, nil)
		for name, die := range deaths {
			t.Run(name, func(t *testing.T) {
				h := startHolder(t, apart(server), socket, nil)
				die(h)
				t.Logf("the next holder had the lock after %v", h.succeeded()) // no parent has waited for the process
				g.read("session=" + fmt.Sprintf("0x%x", uint64(h.session)))
			})
		}
	})
}

// TestGuardWithoutDescriptors goes on with the clients that it has, and takes others once it can.
func TestGuardWithoutDescriptors(t *testing.T) {
	socket := newSocket(t)
	guard := startGuard(t, socket, nil)
	server := zktest.Embedded(zktest.NewServer(t))
	h := startHolder(t, server, socket, nil)
	pid, next := guard.cmd.Process.Pid, 0
	for inUse := error(nil); inUse == nil; next++ {
		_, inUse = os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, next+1))
	}
	var many unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &many))
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: many.Max}, nil))
	waits := must.Get(net.Dial(guarding.Network, socket))(t)
	defer waits.Close()
	guard.read("no room for another client")
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &many, nil))
	h.signal(syscall.SIGKILL)
	h.succeeded()
	conn := must.Get(guarding.Dial(zktest.Context(t), socket))(t)
	conn.Drop()
}

// TestGuardSparesTheLiving: whatever happens to a process that lives, or to its guard, its session goes on. It ends
// with the process, as long as the guard has it.
func TestGuardSparesTheLiving(t *testing.T) {
	fates := map[string]func(t *testing.T, h *holder, g *child, socket string) *child{
		"stopped": func(_ *testing.T, h *holder, g *child, _ string) *child {
			h.signal(syscall.SIGSTOP)
			return g
		},
		"descriptors closed": func(_ *testing.T, h *holder, g *child, _ string) *child {
			h.do("close descriptors")
			return g
		},
		"another program": func(_ *testing.T, h *holder, g *child, _ string) *child {
			h.do("become")
			return g
		},
		"traced": func(t *testing.T, h *holder, g *child, _ string) *child {
			trace(t, h.cmd.Process.Pid)
			return g
		},
		"guard killed": func(t *testing.T, h *holder, g *child, socket string) *child {
			g.signal(syscall.SIGKILL)
			h.read("the session is not registered")
			g = startGuard(t, socket, nil) // the socket was left
			h.read("the session is registered")
			return g
		},
		"guard restarted": func(t *testing.T, h *holder, g *child, socket string) *child {
			g.signal(syscall.SIGTERM)
			h.read("the session is not registered")
			require.Error(t, g.cmd.Wait())
			require.NoFileExists(t, socket)
			g = startGuard(t, socket, nil)
			h.read("the session is registered")
			return g
		},
		"guard stopped": func(_ *testing.T, h *holder, g *child, _ string) *child {
			g.signal(syscall.SIGSTOP)
			h.do("look")
			g.signal(syscall.SIGCONT)
			return g
		},
		"session replaced": func(t *testing.T, h *holder, g *child, _ string) *child {
			require.NoError(t, framework.EndSession(zktest.Context(t), h.backend.Addr(), h.session, h.password))
			h.succeeded()
			h.read("the session is registered") // another
			return g
		},
	}
	for name, happen := range fates {
		t.Run(name, func(t *testing.T) {
			server := zktest.Embedded(zktest.NewServer(t))
			socket := newSocket(t)
			g := startGuard(t, socket, nil)
			h := startHolder(t, server, socket, nil)
			g = happen(t, h, g, socket)
			h.stillLives(socket)
			h.signal(syscall.SIGKILL)
			if name != "session replaced" { // where it holds nothing any more
				h.succeeded()
			}
			g.read(fmt.Sprintf("process=%d", h.pid))
		})
	}
}

// TestGuardWaitsForAllThatActs under a session: the process that has it, and another beside it. So does a guard that takes
// the place of another.
func TestGuardWaitsForAllThatActs(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", replaced), func(t *testing.T) {
			server := zktest.Embedded(zktest.NewServer(t))
			socket := newSocket(t)
			g := startGuard(t, socket, nil)
			h := startHolder(t, server, socket, nil)
			h.order("beside")
			beside := must.Get(strconv.Atoi(strings.TrimPrefix(h.read("child "), "child ")))(t)
			defer func() { _ = syscall.Kill(beside, syscall.SIGKILL) }()
			h.do("look")
			if replaced {
				g.signal(syscall.SIGKILL)
				h.read("the session is not registered")
				startGuard(t, socket, nil)
				h.read("the session is registered")
			}
			h.signal(syscall.SIGKILL)
			h.stillLives(socket)
			require.NoError(t, syscall.Kill(beside, syscall.SIGKILL))
			h.succeeded()
		})
	}
}

// TestGuardWaitsForTheCommand of lock run, however late the process comes that ends it.
func TestGuardWaitsForTheCommand(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t))
	socket := newSocket(t)
	startGuard(t, socket, nil)
	tree := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.WriteFile(tree, []byte("#!/bin/sh\n[ $1 -gt 0 ] && { \"$0\" $(($1 - 1)); exit; }\necho deep $$; sleep 600; exit\n"), 0o700))
	run := spawn(t, asProgram, nil, []string{guarding.Env + "=" + socket, "CURATOR_SERVERS=" + server.ConnectString()},
		"lock", "run", "-policy", "session", "-session-timeout", guardedSession.String(), "/locks/guarded", "--",
		"sh", "-c", "echo keeper $(ps -o ppid= -p $PPID) $PPID; exec "+tree+" 6")
	var keeper, ender, deep int
	must.Get(fmt.Sscanf(run.read("keeper "), "keeper %d %d", &keeper, &ender))(t)
	must.Get(fmt.Sscanf(run.read("deep "), "deep %d", &deep))(t)
	client := zktest.Client(t, server)
	contenders := func() int {
		names, err := client.Children(zktest.Context(t), "/locks/guarded")
		require.True(t, err == nil || errors.Is(err, framework.ErrNoNode), "%v", err)
		return len(names)
	}
	require.NoError(t, syscall.Kill(ender, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(keeper, syscall.SIGKILL))
	other := startHolder(t, apart(server), socket, nil) // which shows that the guard has had the time
	other.signal(syscall.SIGKILL)
	other.succeeded()
	require.Equal(t, 1, contenders())
	require.NoError(t, syscall.Kill(deep, 0))
	require.NoError(t, syscall.Kill(ender, syscall.SIGCONT))
	began := time.Now()
	for contenders() > 0 {
		time.Sleep(time.Millisecond)
	}
	require.Less(t, time.Since(began), muchEarlier)
	require.ErrorIs(t, syscall.Kill(deep, 0), unix.ESRCH, "the command has outlived the hold")
}

// TestGuardKeepsSessionsApart: a client that comes back is one with itself, and a session of another ensemble is another one.
func TestGuardKeepsSessionsApart(t *testing.T) {
	first, again, elsewhere := new(ward), new(ward), new(ward)
	g := newSessionGuard(nil, nil)
	defer g.stop()
	g.wards[first], g.wards[again], g.wards[elsewhere] = true, true, true
	r := guarding.Registration{Servers: "a:1", Session: 7}
	g.register(first, r)
	g.register(elsewhere, guarding.Registration{Servers: "b:1", Session: 7})
	require.Equal(t, r, first.registration)
	g.register(again, r)
	require.Zero(t, first.registration)
	require.Equal(t, int64(7), elsewhere.registration.Session)
}

// TestGuardThatIsStopped goes on for a moment with the session of a process that is gone.
func TestGuardThatIsStopped(t *testing.T) {
	socket := newSocket(t)
	began, goOn, ended := make(chan int64), make(chan struct{}), make(chan error, 1)
	g := newSessionGuard(new(call), func(ctx context.Context, r guarding.Registration) error {
		began <- r.Session
		<-goOn
		ended <- ctx.Err()
		return nil
	})
	defer func() { require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) }()
	require.NoError(t, g.listen(socket))
	gone := exec.CommandContext(t.Context(), "true")
	require.NoError(t, gone.Start())
	fd := must.Get(unix.PidfdOpen(gone.Process.Pid, 0))(t)
	defer unix.Close(fd)
	require.NoError(t, gone.Wait())
	socketOf := must.Get(new(net.Dialer).DialContext(t.Context(), guarding.Network, socket))(t)
	client := socketOf.(*net.UnixConn)
	say := func(message string, rights []byte) {
		t.Helper()
		_, _, err := client.WriteMsgUnix([]byte(message), rights, nil)
		require.NoError(t, err)
		answer := make([]byte, 1000)
		require.JSONEq(t, `{"Refused":""}`, string(answer[:must.Get(client.Read(answer))(t)]))
	}
	say("{}", unix.UnixRights(fd))
	say(`{"Servers":"a:1","Session":7,"Timeout":60000000000}`, nil)
	var living []*guarding.Conn
	for range 5 {
		conn := must.Get(guarding.Dial(zktest.Context(t), socket))(t)
		living = append(living, conn)
	}
	require.NoError(t, client.Close())
	require.Equal(t, int64(7), zktest.Await(t, began, "an attempt to end the session"))
	closed, stopped := make(chan struct{}), time.Now()
	go func() {
		defer close(closed)
		g.close()
	}()
	for _, conn := range living { // which it forgets
		zktest.Await(t, conn.Lost(), "the end of a connection")
		conn.Drop()
	}
	close(goOn)
	zktest.Await(t, closed, "the end of the guard")
	if err := <-ended; time.Since(stopped) < lastEnds { // or the machine is too busy to say
		require.NoError(t, err)
	}
}

// TestGuardsBeginOneByOne: of two that begin at one socket at the same time, the second sees the socket of the first.
func TestGuardsBeginOneByOne(t *testing.T) {
	socket := newSocket(t)
	first := must.Get(makeRoom(socket))(t)
	second := spawn(t, asProgram, nil, nil, "guard", "-socket", socket)
	require.Eventually(t, func() bool { // it waits for the first
		locks, err := os.ReadFile("/proc/locks")
		return err == nil && strings.Contains(string(locks), fmt.Sprintf("-> FLOCK  ADVISORY  WRITE %d ", second.cmd.Process.Pid))
	}, time.Minute, time.Millisecond)
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), guarding.Network, socket))(t)
	defer listener.Close()
	require.NoError(t, first.Close())
	second.read("another guard listens there")
	require.Error(t, second.cmd.Wait())
	require.FileExists(t, socket)
}

// TestGuardAsTheFirstProcess of a container, whom the kernel spares by the signal that has ended the command.
func TestGuardAsTheFirstProcess(t *testing.T) {
	unshare := must.Get(exec.LookPath("unshare"))(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		cmd := exec.CommandContext(t.Context(), unshare, "--pid", "--fork", "--mount-proc", os.Args[0], "guard", "--", "sh", "-c", fmt.Sprintf("kill -%d $$", s))
		cmd.Env = append(os.Environ(), asProgram+"=1")
		output, err := cmd.CombinedOutput()
		require.Equal(t, exitSignal+int(s), must.As[*exec.ExitError](t, err).ExitCode(), "%s", output)
	}
}

// trace traces a process until the end of the test. The tracer is a thread that does nothing else.
func trace(t *testing.T, pid int) {
	t.Helper()
	attached, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends, and the trace with it
		err := unix.PtraceAttach(pid)
		attached <- err
		<-done
	}()
	require.NoError(t, <-attached)
	t.Cleanup(func() { close(done) })
}

// TestGuardInOtherNamespaces: a guard whose processes have other numbers in its own namespace ends their sessions.
func TestGuardInOtherNamespaces(t *testing.T) {
	apartNow := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	for name, attributes := range map[string][2]*syscall.SysProcAttr{
		"guard in its own":   {apartNow, nil},
		"process in its own": {nil, apartNow},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.Embedded(zktest.NewServer(t))
			socket := newSocket(t)
			g := startGuard(t, socket, attributes[0])
			h := startHolder(t, server, socket, attributes[1])
			h.signal(syscall.SIGKILL)
			h.succeeded()
			g.read(fmt.Sprintf("session=0x%x", uint64(h.session)))
		})
	}
}

// TestGuardIsNotMistakenAboutNumbers: a process whose number another process has got is gone.
func TestGuardIsNotMistakenAboutNumbers(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t))
	socket := newSocket(t)
	g := startGuard(t, socket, nil)
	h := startHolder(t, server, socket, nil)
	g.signal(syscall.SIGSTOP)
	h.signal(syscall.SIGKILL)
	require.Error(t, h.cmd.Wait())
	for {
		require.NoError(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(h.pid-1)), 0))
		other := exec.CommandContext(t.Context(), "sleep", "600")
		require.NoError(t, other.Start())
		if other.Process.Pid == h.pid {
			t.Cleanup(func() { _ = other.Wait() })
			break
		}
		require.NoError(t, other.Process.Kill()) // another process was started at the same time
		require.Error(t, other.Wait())
	}
	require.Empty(t, h.next)
	g.signal(syscall.SIGCONT)
	h.succeeded()
}

const nobody = 65534

// asNobody runs f in a thread of another user, which ends with it.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0))
		if errno != 0 {
			result <- errno
			return
		}
		result <- f()
	}()
	return <-result
}

// TestGuardIsForItsUser: another user can neither register a session, nor pass for a guard.
func TestGuardIsForItsUser(t *testing.T) {
	socket := newSocket(t)
	guard := startGuard(t, socket, nil)
	dial := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := guarding.Dial(ctx, socket)
		if err == nil {
			conn.Withdraw()
		}
		return err
	}
	require.NoError(t, dial())
	require.ErrorIs(t, asNobody(t, dial), os.ErrPermission, "of the folder")
	require.NoError(t, os.Chmod(filepath.Dir(socket), 0o711))
	require.ErrorIs(t, asNobody(t, dial), os.ErrPermission, "of the socket")
	require.NoError(t, os.Chmod(socket, 0o666))
	require.ErrorContains(t, asNobody(t, dial), "a process of user 65534, expected user 0", "of the guard: %s", &guard.text)

	require.NoError(t, os.Remove(socket))
	var listener net.Listener
	require.NoError(t, asNobody(t, func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), guarding.Network, filepath.Dir(socket)+".theirs")
		return err
	}))
	defer listener.Close()
	socket = listener.Addr().String()
	require.ErrorContains(t, dial(), "the guard runs as user 65534, expected 0 or 0")
}

// TestGuardRefuses paths that others may reach, or that another guard has.
func TestGuardRefuses(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o755))
	taken := newSocket(t)
	startGuard(t, taken, nil)
	for _, path := range []string{open + "/socket", taken, "/proc/none/socket", filepath.Dir(taken)} {
		got := curatorctl(t, "", "", "guard", "-socket", path)
		require.Equal(t, exitFailed, got.status, got.stderr)
		require.Contains(t, got.stderr, "-socket "+path)
	}
	play(t, "", `
$ guard
[64] curatorctl: guard: neither -socket nor a command, expected one of them
$ guard sleep 1
[64] curatorctl: guard: 2 arguments, expected [-- COMMAND...]
`)
	got := curatorctl(t, "", "", "guard", "-socket", open+"/socket")
	require.Contains(t, got.stderr, "has mode 0755, expected user 0 and 0700")
	got = curatorctl(t, "", "", "guard", "-socket", "/"+strings.Repeat("a", 107), "--", "true")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "108 bytes, expected 1 to 107")
	t.Setenv("TMPDIR", "/"+strings.Repeat("a", 107))
	got = curatorctl(t, "", "", "guard", "--", "true")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "expected 1 to 107")
}

// TestGuardKeepsSecrets: the password of a session is in no log, command line or environment, and a guard writes no core file.
func TestGuardKeepsSecrets(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t))
	socket := newSocket(t)
	g := startGuard(t, socket, nil)
	other, h := startHolder(t, apart(server), socket, nil), startHolder(t, server, socket, nil)
	secrets := []string{string(h.password), hex.EncodeToString(h.password), base64.StdEncoding.EncodeToString(h.password)}
	for _, of := range []*child{g, h.child} {
		for _, file := range []string{"cmdline", "environ"} {
			shown := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/%s", of.cmd.Process.Pid, file)))(t)
			for _, secret := range secrets {
				require.NotContains(t, string(shown), secret)
			}
		}
	}
	other.signal(syscall.SIGKILL)
	other.succeeded()
	g.signal(syscall.SIGTERM)
	h.read("the session is not registered")
	for _, secret := range secrets {
		require.NotContains(t, g.text.String(), secret)
		_, after, _ := strings.Cut(h.text.String(), secrets[1]) // which the test has it write
		require.NotContains(t, after, secret)
	}

	here := newSessionGuard(new(call), nil)
	require.NoError(t, here.listen(socket))
	defer func() { require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) }()
	require.Zero(t, must.Get(unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0))(t))
	here.close()
}

// TestGuardRunsACommand in its care, as lock run does, and leaves nothing behind.
func TestGuardRunsACommand(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t))
	temp := filepath.Dir(newSocket(t))
	env := []string{"TMPDIR=" + temp}
	run := func() *holder {
		return startHolderAs(t, apart(server), asProgram, nil, env,
			"guard", "--", "env", asProgram+"=", asHolder+"=1", "GORACE=atexit_sleep_ms=0", os.Args[0])
	}
	h := run()
	require.NoError(t, syscall.Kill(h.pid, syscall.SIGKILL))
	h.succeeded()
	exit := must.As[*exec.ExitError](t, h.cmd.Wait())
	require.Equal(t, exitSignal+int(syscall.SIGKILL), statusOfShell(exit))

	h = run()
	h.order("exit")
	h.succeeded()
	require.ErrorAs(t, h.cmd.Wait(), &exit)
	require.Equal(t, 3, exit.ExitCode())

	h = run()
	h.signal(syscall.SIGTERM)
	h.succeeded()
	require.ErrorAs(t, h.cmd.Wait(), &exit)
	require.Equal(t, exitSignal+int(syscall.SIGTERM), statusOfShell(exit))

	h = run()
	h.do("close")
	h.succeeded()
	require.NoError(t, h.stdin.(io.Closer).Close())
	require.NoError(t, h.cmd.Wait(), h.text.String())
	require.Empty(t, must.Get(os.ReadDir(temp))(t))
}

// TestGuardUnderKills kills workers at any moment of a connection, a wait, a hold and a release. Never do two hold the lock,
// tokens rise, the lock is free at once, and nothing is left. On one server, half of the workers are killed while all connect again.
func TestGuardUnderKills(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		proxy := zktest.NewProxy(t, server)
		underKills(t, proxy.Addr(), proxy)
	})
	if !testing.Short() { // or a session is never ended at another server
		t.Run("three servers", func(t *testing.T) { underKills(t, zktest.NewEnsemble(t, 3).ConnectString(), nil) })
	}
}

func underKills(t *testing.T, servers string, proxy *zkproxy.Proxy) {
	t.Helper()
	socket := newSocket(t)
	startGuard(t, socket, nil)
	read, write, err := os.Pipe() // of all workers, so their lines are in order
	require.NoError(t, err)
	defer read.Close()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(read); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	workers := make(map[int]*exec.Cmd)
	begin := func() {
		w := exec.CommandContext(t.Context(), os.Args[0])
		w.Env = append(os.Environ(), asHolder+"=1", asWorker+"=1", guarding.Env+"="+socket, "CURATOR_SERVERS="+servers)
		w.Stdout = write
		require.NoError(t, w.Start())
		workers[w.Process.Pid] = w
	}
	for range 4 {
		begin()
	}
	var token int64
	holder := 0
	next := func() {
		t.Helper()
		for tooLate := time.After(muchEarlier); ; {
			var line string
			select {
			case line = <-lines:
			case <-tooLate:
				require.Fail(t, "no worker has got the lock in time")
			}
			var pid int
			var with int64
			if n, _ := fmt.Sscanf(line, "enters %d %d", &pid, &with); n == 2 {
				require.NotContains(t, workers, holder, "%d holds the lock, and so does %d", holder, pid)
				require.Greater(t, with, token)
				holder, token = pid, with
				return
			}
			if n, _ := fmt.Sscanf(line, "leaves %d %d", &pid, &with); n == 2 && pid == holder {
				holder = 0
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 1)) // the moments differ in each run all the same
	kills := 8
	if seeds.Long() {
		kills = 200
	}
	for range kills {
		for range random.IntN(8) {
			next()
		}
		if proxy != nil && random.IntN(2) == 0 {
			proxy.Cut()
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		pids := slices.Sorted(maps.Keys(workers))
		pid := pids[random.IntN(len(pids))]
		require.NoError(t, workers[pid].Process.Kill())
		require.Error(t, workers[pid].Wait())
		delete(workers, pid)
		begin()
	}
	for range 10 {
		next()
	}
	for _, w := range workers {
		require.NoError(t, w.Process.Kill())
		require.Error(t, w.Wait())
	}
	require.NoError(t, write.Close())
	client := zktest.Client(t, servers)
	left := must.Get(locks.NewInterProcessMutex(client, "/locks/guarded"))(t)
	began := time.Now()
	require.NoError(t, left.Do(zktest.Context(t), func(context.Context) error { return nil }))
	require.Less(t, time.Since(began), muchEarlier)
	names, err := client.Children(t.Context(), "/locks/guarded")
	require.True(t, len(names) == 0 || errors.Is(err, framework.ErrNoNode), "%v are left: %v", names, err)
}

// TestGuardHasCredentials: with TLS and SASL the guard ends a session by its own.
func TestGuardHasCredentials(t *testing.T) {
	certFile, keyFile := identity(t, "zookeeper.example")
	pair := must.Get(tls.LoadX509KeyPair(certFile, keyFile))(t)
	server := zktest.NewServer(t, zkserver.WithTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}),
		zkserver.WithSASLUsers(map[string]string{"alice": "wonderland"}), zkserver.WithRequireClientAuthScheme("sasl"))
	env := []string{
		"CURATOR_SERVERS=" + server.Addr(), "CURATOR_CA=" + certFile, "CURATOR_SERVER_NAME=zookeeper.example", "CURATOR_SASL=digest-md5:alice:wonderland",
	}
	run := []string{os.Args[0], "lock", "run", "-policy", "session", "-session-timeout", guardedSession.String(), "/locks/guarded", "--", "sh", "-c"}
	holder := spawn(t, asProgram, nil, env, append(append([]string{"guard", "--"}, run...), "echo keeper $(ps -o ppid= -p $PPID); exec sleep 600")...)
	var keeper int
	must.Get(fmt.Sscanf(holder.read("keeper "), "keeper %d", &keeper))(t)
	require.NoError(t, syscall.Kill(keeper, syscall.SIGKILL))
	began := time.Now()
	spawn(t, asProgram, nil, env, append(run[1:], "echo next")...).read("next")
	require.Less(t, time.Since(began), muchEarlier)
}
