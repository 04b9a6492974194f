// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRunTellDropsWholeWords: a helper that does not read misses words, but gets none in part, and hears again once it reads.
func TestRunTellDropsWholeWords(t *testing.T) {
	t.Parallel()
	theirs, control, err := os.Pipe()
	require.NoError(t, err)
	h := &helper{control: control}
	const told = 4096 // four times what a pipe takes
	for i := range told {
		h.tell(order{Signal: 1 + i, Term: math.MaxInt64, Kill: math.MaxInt64})
	}
	heard := 0
	for words := json.NewDecoder(theirs); ; heard++ {
		var word order
		require.NoError(t, words.Decode(&word))
		if word.Signal < 0 {
			break
		}
		require.Equal(t, order{Signal: 1 + heard, Term: math.MaxInt64, Kill: math.MaxInt64}, word)
		h.tell(order{Signal: -1}) // dropped until there is room
	}
	require.Positive(t, heard)
	require.Less(t, heard, told)
	require.NoError(t, control.Close())
	h.tell(order{Signal: 1})
	require.NoError(t, theirs.Close())
}

// TestRunOnEveryServer: what a script sees of lock run, on every server.
func TestRunOnEveryServer(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		play(t, server.ConnectString(), `
$ lock run /locks/a -- sh -c "echo $CURATOR_LOCK_PATH; test $CURATOR_LOCK_TOKEN -gt 0; echo $?; exit 3"
[3]
/locks/a
0
$ lock run /locks/a cat
< as it came
as it came
$ lock run /locks/a -- sh -c "kill -9 $$"
[137]
$ lock run -shared /locks/rw -- true
$ lock run -exclusive /locks/rw -- true
$ lock run -permits 2 /locks/sem -- true
$ lock run -once monday /jobs/report -- echo "by this machine"
by this machine
$ lock run -once monday /jobs/report -- echo again
$ lock run -once tuesday /jobs/report -- false
[1]
$ lock run -once tuesday /jobs/report -- echo "at last"
at last
$ elect /election -- echo "this one leads"
this one leads
$ lock run -max-hold 10ms -grace 0s /locks/a -- sleep 100
[124] curatorctl: the command was ended after 10ms
$ lock run -policy session /locks/a -- true
$ lock run /locks/a -- /etc/passwd
[126] curatorctl: *
$ lock run /locks/a -- /etc
[126] curatorctl: *
$ lock run /locks/a -- /no/such/command
[127] curatorctl: *
$ lock run /locks/a -- no-such-command
[127] curatorctl: *
$ lock run /locks/a
[64] curatorctl: lock run: command missing, expected it after --
$ lock run -n -w 1s /locks/a -- true
[64] curatorctl: lock run: -n together with *
$ lock run -shared -exclusive /locks/a -- true
[64] curatorctl: lock run: expected one of *
$ lock run -policy lenient /locks/a -- true
[64] curatorctl: lock run: -policy "lenient", expected standard, session or quorum
$ lock run -E 256 /locks/a -- true
[64] curatorctl: lock run: -E 256, expected 0 to 255
$ lock run relative -- true
[64] curatorctl: lock run: invalid path "relative": *
$ locks -o json
[]
`)
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/held", locks.WithLabel("nightly")))(t)
		lease := must.Get(mutex.Acquire(zktest.Context(t)))(t)
		play(t, server.ConnectString(), `
$ lock run -n /locks/held -- true
[75] curatorctl: *: not acquired: 1 ahead *: nightly (*/*)
$ lock run -w 10ms -E 9 /locks/held -- true
[9] curatorctl: acquire /locks/held: *: -w 10ms is over: *
`)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// TestRunWithoutAServer: it is not the same as a lock that is held.
func TestRunWithoutAServer(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Stop())
	got := curatorctl(t, server.Addr(), "", "lock", "run", "-timeout", "100ms", "/locks/a", "--", "true")
	require.Equal(t, exitUnavailable, got.status, got.stderr)
}

// TestRunLabelHasNoArguments, which may be secret, and is cut between two characters.
func TestRunLabelHasNoArguments(t *testing.T) {
	require.Equal(t, "report.sh", labelOf([]string{"/opt/jobs/report.sh", "-password", "secret"}))
	require.Equal(t, "a?b", labelOf([]string{"a\nb"}))
	require.Equal(t, strings.Repeat("x", 99), labelOf([]string{strings.Repeat("x", 99) + "\u00e9"}))
	require.Equal(t, strings.Repeat("\u20ac", 33), labelOf([]string{strings.Repeat("\u20ac", 1_000_000)}), "33 of three bytes")
}

// TestRunKeepsTheStatus of its command when no server confirms the end of the session.
func TestRunKeepsTheStatus(t *testing.T) {
	server := zktest.NewServer(t)
	remove := server.Intercept(zkserver.Nth(1, zkserver.OpCloseSession, zkserver.LoseRequest))
	defer remove()
	got := curatorctl(t, server.Addr(), "", "lock", "run", "/locks/a", "--", "true")
	require.Zero(t, got.status, got.stderr)
	require.Contains(t, got.stderr, "curatorctl: close: no server has confirmed the end of the session")
}

// Session timeouts of the faults. A tenth of the short one is left when the command is killed,
// and that must be enough on a busy machine. The long one ends after the test, so whatever
// ends the command was no deadline.
const (
	shortSession = 15 * time.Second
	longSession  = 10 * time.Minute
)

// patient is a test of lock run in a process of its own. The command opens a named pipe and
// writes its token into it again and again. A rival in this process does so when it gets the
// lock. Only processes of the command, and the rival, have the pipe open: its end is theirs,
// even while lock run itself is stopped.
type patient struct {
	t       *testing.T
	server  *zkserver.Server
	client  *framework.Framework
	cmd     *exec.Cmd
	pipe    string
	stderr  bytes.Buffer
	holder  locks.Participant
	guard   int // its process, and the keeper's; set when the command has begun
	keeper  int
	rival   chan error
	refused chan int // tokens of the command that came after the rival's
	begun   chan struct{}
	ended   chan error
}

const (
	pipeOfTokens = "PIPE_OF_TOKENS" // names the pipe in the environment

	// opening comes before every script.
	opening = `exec >"$` + pipeOfTokens + `"; echo guard $PPID $(ps -o ppid= -p $PPID); `

	tokens = `while :; do echo $CURATOR_LOCK_TOKEN; sleep 0.05; done`

	// untilTold waits for tell.
	untilTold = `until [ -e "$` + pipeOfTokens + `.told" ]; do sleep 0.01; done; `
)

// stubborn does not end at SIGTERM.
const stubborn = `trap '' TERM; ` + tokens

// start runs the script under the lock, and returns when it works and the rival waits.
func start(t *testing.T, server *zkserver.Server, servers string, session time.Duration, script string) *patient {
	t.Helper()
	p, writer := startAlone(t, server, servers, session, script)
	mutex := must.Get(locks.NewInterProcessMutex(p.client, "/locks/judged"))(t)
	ctx := zktest.Context(t)
	go func() {
		defer writer.Close()
		p.rival <- mutex.Do(ctx, func(ctx context.Context) error {
			_, err := writer.WriteString(strconv.FormatInt(locks.LeaseFrom(ctx).Token(), 10) + "\n")
			return err
		})
	}()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { // the rival waits
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID == p.client.Session().ID()
	})
	return p
}

// startAlone is start without the rival, whose end of the pipe it returns.
func startAlone(t *testing.T, server *zkserver.Server, servers string, session time.Duration, script string) (*patient, *os.File) {
	t.Helper()
	p := &patient{
		t: t, server: server, client: zktest.Client(t, server), rival: make(chan error, 1),
		refused: make(chan int, 1), begun: make(chan struct{}), ended: make(chan error, 1),
	}
	p.pipe = filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, unix.Mkfifo(p.pipe, 0o600))
	writer, err := os.OpenFile(p.pipe, os.O_RDWR, 0) // first, so that the reader need not wait for a writer
	require.NoError(t, err)
	reader := must.Get(os.Open(p.pipe))(t)
	t.Cleanup(func() { _ = reader.Close() }) // what is left after a failure ends with SIGPIPE
	p.cmd = exec.Command(os.Args[0], "lock", "run", "-session-timeout", session.String(), "/locks/judged", "--", "sh", "-c", opening+script)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+servers, pipeOfTokens+"="+p.pipe)
	p.cmd.Stderr = &p.stderr
	// Tests stop processes of it. In the group of this test the kernel could then send SIGHUP to all of the group, as to
	// one that has lost its last parent.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, p.cmd.Start())
	go p.judge(reader)
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended if the test has passed
	zktest.Await(t, p.begun, "the command's work")
	recipes := must.Get(inspect.At(zktest.Context(t), zktest.Client(t, server), "/locks/judged"))(t)
	require.Len(t, recipes, 1)
	p.holder = recipes[0].Participants[0]
	require.Equal(t, "sh", p.holder.Label, "without the arguments")
	return p, writer
}

// judge shows all tokens to a register, in the order in which they were written. It ends when
// no process is left that could write.
func (p *patient) judge(reader *os.File) {
	var register fence.Register
	first, refused := true, 0
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		if guard, found := strings.CutPrefix(lines.Text(), "guard "); found {
			_, _ = fmt.Sscan(guard, &p.guard, &p.keeper) // 0 is no process
			continue
		}
		token, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err == nil {
			err = register.Accept(token)
		}
		if err != nil {
			refused++
		}
		if first {
			close(p.begun)
			first = false
		}
	}
	p.refused <- refused
}

// tell lets a script go on that waits untilTold.
func (p *patient) tell() {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(p.pipe+".told", nil, 0o600))
}

// end waits for the end of the program.
func (p *patient) end(status int) {
	p.t.Helper()
	err := zktest.Await(p.t, p.ended, "the end of lock run")
	var exit *exec.ExitError
	if status == 0 {
		require.NoError(p.t, err)
	} else {
		require.ErrorAs(p.t, err, &exit)
		require.Equal(p.t, status, statusOfShell(exit), p.stderr.String())
	}
}

// statusOfShell is what a shell shows of the end of a process in $?.
func statusOfShell(exit *exec.ExitError) int {
	return statusOfProcess(unix.WaitStatus(exit.Sys().(syscall.WaitStatus)))
}

// kill sends a process of lock run a signal.
func (p *patient) kill(process int, s syscall.Signal) {
	p.t.Helper()
	require.NotZero(p.t, process)
	require.NoError(p.t, syscall.Kill(process, s))
}

// nothingLeft waits until no process of the command is left, and the rival has had the lock.
func (p *patient) nothingLeft() (refused int) {
	p.t.Helper()
	require.NoError(p.t, zktest.Await(p.t, p.rival, "the rival's turn"))
	return zktest.Await(p.t, p.refused, "the end of all processes")
}

func newServerFor(t *testing.T) *zkserver.Server {
	t.Helper()
	return zktest.NewServer(t, zkserver.WithTick(250*time.Millisecond), zkserver.WithSessionTimeouts(500*time.Millisecond, longSession))
}

// under plays a test with a script under the lock, beside the others, on a server of its own.
func under(t *testing.T, name string, session time.Duration, script string, test func(t *testing.T, p *patient)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		test(t, start(t, server, server.Addr(), session, script))
	})
}

// TestRunUnderFaults: whatever happens to it, its command does not work any more when
// another has the lock, and no process is left.
func TestRunUnderFaults(t *testing.T) {
	t.Parallel()
	under(t, "SIGTERM", longSession, tokens, func(t *testing.T, p *patient) {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.end(exitSignal + int(syscall.SIGTERM))
		require.Zero(t, p.nothingLeft())
	})
	under(t, "the command heeds SIGTERM", longSession, `trap 'exit 5' TERM; `+tokens, func(t *testing.T, p *patient) {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.end(5)
		require.Zero(t, p.nothingLeft())
	})
	under(t, "the command is killed", longSession, `echo $CURATOR_LOCK_TOKEN; `+untilTold+`kill -9 $$`, func(t *testing.T, p *patient) {
		p.tell()
		p.end(exitSignal + int(syscall.SIGKILL))
		require.Zero(t, p.nothingLeft())
	})
	under(t, "the command leaves processes behind", longSession, `(trap '' TERM; `+tokens+`) & `+untilTold+`exit 0`, func(t *testing.T, p *patient) {
		p.tell()
		p.end(0)
		require.Zero(t, p.nothingLeft())
	})
	under(t, "killed", longSession, stubborn, func(t *testing.T, p *patient) {
		require.NoError(t, p.cmd.Process.Kill())
		require.Error(t, zktest.Await(t, p.ended, "the end of lock run"))
		require.Zero(t, p.nothingLeft(), "the keeper ends the command and releases the lock")
	})
	t.Run("killed, and the command ends at once", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		p, writer := startAlone(t, server, server.Addr(), longSession, stubborn)
		require.NoError(t, writer.Close())
		require.NoError(t, p.cmd.Process.Kill())
		require.Error(t, zktest.Await(t, p.ended, "the end of lock run"))
		require.Zero(t, zktest.Await(t, p.refused, "the end of all processes"))
	})
	under(t, "stopped", shortSession, stubborn, func(t *testing.T, p *patient) {
		p.kill(p.keeper, syscall.SIGSTOP)
		require.Zero(t, p.nothingLeft(), "the guard ends the command by itself")
		p.kill(p.keeper, syscall.SIGCONT)
		p.end(exitLost)
	})
	under(t, "the guard is stopped for longer than a session", shortSession, `echo $CURATOR_LOCK_TOKEN; `+untilTold+`exit 7`, func(t *testing.T, p *patient) {
		p.kill(p.guard, syscall.SIGSTOP) // as a stop of the whole job does
		<-time.After(shortSession)
		p.kill(p.guard, syscall.SIGCONT)
		<-time.After(4 * look) // in which it would kill
		p.tell()
		p.end(7)
		require.Zero(t, p.nothingLeft())
	})
	under(t, "the keeper is killed", shortSession, stubborn, func(t *testing.T, p *patient) {
		p.kill(p.keeper, syscall.SIGKILL)
		p.end(exitLost)
		require.Zero(t, p.nothingLeft())
	})
	t.Run("the link is cut", func(t *testing.T) {
		t.Parallel()
		server := newServerFor(t)
		proxy := zktest.NewProxy(t, server)
		p := start(t, server, proxy.Addr(), shortSession, stubborn)
		proxy.Blackhole(zkproxy.ToServer | zkproxy.ToClient)
		require.NoError(t, zktest.Await(t, p.rival, "the rival's turn"))
		p.end(exitLost)
		require.Zero(t, zktest.Await(t, p.refused, "the end of all processes"))
		proxy.Heal()
	})
	under(t, "the session is killed", longSession, stubborn, func(t *testing.T, p *patient) {
		require.True(t, p.server.KillSession(p.holder.Session))
		p.end(exitLost)
		// The rival learns of it at the same time: only the register can refuse what comes late.
		refused := p.nothingLeft()
		t.Logf("%d writes were refused", refused)
	})
	under(t, "the node is deleted", longSession, stubborn, func(t *testing.T, p *patient) {
		got := curatorctl(t, p.server.Addr(), "", "lock", "break", "-yes", "-token", strconv.FormatInt(p.holder.Token, 10), p.holder.Path)
		require.Zero(t, got.status, got.stderr)
		p.end(exitLost)
		t.Logf("%d writes were refused", p.nothingLeft())
	})
}

// TestRunWhenTheConnectionComesBack: a short interruption costs the command nothing.
func TestRunWhenTheConnectionComesBack(t *testing.T) {
	server := newServerFor(t)
	proxy := zktest.NewProxy(t, server)
	p := start(t, server, proxy.Addr(), longSession, `echo $CURATOR_LOCK_TOKEN; `+untilTold+`exit 7`)
	proxy.Cut()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.SessionTaken })
	p.tell()
	p.end(7)
	require.Zero(t, p.nothingLeft())
}

// TestRunSignalEndsTheWait for a lock that another holds.
func TestRunSignalEndsTheWait(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/held"))(t)
	lease := must.Get(mutex.Acquire(zktest.Context(t)))(t)
	signals := make(chan os.Signal, 1)
	var stderr output
	p := program{
		verbs: verbs(), stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr, signals: signals, getenv: func(string) string { return "" },
	}
	status := make(chan int, 1)
	go func() {
		status <- p.run(zktest.Context(t), []string{"-v", "-servers", server.Addr(), "lock", "run", "/locks/held", "--", "true"})
	}()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID != client.Session().ID()
	})
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "waiting at /locks/held/_c_") }, limit, 10*time.Millisecond)
	require.Contains(t, stderr.String(), ", 1 ahead\n")
	signals <- syscall.SIGUSR1 // not one that ends programs that wait
	signals <- syscall.SIGTERM
	require.Equal(t, exitSignal+int(syscall.SIGTERM), zktest.Await(t, status, "the end"), stderr.String())
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, "[]\n", curatorctl(t, server.Addr(), "", "locks", "-o", "json").stdout)
}

// TestRunSignalAtTheGrantStartsNoCommand: one that has come by then is not lost.
func TestRunSignalAtTheGrantStartsNoCommand(t *testing.T) {
	signals := make(chan os.Signal, 1)
	c := &call{program: program{signals: signals}, command: []string{"true"}}
	ctx, stop := c.untilSignal(t.Context(), 0)
	signals <- syscall.SIGTERM
	zktest.Await(t, ctx.Done(), "the signal")

	stop()
	err := c.signalled(ctx)

	require.Equal(t, exitSignal+int(syscall.SIGTERM), statusOf(err))
	require.ErrorContains(t, err, "the command was not started: ended by signal: terminated")
}

// TestRunSignalBeforeAStopComesOnce: a front that is stopped before it can tell of a signal to the group tells of it when it goes on.
func TestRunSignalBeforeAStopComesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := new(guarded)
		g.begin()
		told := func() bool { return g.hasReached(waitingSignal{syscall.SIGINT, time.Now()}) }
		time.Sleep(time.Minute)
		g.note(syscall.SIGINT)
		g.note(syscall.SIGTSTP)
		time.Sleep(time.Minute)
		g.note(syscall.SIGCONT)
		delete(g.ours, syscall.SIGCONT) // as when the front has told of it first
		require.True(t, told(), "it has waited for as long as the front was stopped")
		time.Sleep(together)
		require.False(t, told(), "to the front alone")
		g.note(syscall.SIGTSTP)
		g.note(syscall.SIGCONT)
		require.False(t, told(), "the front had time to tell of the first before it was stopped")
	})
}

// TestRunSignalBeforeTheCommandIsNotLost: the command has not had what its group had before it was started.
func TestRunSignalBeforeTheCommandIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		g := &guarded{signals: signals}
		signals <- syscall.SIGINT
		signals <- syscall.SIGUSR1
		g.begin()
		ofFront := func(number syscall.Signal) waitingSignal { return waitingSignal{number, time.Now()} }
		require.False(t, g.hasReached(ofFront(syscall.SIGINT)))
		require.True(t, g.hasReached(ofFront(syscall.SIGUSR1)), "no end of programs")
		require.False(t, g.hasReached(ofFront(syscall.SIGTERM)), "to the front alone")
		time.Sleep(time.Millisecond)
		g.ours[syscall.SIGINT] = time.Now()
		require.True(t, g.hasReached(ofFront(syscall.SIGINT)), "a later one")
	})
}

// TestRunHelperThatDiesOfASignal which it catches had not come so far, and had no command. No other end says that.
func TestRunHelperThatDiesOfASignal(t *testing.T) {
	err := endedEarly(unix.WaitStatus(syscall.SIGINT))
	require.Equal(t, exitSignal+int(syscall.SIGINT), statusOf(err))
	require.ErrorContains(t, err, "the command was not started: ended by signal: interrupt")
	const exited = 1 << 8
	for _, status := range []unix.WaitStatus{0, exited, unix.WaitStatus(syscall.SIGKILL), unix.WaitStatus(syscall.SIGSEGV)} {
		require.NoError(t, endedEarly(status))
	}
}

// TestRunSignalEndsTheInput that does not come. A verb goes on after SIGCONT.
func TestRunSignalEndsTheInput(t *testing.T) {
	server := zktest.NewServer(t)
	must.Get(zktest.Client(t, server).Create(t.Context(), "/a", nil))(t)
	for _, args := range [][]string{{"set", "/a"}, {"create", "/b", "-"}} {
		stdin, typed := io.Pipe()
		reads := &noticed{stdin, make(chan struct{}, 10)}
		signals, uncaught := make(chan os.Signal, 2), make(chan struct{}, 1)
		var stderr bytes.Buffer
		p := program{
			verbs: verbs(), stdin: reads, stdout: &stderr, stderr: &stderr, signals: signals, uncatch: func() { uncaught <- struct{}{} },
			getenv: func(string) string { return "" },
		}
		status := make(chan int, 1)
		go func() {
			status <- p.run(zktest.Context(t), append([]string{"-servers", server.Addr(), "-timeout", limit.String()}, args...))
		}()
		zktest.Await(t, reads.begun, "the read")
		signals <- syscall.SIGCONT
		signals <- syscall.SIGINT
		require.Equal(t, exitSignal+int(syscall.SIGINT), zktest.Await(t, status, "the end"), stderr.String())
		require.Equal(t, "curatorctl: ended by signal: interrupt\n", stderr.String())
		require.Len(t, uncaught, 1, "the next signal kills")
		require.NoError(t, typed.Close())
	}
}

// noticed tells of each read.
type noticed struct {
	io.Reader

	begun chan struct{}
}

func (n *noticed) Read(p []byte) (int, error) {
	n.begun <- struct{}{}
	return n.Reader.Read(p)
}

// TestRunSecondSignalKills a program that has caught the first one.
func TestRunSecondSignalKills(t *testing.T) {
	server := zktest.NewServer(t)
	never := make(chan struct{})
	defer close(never)
	reached := make(chan struct{}, 10)
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpCloseSession {
			return zkserver.Pass
		}
		reached <- struct{}{}
		return zkserver.HoldUntil(never) // so the program waits for its session's end
	})
	defer remove()
	stdin, typed, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "set", "/a")
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	cmd.Stdin = stdin
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.SessionOpened })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	zktest.Await(t, reached, "the end of the session")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	exit := must.As[*exec.ExitError](t, zktest.Await(t, ended, "the end"))
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
	require.NoError(t, typed.Close())
	require.NoError(t, stdin.Close())
}
