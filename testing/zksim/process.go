// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// process is one client after the other with the same number: each begins after the one before it was killed.
type process struct {
	w       *World
	planned client
	working context.Context // of all actions
	lives   int

	mu     sync.Mutex // guards all below
	client *Client    // nil while there is none
	act    func(context.Context, *rand.Rand)
	ctx    context.Context // of the actions of this client
	stop   context.CancelFunc
}

// begin connects the next client, and has it join. It reports false when that has failed.
func (p *process) begin() bool {
	c, err := p.w.connect(p.working, p.planned, p.lives)
	var act func(context.Context, *rand.Rand)
	if err == nil {
		act, err = p.w.program.Join(p.w, c)
	}
	if err != nil {
		p.w.Findf("client %d cannot join: %v", p.planned.index, err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	p.client, p.act = c, act
	p.ctx, p.stop = context.WithCancel(p.working)
	return true
}

// work does the actions. While the process is dead it does none.
func (p *process) work() {
	for _, a := range p.planned.actions {
		time.Sleep(a.pause)
		p.mu.Lock()
		ctx, act, c := p.ctx, p.act, p.client
		p.mu.Unlock()
		if c == nil {
			continue
		}
		select {
		case <-c.dialer.stalled():
			act(ctx, rand.New(rand.NewPCG(a.seed, 2)))
		case <-ctx.Done(): // it was killed
		}
	}
}

// living returns the client, nil while there is none.
func (p *process) living() *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// kill ends the client. First nothing reaches the servers any more. Then its contexts and all that it holds end, as in a
// process that is there no more.
func (p *process) kill(f planned) {
	p.mu.Lock()
	c, stop := p.client, p.stop
	p.client = nil
	p.mu.Unlock()
	w, session := p.w, c.Session()
	guarded := f.b%3 == 0
	c.dialer.kill(f.b%2 == 0)
	stop()
	w.killed.Go(func() { _ = c.Close() }) // it cannot end its session, and says so
	w.mu.Lock()
	w.ghosts = max(w.ghosts, session.Timeout())
	w.mu.Unlock()
	if guarded {
		w.killed.Go(func() {
			time.Sleep(time.Duration(1+f.b) * time.Millisecond)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(p.working), FaultTime)
			defer cancel()
			err := framework.EndSession(ctx, w.Servers.ConnectString(), session.ID(), session.Password(), framework.WithDialer(w.Servers.Dial),
				framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithServerTiming(tick, syncLimit))
			w.Logf("the guard of client %d ends session %v: %v", c.Index, session, err)
		})
	}
}
