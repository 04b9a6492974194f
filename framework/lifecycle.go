// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/janitor"
	"github.com/gocurator/curator/framework/internal/searching"
	"github.com/gocurator/curator/framework/internal/watching"
	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/secrets"
	"github.com/gocurator/curator/retry"
)

// logFlushLimit bounds how long Close waits for a log handler.
const logFlushLimit = 500 * time.Millisecond

// New returns a client that is not started. It checks the connection string and
// all options, sends nothing and starts nothing.
//
// The connection string has ZooKeeper's format: "host:port,host:port,.../chroot". With a
// chroot every path of this client is below it. The string must be empty with
// [WithEnsembleProvider].
func New(connectString string, opts ...Option) (*Framework, error) {
	return newFramework(connectString, opts, nil)
}

func newFramework(connectString string, opts []Option, draw *chance.Source) (*Framework, error) {
	cfg, err := newConfig(connectString, opts)
	if err != nil {
		return nil, err
	}
	f := &Framework{&client{requests: &requests{cfg: cfg}}, cfg.root, cfg.compressed}
	f.base, f.chance = f, draw
	f.ctx, f.stop = context.WithCancelCause(chance.With(context.Background(), draw))
	f.ensemble = newEnsemble(&f.cfg)
	f.guardian = newGuardian(&f.cfg)
	f.conduit = conduit.New(f.conduitConfig())
	f.tracker = newTracker(f.conduit, f)
	f.noContainers.Store(cfg.noContainers)
	f.watches = watching.New(f.watchingConfig())
	f.janitor = janitor.New(f.janitorConfig())
	f.searches = searching.New(f.background.start)
	if f.telemetry, err = newTelemetry(&f.cfg); err != nil {
		f.stop(ErrClosed)
		return nil, fmt.Errorf("framework: telemetry: %w", err)
	}
	if f.telemetry != nil {
		f.OnConnectionState(f.telemetry.entered) // before Start, so that the first state is counted as well
	}
	return f, nil
}

// conduitConfig returns the settings of the connection. The conduit calls nothing of the
// client before Start.
func (f *Framework) conduitConfig() conduit.Config {
	cfg := f.cfg.Config
	cfg.Ensemble, cfg.Rank = f.ensemble.list, f.ensemble.rankOf()
	cfg.Events, cfg.Failed = (*events)(f), (*events)(f).attemptFailed
	cfg.Plain, cfg.Ended, cfg.Chance = f.cfg.tls == nil, f.ctx.Done(), f.chance
	if f.guardian != nil {
		cfg.Register = (*events)(f).register
	}
	return cfg
}

// watchingConfig returns what the registry of watches needs of the client.
func (f *Framework) watchingConfig() watching.Config {
	return watching.Config{
		Send: f.conduit.Send,
		Refusal: func(call *conduit.Call, code int32) error {
			if code == wire.CodeUnimplemented {
				return unsupported(call.NoteTooOld())
			}
			return serverError(code)
		},
		MayPass:    Retryable,
		MaxRequest: f.cfg.MaxRequest,
		Lost:       ErrConnectionLost,
	}
}

// janitorConfig returns what the deletions in the background need of the client.
func (f *Framework) janitorConfig() janitor.Config {
	return janitor.Config{
		Context: f.ctx, Start: f.background.start, Connected: f.tracker.whenConnected, MayPass: mayPass, Log: f.cfg.Logger,
	}
}

// Connect is New, Start and BlockUntilConnected; with [WithAuth] it also waits until the
// credentials are accepted. It returns at once when all servers have refused the credentials, or have certificates
// that cannot be verified. Each address of a name counts as a server. While it waits, it logs a warning once each server
// has been tried, and again every ten minutes. The context bounds only the wait; the error then matches
// [ErrNotConnected] too. When Connect returns an error, it leaves nothing running. That may take a second more, in which
// the session is closed that a server opens after the end of the context.
func Connect(ctx context.Context, connectString string, opts ...Option) (*Framework, error) {
	f, err := newFramework(connectString, opts, chance.Of(ctx))
	if err != nil {
		return nil, err
	}
	f.connecting.Store(true)
	defer f.connecting.Store(false)
	if err := f.Start(); err != nil {
		return nil, err
	}
	if err := f.awaitAccess(ctx); err != nil {
		// Nothing has been done, so there is no session whose end could be missed.
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Start begins to connect and returns at once. A client is started once;
// starting it again, or after Close, is an error.
func (f *Framework) Start() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f != f.base:
		return fmt.Errorf("framework: start: %w", errView)
	case f.closing != nil:
		return fmt.Errorf("framework: start: %w", ErrClosed)
	case f.started.Load():
		return errors.New("framework: start: already started")
	}
	if err := f.telemetry.start(f.client); err != nil {
		return fmt.Errorf("framework: start: telemetry: %w", err)
	}
	f.started.Store(true) // before the first event, since a listener may make calls
	if err := f.conduit.Start(); err != nil {
		f.started.Store(false)
		return errors.Join(fmt.Errorf("framework: start: %w", err), f.telemetry.stop())
	}
	// Close has not begun, since it needs mu, so these goroutines do start.
	f.background.start(func() { f.ensemble.follow(f.ctx, f.conduit) })
	if f.cfg.tracksEnsemble {
		f.background.start(f.trackEnsemble)
	}
	if f.cfg.Rank != nil {
		f.background.start(f.moveBack)
	}
	if f.guardian != nil {
		f.background.start(func() { f.guardian.run(f.ctx) })
	}
	return nil
}

// Close ends the session and stops the client. The contexts of all holds end before
// anything is sent; the server then deletes the session's ephemeral nodes. All waiting and
// later calls fail with [ErrClosed]. Listeners still receive what was queued for them before,
// and nothing of Close itself.
//
// Close waits for up to five seconds for the answer of a server that is connected, so that the end of a program
// frees its locks at once. Close takes at most about six seconds and leaves no goroutine, whatever the server does. Only a
// call of an ACL provider or a retry policy by a heartbeat may still run. An error means that no
// server has confirmed the end of the session. The client is closed all the same, and the session
// times out at the servers. Close is idempotent: a second call waits for the first and returns its
// result. On a view (see [Framework.UsingNamespace]) Close does nothing but
// log and return an error.
func (f *Framework) Close() error {
	if f != f.base {
		// Logged, because a deferred Close drops its error and the client would live on.
		f.cfg.Logger.Error("close of a view closes nothing: close the client that it was made from", "namespace", f.Namespace())
		return fmt.Errorf("framework: close: %w", errView)
	}
	f.mu.Lock()
	if done := f.closing; done != nil {
		// Another call closes; not under mu, which its goroutines may need.
		f.mu.Unlock()
		<-done
		return f.closeErr
	}
	f.closing = make(chan struct{})
	f.closed.Store(true)
	f.mu.Unlock()
	defer close(f.closing)

	// First, so that holders learn of the end before the server deletes their nodes.
	f.tracker.close()
	// Then the calls that wait: the goroutines below end with their context.
	f.stop(ErrClosed)
	f.watches.Close(ErrClosed)
	f.background.close()
	_, session := f.tracker.current()
	if err := f.conduit.Close(); err != nil && session != nil {
		// Without a session there was nothing to confirm.
		f.closeErr = fmt.Errorf("framework: close: %w", err)
	}
	if f.guardian != nil {
		// After the session, which it guards.
		f.guardian.close(f.closeErr == nil && session != nil)
	}
	// Last, since meter providers and log handlers are not ours and may block.
	if err := f.telemetry.stop(); err != nil {
		f.cfg.Logger.Error("telemetry could not be stopped", "error", err)
	}
	f.cfg.logs.Flush(logFlushLimit)
	return f.closeErr
}

// events is the Framework as the conduit sees it.
type events Framework

func (e *events) Expired() {
	e.tracker.onExpired()
	if e.cfg.Resume != nil {
		e.giveUp(ErrSessionExpired) // the client is for this session only
	}
}

func (e *events) Connected(h conduit.Handshake) {
	e.telemetry.connected(h)
	// Before the tracker lets calls go: a watch must be in place again before new reads.
	e.watches.OnConnected()
	e.tracker.onConnected(h)
	e.ensemble.onConnected(h.Server)
	if f, session := e.base, e.base.Session(); e.cfg.SASL != nil && session != nil {
		l := session.linked.Load() // no other connection begins before this returns
		f.background.start(func() { f.learnIdentities(l) })
	}
}

func (e *events) Resumed() { e.tracker.onResumed() }

func (e *events) Revived(h conduit.Handshake) { e.tracker.onRevived(h) }

func (e *events) AuthFailed(err error, all, final bool) {
	why := err
	if !errors.Is(err, ErrAuthFailed) {
		why = fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	final = final || all && e.connecting.Load() // Connect does not wait for other credentials
	e.tracker.onAuthFailed(why, final)
	if final {
		e.giveUp(why)
	}
}

// giveUp ends all calls with a reason for which no later attempt could succeed.
func (e *events) giveUp(why error) {
	e.stop(why)
	// Afterwards, so that an owner that its watch wakes finds the reason.
	e.watches.Close(why)
}

func (e *events) Disconnected(reason error) {
	// The contexts of holds end before the watches do: their waiters act on the event.
	e.tracker.onDisconnected(reason)
	e.watches.OnDisconnected()
}

func (e *events) Notified(n conduit.Notification) { e.watches.OnNotified(n) }

// awaitAccess waits for a connection whose server has accepted the credentials.
func (f *Framework) awaitAccess(ctx context.Context) error {
	if err := f.BlockUntilConnected(ctx); err != nil || len(f.cfg.Auth) == 0 {
		return err // without credentials there is nothing to be refused
	}
	// A server that refuses them ends its connection, and another may accept them.
	if err := f.present(ctx, WithRetry(retry.Forever(retry.MinWait))); err != nil {
		return fmt.Errorf("framework: presenting the credentials: %w", reasonOf(err))
	}
	return nil
}

// attemptFailed warns of servers that cannot be reached, once each has been tried and then
// rarely. A later outage is told by the connection state.
func (e *events) attemptFailed(f conduit.Failure) {
	switch {
	case e.tracker.everHadSession():
	case f.Unfit && e.connecting.Load():
		e.giveUp(fmt.Errorf("%w: %w", ErrNotConnected, f.Reason)) // Connect does not wait for other certificates
	case !e.unreached.note(f.Servers):
	case f.Reached:
		e.cfg.Logger.Warn("no server has completed the authentication", "servers", e.ensemble.current(), "error", f.Reason)
	default:
		e.cfg.Logger.Warn("no server can be reached", "servers", e.ensemble.current(), "error", f.Reason)
	}
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

// endPause is the time between two attempts to end a session.
const endPause = 100 * time.Millisecond

// EndSession ends the session of another client by its id and password (see [Session.Password]), for instance of a
// process that is gone. The servers delete the ephemeral znodes of the session. A client that still has it loses
// its holds. Credentials, TLS and the like come from the options.
//
// EndSession blocks until a server has confirmed the end, or ctx ends. It returns nil as well if the session has
// already ended, and if the password is wrong: servers do not tell the two apart. After an error the session may go on. The
// error matches [ErrUnsupported] at ClickHouse Keeper, which lets no other connection have a session.
func EndSession(ctx context.Context, connectString string, id int64, password []byte, opts ...Option) error {
	session := &conduit.Session{ID: id, Password: secrets.Hide(password)}
	opts = append(slices.Clone(opts), option("EndSession", id != 0 && len(password) == wire.PasswordSize, func(c *config) { c.Resume = session },
		"session %#x with a password of %d bytes, expected %d", uint64(id), len(password), wire.PasswordSize))
	for {
		f, err := newFramework(connectString, opts, chance.Of(ctx))
		if err != nil {
			return err
		}
		if err := f.Start(); err != nil {
			return err
		}
		err = f.BlockUntilConnected(ctx)
		if err == nil && f.Session().ID() != id {
			err = fmt.Errorf("framework: end session %#x: %w: the server has begun session %s instead; it ends the other one at its timeout",
				uint64(id), ErrUnsupported, f.Session())
		}
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
