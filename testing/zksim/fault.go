// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

// Fault is a kind of fault.
type Fault string

// The faults of servers.
const (
	StopServer   Fault = "stop a server"
	StopLeader   Fault = "stop the leader"
	StopAll      Fault = "stop all servers" // for longer than a session may last, or not
	PauseServer  Fault = "pause a server"
	Isolate      Fault = "isolate a server"
	IsolateOld   Fault = "isolate the leader, and restart the others" // so that another is elected at once
	CutOneWay    Fault = "cut one direction between two servers"
	LagTime      Fault = "lag by time"
	LagCount     Fault = "lag by transactions"
	SlowLinks    Fault = "slow links between servers"
	ChangeLeader Fault = "change the leader"
	ClockRate    Fault = "a server's clock is slow or fast by up to a hundredth" // for which recipes allow
	WrongClock   Fault = "a server's clock has half or double the rate"          // for which they do not
	LoseUnsynced Fault = "stop a server while it catches up"
	Replace      Fault = "a server leaves the ensemble, and joins it again" // with its data, or without
	Restore      Fault = "restore a backup"                                 // made as the fault begins, and no older than another restore
)

// The faults of one client.
const (
	CutClient    Fault = "cut a client's connections"
	SilentClient Fault = "a client hears and says nothing"
	LoseReplies  Fault = "lose replies"
	LoseRequests Fault = "lose requests"
	SlowRequests Fault = "slow requests"
	KillSession  Fault = "kill a session" // no client can know of it before others do

	// KillProcess ends a client without a word, while its calls are under way: they end with their context, and with ErrClosed.
	// What it had stays until its session times out, or is ended by a guard some milliseconds later. Its connections end, or
	// fall silent as those of a machine without power. As the fault ends, the process begins again: Join gets a new client.
	KillProcess Fault = "kill a process"

	// PauseProcess holds all that a client and the servers send each other. It arrives as the fault ends, when the session may
	// have ended. No action begins meanwhile. Go cannot stop goroutines and timers, so those of the client go on: what a process
	// believes that was stopped is not shown.
	PauseProcess Fault = "pause a process"
)

// Usual are the faults against which recipes keep all of their promises. KillProcess is not among them, as a program must be written
// for it: what it expects of one client must not outlive that client. PauseProcess is named by programs, too.
var Usual = []Fault{
	StopServer, StopLeader, StopAll, PauseServer, Isolate, IsolateOld, CutOneWay, LagTime, LagCount, SlowLinks, ChangeLeader, ClockRate,
	CutClient, SilentClient, LoseReplies, LoseRequests, SlowRequests,
}

// planned is one fault of a history.
type planned struct {
	kind      Fault
	at, lasts time.Duration
	a, b      int // which server or client, and how much
}

func drawFault(random *rand.Rand, p Program) planned {
	f := planned{kind: p.Faults[random.IntN(len(p.Faults))], at: time.Duration(random.Int64N(int64(FaultTime * 3 / 4)))}
	f.lasts = time.Duration(random.Int64N(int64(FaultTime - f.at)))
	if random.IntN(2) == 0 {
		f.lasts = min(f.lasts, time.Duration(random.Int64N(int64(4*time.Second))))
	}
	f.a, f.b = random.IntN(60), random.IntN(60)
	return f
}

// begin has a fault begin, and returns what ends it.
func (w *World) begin(f planned) (end func()) {
	e := w.Servers
	servers := len(e.Servers())
	s, other := e.Server(f.a%servers), e.Server((f.a+1+f.b%(servers-1))%servers)
	nothing := func() {}
	switch f.kind {
	case StopLeader:
		if s = e.Leader(); s == nil {
			return nothing
		}
		return w.stop(s)
	case StopServer:
		return w.stop(s)
	case StopAll:
		return w.stop(e.Servers()...)
	case LoseUnsynced:
		return w.loseUnsynced(s)
	case Replace:
		return w.replace(s, f.b%2 == 0)
	case PauseServer:
		s.Pause()
		return s.Resume
	case Isolate:
		return e.Isolate(s)
	case IsolateOld:
		if s = e.Leader(); s == nil {
			return nothing
		}
		heal := e.Isolate(s)
		for _, follower := range e.Servers() {
			if follower != s {
				w.stop(follower)()
			}
		}
		return heal
	case CutOneWay:
		return e.CutOneWay(s, other)
	case LagTime:
		return e.Lag(s, time.Duration(f.b)*100*time.Millisecond, 0)
	case LagCount:
		return e.Lag(s, 0, 1+f.b%8)
	case SlowLinks:
		d := time.Duration(f.b) * 4 * time.Millisecond
		w.delay(d)
		return func() { w.delay(0) }
	case ChangeLeader:
		_ = e.ChangeLeader(s) // fails if it leads already, is away, or is an observer
		return nothing
	case ClockRate, WrongClock:
		return w.clock(s, f)
	case Restore:
		backup, restores := s.Backup(), w.restores.Load()
		return func() {
			// Of a backup that is older than another restore clients may see no sign: the leader has the same number again.
			if w.restores.CompareAndSwap(restores, restores+1) {
				w.must(e.Restore(backup))
			}
		}
	default:
		return w.beginAtClient(f)
	}
}

func (w *World) beginAtClient(f planned) (end func()) {
	i := slices.IndexFunc(w.processes, func(p *Process) bool { return p.planned.index == f.a%w.drawn })
	if i < 0 { // it was left out
		return func() {}
	}
	p := w.processes[i]
	c := p.living()
	if c == nil {
		return func() {}
	}
	session := c.Session().ID()
	all := func(do func(s *zkserver.Server) func()) func() {
		var ends []func()
		for _, s := range w.Servers.Servers() {
			ends = append(ends, do(s))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
	each := func(k int, fault zkserver.Fault) func() {
		n := 0
		return all(func(s *zkserver.Server) func() {
			return s.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.SessionID != session || r.Op == zkserver.OpPing {
					return zkserver.Pass
				}
				if n++; n%k != 0 {
					return zkserver.Pass
				}
				return fault
			})
		})
	}
	switch f.kind {
	case CutClient:
		return all(func(s *zkserver.Server) func() {
			s.Cut(session, 1+f.b%3)
			return func() {}
		})
	case SilentClient:
		directions := zkserver.Direction(1 + f.b%3)
		return all(func(s *zkserver.Server) func() { return s.Blackhole(session, directions) })
	case LoseReplies:
		return each(1+f.b%4, zkserver.LoseReply)
	case LoseRequests:
		return each(1+f.b%4, zkserver.LoseRequest)
	case SlowRequests:
		return each(1, zkserver.Delay(time.Duration(f.b)*20*time.Millisecond))
	case KillProcess:
		p.killBy(c, f)
		return p.Start
	case PauseProcess:
		return p.Pause()
	case KillSession:
		w.Servers.Server(f.b % voters).KillSession(session)
	default:
		panic("zksim: fault " + string(f.kind) + ": one of the constants of this package expected")
	}
	return func() {}
}

// stop stops servers, and returns what starts them.
func (w *World) stop(servers ...*zkserver.Server) (start func()) {
	for _, s := range servers {
		w.must(s.Stop())
	}
	return func() {
		for _, s := range servers {
			w.must(s.Restart())
		}
	}
}

// loseUnsynced stops a server, and again when it has come back.
func (w *World) loseUnsynced(s *zkserver.Server) (end func()) {
	again := w.stop(s)
	return func() {
		again()
		time.Sleep(time.Second) // by then it has joined again, if it can
		again = w.stop(s)
		_ = w.Servers.LoseUnsynced(s) // fails if it has joined no leader
		again()
	}
}

// replace takes a server out of the ensemble, and returns what puts it in again, perhaps without its data.
func (w *World) replace(s *zkserver.Server, isBlank bool) (end func()) {
	if w.Servers.Leave(s) != nil { // it leads, say, or there would be no majority
		return func() {}
	}
	again := w.stop(s)
	return func() {
		if isBlank && w.isIn(s, false) { // one that votes would be missed
			again = w.stop(s)
			_ = s.Restore(w.blank, 0) // fails if another fault has started it again meanwhile
		}
		again()
		time.Sleep((syncLimit + 1) * tick) // by then it has left, or never will
		for !w.isIn(s, true) {
			_ = w.Servers.Join(s) // fails while it has not come back, or there is no leader
			time.Sleep(tick)
		}
	}
}

// isIn reports whether the configuration of the ensemble is known to have a server, or to lack it.
func (w *World) isIn(s *zkserver.Server, has bool) bool {
	config := w.Servers.Znodes("/zookeeper/config")
	return len(config) > 0 && strings.Contains(string(config[0].Data), fmt.Sprintf("server.%d=", s.ID())) == has
}

// clock has a server's clock run at another rate, and returns what ends this.
func (w *World) clock(s *zkserver.Server, f planned) (end func()) {
	rate := 0.99 + 0.02*float64(f.b)/59
	if f.kind == WrongClock {
		rate = []float64{0.5, 2}[f.b%2]
	}
	w.must(w.Servers.ClockRate(s, rate))
	return func() { w.must(w.Servers.ClockRate(s, 1)) }
}

func (w *World) delay(d time.Duration) {
	for _, a := range w.Servers.Servers() {
		for _, b := range w.Servers.Servers() {
			w.Servers.Delay(a, b, d)
		}
	}
}
