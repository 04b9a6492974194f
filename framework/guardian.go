// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/guarding"
)

const (
	// guardPatience bounds how long a new session waits for a guard that does not answer.
	guardPatience = time.Second

	// guardPause is the time between two attempts to reach a guard that is gone.
	guardPause = time.Second
)

// guardian keeps the session of a client registered with a guard, or in a file.
type guardian struct {
	kind     string // guard or file
	path     string
	program  string // that may have the session after this process, or empty
	dial     func(ctx context.Context, program string) (guarding.Keeper, *guarding.Registration, error)
	log      *slog.Logger
	left     chan *guarding.Registration // receives once what the program has left
	sessions chan newSessionToGuard
	settled  chan int64   // sessions in which nothing of the process before this one is left
	guarded  atomic.Int64 // 1 while the guard has the newest session

	conn    guarding.Keeper // of run, then of close; nil without a guard
	newest  guarding.Registration
	settles int64 // the inherited session, until it is settled
	warned  bool  // since the guard last had a session
}

// newSessionToGuard is a session that takes no call before registered is called.
type newSessionToGuard struct {
	guarding.Registration
	registered func()
}

// newGuardian returns nil if the client has no guard, and no file.
func newGuardian(cfg *config) *guardian {
	g := &guardian{
		kind: "guard", path: cfg.guard, program: cfg.id, log: cfg.Logger,
		left: make(chan *guarding.Registration, 1), sessions: make(chan newSessionToGuard), settled: make(chan int64),
	}
	switch {
	case cfg.sessionFile != "":
		g.kind, g.path, g.program = "file", cfg.sessionFile, cfg.sessionFile
		g.dial = func(context.Context, string) (guarding.Keeper, *guarding.Registration, error) {
			return guarding.OpenFile(cfg.sessionFile)
		}
	case cfg.guard != "":
		g.dial = func(ctx context.Context, program string) (guarding.Keeper, *guarding.Registration, error) {
			return guarding.Dial(ctx, cfg.guard, program)
		}
	default:
		return nil
	}
	return g
}

// inherit returns what the program has left, or nil. It waits for run.
func (g *guardian) inherit(ctx context.Context) *conduit.Session {
	select {
	case left := <-g.left:
		if left == nil || len(left.Password) != wire.PasswordSize {
			return nil
		}
		return &conduit.Session{ID: left.Session, Password: left.Password}
	case <-ctx.Done():
		return nil
	}
}

// settle has the session kept for the program, once nothing of the process before this one is left in it.
func (g *guardian) settle(ctx context.Context, session int64) {
	select {
	case g.settled <- session:
	case <-ctx.Done():
	}
}

// run takes what the program has left. Then it registers sessions, and registers the newest again whenever the guard comes back.
func (g *guardian) run(ctx context.Context) {
	if g.program != "" {
		if left := g.take(ctx); left != nil {
			g.settles = left.Session
			g.left <- left
		}
		close(g.left)
	}
	for {
		var lost <-chan struct{}
		var again <-chan time.Time
		switch {
		case g.conn != nil:
			lost = g.conn.Lost()
		case g.newest.Session != 0:
			again = time.After(guardPause)
		}
		select {
		case next := <-g.sessions:
			g.newest = next.Registration
			// A program that ends before that, and again and again, does not keep its locks.
			if g.newest.Session != g.settles {
				g.newest.Program, g.settles = g.program, 0
			}
			g.attempt(ctx)
			next.registered()
		case session := <-g.settled:
			if g.settles = 0; session == g.newest.Session {
				g.newest.Program = g.program
				g.attempt(ctx)
			}
		case <-lost:
			g.leave(errGuardGone)
		case <-again:
			g.attempt(ctx)
		case <-ctx.Done():
			return
		}
	}
}

var errGuardGone = errors.New("the guard has ended")

// take takes what the program has left. If that fails, so does the registration of the first session.
func (g *guardian) take(ctx context.Context) (left *guarding.Registration) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	if conn, left, err := g.dial(ctx, g.program); err == nil {
		g.conn = conn
		return left
	}
	return nil
}

// attempt registers the newest session once.
func (g *guardian) attempt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	var err error
	if g.conn == nil {
		g.conn, _, err = g.dial(ctx, "") // this client has a session
	}
	if err == nil {
		err = g.conn.Register(ctx, g.newest)
	}
	if err != nil {
		g.leave(err)
		return
	}
	g.guarded.Store(1)
	g.warned = false
	g.log.Info("the session is registered", g.kind, g.path, logSession, g.newest)
}

// leave goes on without the guard.
func (g *guardian) leave(why error) {
	if g.conn != nil {
		g.conn.Drop()
		g.conn = nil
	}
	g.guarded.Store(0)
	if !g.warned {
		g.warned = true
		g.log.Warn("the session is not registered: if this process is killed, its locks are held until the session times out",
			g.kind, g.path, logSession, g.newest, "error", why)
	}
}

// close ends the connection, after run has returned. It withdraws the registration if the session has ended. Otherwise
// the guard ends the session with this process.
func (g *guardian) close(ended bool) {
	switch {
	case g.conn == nil:
	case ended:
		g.conn.Withdraw()
	default:
		g.conn.Drop()
	}
}
