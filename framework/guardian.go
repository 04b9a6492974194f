// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

	// endPause is the time between two attempts to end a session.
	endPause = 100 * time.Millisecond
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

func newGuardian(cfg *config) *guardian {
	return &guardian{path: cfg.guard, log: cfg.log, sessions: make(chan newSessionToGuard)}
}

// register has a new session registered, and then calls done.
func (e *events) register(h conduit.Handshake, done func()) {
	servers := e.ensemble.current()
	servers = append([]string{h.Server}, slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return s == h.Server })...)
	next := newSessionToGuard{guarding.Registration{
		Servers: strings.Join(servers, ","), Session: h.SessionID, Password: h.Password, Timeout: h.Timeout,
	}, done}
	e.background.start(func() {
		select {
		case e.guardian.sessions <- next:
		case <-e.ctx.Done():
		}
	})
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

var errGuardGone = errors.New("the guard has ended")

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
	if err != nil {
		g.leave(err)
		return
	}
	g.guarded.Store(1)
	g.warned = false
	g.log.Info("a guard has the session", "guard", g.path, logSession, g.newest)
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
		g.log.Warn("no guard has the session: if this process is killed, its locks are held until the session times out",
			"guard", g.path, logSession, g.newest, "error", why)
	}
}

// close withdraws the registration, after run has returned.
func (g *guardian) close() {
	if g.conn != nil {
		g.conn.Withdraw()
	}
}

// EndSession ends the session of another client by its id and password (see [Session.Password]), for instance of a
// process that is gone. The servers delete the ephemeral znodes of the session. A client that still has it loses
// its holds. Credentials, TLS and the like come from the options.
//
// EndSession blocks until a server has confirmed the end, or ctx ends. It returns nil as well if the session has
// already ended, and if the password is wrong: servers do not tell the two apart. After an error the session may go on.
func EndSession(ctx context.Context, connectString string, id int64, password []byte, opts ...Option) error {
	opts = append(slices.Clone(opts), clientOption{"EndSession", func(c *config) error {
		if id == 0 || len(password) != wire.PasswordSize {
			return fmt.Errorf("session %#x with a password of %d bytes, expected %d", uint64(id), len(password), wire.PasswordSize)
		}
		c.resume = &conduit.Session{ID: id, Password: slices.Clone(password)}
		return nil
	}})
	for {
		f, err := New(connectString, opts...)
		if err != nil {
			return err
		}
		if err := f.Start(); err != nil {
			return err
		}
		err = f.BlockUntilConnected(ctx)
		closing := f.Close()
		switch {
		case errors.Is(err, ErrSessionExpired):
			return nil
		case err != nil, closing == nil:
			return err
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", closing, interrupted(ctx))
		}
	}
}
