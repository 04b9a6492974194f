// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
)

// Process is one of the processes of a history, with one client or several. Faults pause and kill it, and so may a program. It may be
// used by several goroutines.
type Process struct {
	w       *World
	planned client
	working context.Context // of all actions

	connecting sync.WaitGroup // calls of Connect

	mu     sync.Mutex // guards all below
	lives  int
	begun  bool    // since the last Kill
	over   bool    // after all actions
	host   *host   // of this life; nil while there is none
	client *Client // nil while there is none
	others []*framework.Framework
	act    func(context.Context, *rand.Rand)
	ctx    context.Context // of the actions of this client
	stop   context.CancelFunc
}

// Start begins the process again after Kill: Join gets a new client. A process that is there goes on. Start and Kill do nothing when all
// actions have ended.
func (p *Process) Start() { p.start() }

// start reports false when the process cannot join.
func (p *Process) start() bool {
	p.mu.Lock()
	if p.begun || p.over {
		p.mu.Unlock()
		return true
	}
	lives := p.lives
	p.begun = true
	host := newHost()
	p.host = host // Join may connect others
	p.w.remains.Add(1)
	p.mu.Unlock()
	defer p.w.remains.Done()
	working := chance.With(p.working, chance.New(p.w.seed+uint64(lives), uint64(p.planned.index)))
	ctx, stop := context.WithCancel(working)
	f, err := p.w.connect(working, p.planned, host)
	if err != nil {
		stop()
		if p.working.Err() == nil { // else all actions have ended meanwhile
			p.w.Findf("client %d cannot connect: %v", p.planned.index, err)
		}
		return false
	}
	c := &Client{Framework: f, Index: p.planned.index, Process: p, host: host}
	act, err := p.w.program.Join(p.w, c)
	if err != nil {
		p.w.Findf("client %d cannot join: %v", p.planned.index, err)
		act = func(context.Context, *rand.Rand) {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives, p.client, p.act, p.ctx, p.stop = lives+1, c, act, ctx, stop
	return err == nil
}

var errKilled = errors.New("zksim: the process has ended before it had connected a client")

// Connect connects another client of the process. It is paused, killed and closed with the process. Faults of one client are
// for the first. It fails if the process is killed meanwhile, or the history ends.
func (p *Process) Connect(ctx context.Context, opts ...framework.Option) (*framework.Framework, error) {
	p.mu.Lock()
	host := p.host
	if host == nil {
		p.mu.Unlock()
		return nil, errKilled
	}
	p.connecting.Add(1)
	p.mu.Unlock()
	defer p.connecting.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(host.life, cancel)
	defer stop()
	f, err := p.w.connect(ctx, p.planned, host, opts...)
	p.mu.Lock()
	defer p.mu.Unlock()
	isThere := p.host == host && host.life.Err() == nil
	switch {
	case isThere && err != nil:
		return nil, err
	case isThere:
		p.others = append(p.others, f)
		return f, nil
	case err == nil:
		p.w.bury(f)
	default:
		p.w.outlast(longestSession) // servers may have opened it
	}
	return nil, errKilled
}

// Pause holds all that the process and the servers send each other, until resume is called. No action begins meanwhile. Goroutines and
// timers of the process go on, as [PauseProcess] says.
func (p *Process) Pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host == nil {
		return func() {}
	}
	return p.host.pause()
}

// Kill ends the process without a word. Nothing reaches the servers any more: its connections end, or fall silent like those of a machine
// without power. Its actions end, and do not begin again before Start. What it had stays until its sessions time out, or
// [framework.EndSession] ends them, which a guard may call.
func (p *Process) Kill(silent bool) {
	p.mu.Lock()
	c, stop, others := p.client, p.stop, p.others
	if c == nil || p.over {
		p.mu.Unlock()
		return // it has been killed, or has not joined yet
	}
	p.host.kill(silent)
	p.begun, p.host, p.client, p.others = false, nil, nil, nil
	p.w.remains.Add(1)
	p.mu.Unlock()
	defer p.w.remains.Done()
	stop() // then its contexts end, and all that it holds, as in a process that is there no more
	for _, f := range append(others, c.Framework) {
		p.w.bury(f)
	}
}

// bury ends a client that reaches no server any more. Its session goes on until it times out.
func (w *World) bury(f *framework.Framework) {
	w.remains.Go(func() { _ = f.Close() }) // it cannot end its session, and says so
	w.outlast(f.Session().Timeout())
}

// outlast waits at the end for a session that may go on for so long.
func (w *World) outlast(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ghosts = max(w.ghosts, timeout)
}

// work does the actions. While the process is dead it does none.
func (p *Process) work() {
	for _, a := range p.planned.actions {
		time.Sleep(a.pause)
		p.mu.Lock()
		ctx, act, c := p.ctx, p.act, p.client
		p.mu.Unlock()
		if c == nil {
			continue
		}
		select {
		case <-c.host.stalled():
			act(ctx, rand.New(rand.NewPCG(a.seed, 2)))
		case <-ctx.Done(): // it was killed
		}
	}
}

// living returns the client, nil while there is none.
func (p *Process) living() *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// end has Start and Kill do nothing from now on. What they have begun goes on.
func (p *Process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// close closes all clients. One that is being connected is not connected.
func (p *Process) close() (err error) {
	p.mu.Lock()
	host, all := p.host, p.others
	if p.client != nil {
		all = append(all, p.client.Framework)
	}
	p.host, p.client, p.others = nil, nil, nil
	p.mu.Unlock()
	for _, f := range all {
		err = errors.Join(err, f.Close())
	}
	if host != nil {
		host.end()
	}
	p.connecting.Wait()
	return err
}

// killBy is the fault: some processes have a guard.
func (p *Process) killBy(c *Client, f planned) {
	w, session := p.w, c.Session()
	p.Kill(f.b%2 == 0)
	if f.b%3 != 0 {
		return
	}
	draw := chance.New(w.seed, uint64(f.at))
	w.remains.Go(func() {
		time.Sleep(time.Duration(1+f.b) * time.Millisecond)
		ctx, cancel := context.WithTimeout(chance.With(context.WithoutCancel(p.working), draw), FaultTime)
		defer cancel()
		err := framework.EndSession(ctx, w.Servers.ConnectString(), session.ID(), session.Password(), framework.WithDialer(w.Servers.Dial),
			framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithServerTiming(tick, syncLimit))
		w.Logf("the guard of client %d ends session %v: %v", c.Index, session, err)
	})
}
