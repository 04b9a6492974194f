// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/guarding"
)

const (
	// guardPatience bounds how long a new session waits for a guard that does not answer.
	guardPatience = time.Second

	// guardPause is the time between two attempts to reach a guard that is gone.
	guardPause = time.Second
)

// guardian keeps the session of a client registered with a guard.
type guardian struct {
	path     string
	log      *slog.Logger
	sessions chan newSessionToGuard
	guarded  atomic.Int64 // 1 while the guard has the newest session

	conn   *guarding.Conn // of run, then of close; nil without a guard
	newest guarding.Registration
	warned bool // since the guard last had a session
}

// newSessionToGuard is a session that takes no call before registered is called.
type newSessionToGuard struct {
	guarding.Registration
	registered func()
}

// newGuardian returns nil if the client has no guard.
func newGuardian(cfg *config) *guardian {
	if cfg.guard == "" {
		return nil
	}
	return &guardian{path: cfg.guard, log: cfg.Logger, sessions: make(chan newSessionToGuard)}
}

// run registers sessions, and registers the newest again whenever the guard comes back.
func (g *guardian) run(ctx context.Context) {
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
			g.attempt(ctx)
			next.registered()
		case <-lost:
			g.leave(errGuardGone)
		case <-again:
			g.attempt(ctx)
		case <-ctx.Done():
			return
		}
	}
}

var (
	errGuardGone  = errors.New("the guard has ended")
	errNoTakeover = errors.New("the server is ClickHouse Keeper, which lets no other connection have a session")
)

// attempt registers the newest session once.
func (g *guardian) attempt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	var err error
	if g.conn == nil {
		g.conn, err = guarding.Dial(ctx, g.path)
	}
	if err == nil {
		err = g.conn.Register(ctx, g.newest)
	}
	switch {
	case err != nil:
		g.leave(err)
	case conduit.IsUnusual(g.newest.Session):
		g.guarded.Store(0)
		g.warn("the guard cannot end the session", errNoTakeover)
	default:
		g.guarded.Store(1)
		g.warned = false
		g.log.Info("the session is registered", "guard", g.path, logSession, g.newest)
	}
}

// leave goes on without the guard.
func (g *guardian) leave(why error) {
	if g.conn != nil {
		g.conn.Drop()
		g.conn = nil
	}
	g.guarded.Store(0)
	g.warn("the session is not registered", why)
}

func (g *guardian) warn(what string, why error) {
	if !g.warned {
		g.warned = true
		g.log.Warn("If this process is killed, its locks are held until the session times out.", "reason", what,
			"guard", g.path, logSession, g.newest, "error", why)
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
