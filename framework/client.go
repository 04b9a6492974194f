// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/janitor"
	"github.com/gocurator/curator/framework/internal/searching"
	"github.com/gocurator/curator/framework/internal/watching"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/retry"
)

// Framework is a client of a ZooKeeper ensemble. It keeps one session at a time and
// makes all requests on it. It is safe for concurrent use and meant to be shared by
// a whole process. It is Curator's CuratorFramework.
//
// [Framework.UsingNamespace] returns another Framework, a view of the same client.
type Framework struct {
	*client
	root       chroot // of the connection string, and the namespace
	compressed bool   // see WithCompression
}

// client is shared by a Framework and its views.
type client struct {
	*requests
	base     *Framework // the client itself, which is not a view
	watches  *watching.Registry
	janitor  *janitor.Janitor
	searches *searching.Searches
	guardian *guardian // nil without a guard

	noContainers atomic.Bool // parents are persistent nodes, by an option or because a server has no containers
	newParents   foresight
	connecting   atomic.Bool // Connect is under way
	unreached    unreached

	mu       sync.Mutex    // guards what follows, and orders Start and Close
	closing  chan struct{} // not nil once Close has begun, closed when it is done
	closeErr error
}

// BlockUntilConnected blocks until there is a connection with a session, and returns nil.
// It returns an error when the context or the client ends first ([ErrClosed],
// [ErrAuthFailed]), and at once before Start ([ErrNotStarted]).
func (f *Framework) BlockUntilConnected(ctx context.Context) error {
	if err := f.awaitConnection(ctx, 0, nil); err != nil {
		if ctx != nil && ctx.Err() != nil && f.usable() == nil && !f.State().IsConnected() {
			err = fmt.Errorf("%w: %w", ErrNotConnected, err)
		}
		return fmt.Errorf("framework: waiting for a connection to %v: %w", f.Servers(), err)
	}
	return nil
}

// State returns the current connection state.
func (f *Framework) State() ConnectionState {
	state, _ := f.tracker.current()
	return state
}

// Session returns the newest session, which may have ended, or nil before the
// first.
func (f *Framework) Session() *Session {
	_, session := f.tracker.current()
	return session
}

// ErrorPolicy returns the policy that recipes follow by default.
func (f *Framework) ErrorPolicy() ErrorPolicy { return f.cfg.errorPolicy }

// RetryPolicy returns the policy that decides about repeated requests.
func (f *Framework) RetryPolicy() retry.Policy { return f.cfg.retry }

// MaxRequestSize returns the limit of [WithMaxRequestSize], for recipes that keep data to write it later.
func (f *Framework) MaxRequestSize() int { return f.cfg.maxRequest }

// Servers returns the servers of the next attempt to connect, as host:port. They come from
// the connection string, or from [WithEnsembleProvider] or [WithEnsembleTracker].
func (f *Framework) Servers() []string { return f.ensemble.current() }

// Dialer returns the dialer with which the client connects to servers: the argument of
// [WithDialer] or TCP, with TLS on top if there is [WithTLS]. It is for additional
// connections, for instance to send a four-letter word to one server. The caller must close
// them.
func (f *Framework) Dialer() Dialer { return f.cfg.dial }

// String returns the connection string.
func (f *Framework) String() string { return strings.Join(f.Servers(), ",") + string(f.root) }

// Format writes String for every verb. Without it fmt would follow pointers to changing
// state, and to the session's password.
func (f *Framework) Format(s fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(s, f.String())
}

// Logger returns the client's logger, never nil, for recipes on the client. Logging does
// not block: records go through the queue that [WithLogger] describes.
func (f *Framework) Logger() *slog.Logger { return f.cfg.log }

// OnConnectionState adds a listener that is called with every later change of state, in
// order and one at a time; see package listen for the contract. The listener runs on a
// goroutine of its own, so it may block and use the client. Bind work that must end
// together with the session to [Session.Context] instead, which needs no goroutine to run.
func (f *Framework) OnConnectionState(fn func(ConnectionState)) *listen.Registration {
	return f.tracker.listeners.Add(fn)
}

// Telemetry has the telemetry settings of a client, for recipes that report in the same way.
type Telemetry struct {
	// TracerProvider and MeterProvider are the providers of the options. Without an option the
	// provider does nothing.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// PathAttribute says that the client was made with WithPathAttribute.
	PathAttribute bool

	// Server has the attributes server.address and server.port of the newest connection, for
	// spans. It is empty before the first connection.
	Server []attribute.KeyValue
}

// Telemetry returns the telemetry settings of the client. It returns false for a client without
// [WithTracerProvider] and [WithMeterProvider]: then there is nothing to measure.
func (f *Framework) Telemetry() (Telemetry, bool) {
	if f.telemetry == nil {
		return Telemetry{}, false
	}
	return Telemetry{
		TracerProvider: f.cfg.tracerProvider(), MeterProvider: f.cfg.meterProvider(),
		PathAttribute: f.cfg.pathAttribute, Server: slices.Clone(*f.telemetry.server.Load()),
	}, true
}

// logFlushLimit bounds how long Close waits for a log handler.
const logFlushLimit = 500 * time.Millisecond

// New returns a client that is not started. It checks the connection string and
// all options, sends nothing and starts nothing.
//
// The connection string has ZooKeeper's format: "host:port,host:port,.../chroot". With a
// chroot every path of this client is below it. The string must be empty with
// [WithEnsembleProvider].
func New(connectString string, opts ...Option) (*Framework, error) {
	cfg, err := newConfig(connectString, opts)
	if err != nil {
		return nil, err
	}
	f := &Framework{&client{requests: &requests{cfg: cfg}}, cfg.root, cfg.compressed}
	f.base = f
	f.ctx, f.stop = context.WithCancelCause(context.Background())
	f.ensemble = newEnsemble(&f.cfg)
	f.conduit = conduit.New(f.conduitConfig())
	f.tracker = newTracker(&f.cfg, f.conduit, f.heartbeats())
	f.noContainers.Store(cfg.noContainers)
	f.watches = watching.New(f.watchingConfig())
	f.janitor = janitor.New(f.janitorConfig())
	f.searches = searching.New(f.background.start)
	if f.cfg.guard != "" {
		f.guardian = newGuardian(&f.cfg)
	}
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
	cfg := conduit.Config{
		Servers:        f.cfg.servers,
		Ensemble:       f.ensemble.list,
		SessionTimeout: f.cfg.sessionTimeout,
		ConnectTimeout: f.cfg.connectionTimeout,
		MaxRequest:     f.cfg.maxRequest,
		MaxReply:       f.cfg.maxReply,
		Dial:           f.cfg.dial,
		Lookup:         f.cfg.lookup,
		Events:         (*events)(f),
		Logger:         f.cfg.log,
		Tick:           f.cfg.tick,
		Auth:           f.cfg.auth,
		SASL:           f.cfg.sasl,
		ReadOnly:       f.cfg.readOnly,
		Plain:          f.cfg.tls == nil,
		Failed:         (*events)(f).attemptFailed,
		Suspended:      f.cfg.suspended,
		Resume:         f.cfg.resume,
	}
	if f.cfg.guard != "" {
		cfg.Register = (*events)(f).register
	}
	return cfg
}

// watchingConfig returns what the registry of watches needs of the client.
func (f *Framework) watchingConfig() watching.Config {
	return watching.Config{
		Send: f.conduit.Send,
		Refusal: func(server string, code int32) error {
			err := serverError(code)
			if isUnimplemented(err) {
				return unsupported(f.conduit.NoteTooOld(server))
			}
			return err
		},
		MayPass:    Retryable,
		MaxRequest: f.cfg.maxRequest,
		Lost:       ErrConnectionLost,
	}
}

// janitorConfig returns what the deletions in the background need of the client.
func (f *Framework) janitorConfig() janitor.Config {
	return janitor.Config{Context: f.ctx, Connected: f.tracker.whenConnected, MayPass: mayPass, Log: f.cfg.log}
}

// Connect is New, Start and BlockUntilConnected; with [WithAuth] it also waits until the
// credentials are accepted. It returns at once when all servers have refused the credentials, or have certificates
// that cannot be verified. Each address of a name counts as a server. While it waits, it logs a warning once each server
// has been tried, and again every ten minutes. The context bounds only the wait; the error then matches
// [ErrNotConnected] too. When Connect returns an error, it leaves nothing running. That may take a second more, in which
// the session is closed that a server opens after the end of the context.
func Connect(ctx context.Context, connectString string, opts ...Option) (*Framework, error) {
	f, err := New(connectString, opts...)
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
	if err := f.telemetry.start(observed{f.tracker, f.watches, f.janitor, f.guardian}); err != nil {
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
// Close takes at most about two seconds and leaves no goroutine, whatever the server does. An
// error means that no server has confirmed the end of the session. The client is closed all the
// same, and the session times out at the servers. Close is idempotent: a second call waits for the
// first and returns its result. On a view (see [Framework.UsingNamespace]) Close does nothing but
// log and return an error.
func (f *Framework) Close() error {
	if f != f.base {
		// Logged, because a deferred Close drops its error and the client would live on.
		f.cfg.log.Error("close of a view closes nothing: close the client that it was made from", "namespace", f.Namespace())
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
	f.janitor.Close()
	f.background.close()
	_, session := f.tracker.current()
	if err := f.conduit.Close(); err != nil && session != nil {
		// Without a session there was nothing to confirm.
		f.closeErr = fmt.Errorf("framework: close: %w", err)
	}
	if f.guardian != nil {
		f.guardian.close() // after the session, which it guards
	}
	// Last, since meter providers and log handlers are not ours and may block.
	if err := f.telemetry.stop(); err != nil {
		f.cfg.log.Error("telemetry could not be stopped", "error", err)
	}
	f.cfg.logs.Flush(logFlushLimit)
	return f.closeErr
}

// events is the Framework as the conduit sees it.
type events Framework

func (e *events) Expired() {
	e.tracker.onExpired()
	if e.cfg.resume != nil {
		e.giveUp(ErrSessionExpired) // the client is for this session only
	}
}

func (e *events) Connected(h conduit.Handshake) {
	e.telemetry.connected(h)
	// Before the tracker lets calls go: a watch must be in place again before new reads.
	e.watches.OnConnected(h.Endpoint)
	e.tracker.onConnected(h)
	e.ensemble.onConnected(h.Server)
	if f := e.base; e.cfg.sasl != nil {
		connection := e.tracker.connectionNumber() // no other connection begins before this returns
		f.background.start(func() { f.learnIdentities(connection) })
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

var errView = errors.New("it is a view: the client that it was made from is started and closed")

// UsingNamespace returns a view of this client whose paths are all below
// /namespace, in arguments, results and events: the view's /a is the client's
// /namespace/a. A namespace may contain slashes. It is Curator's usingNamespace. As
// there, namespaces do not nest: a view of a view is a view of the whole client.
//
// A view shares everything else with the client, including its session and listeners. It lives as
// long as the client, and only the client itself can be started and closed. Recipes accept a view
// like any client.
//
// UsingNamespace sends nothing. The namespace's znodes are created, as containers, with the first
// znode directly below, and by [CreatingParentsIfNeeded]. It takes the option [WithCompression].
// It refuses all other options with [ErrInvalidOption], since they are settings of the client.
func (f *Framework) UsingNamespace(namespace string, opts ...Option) (*Framework, error) {
	path := "/" + namespace
	if err := ValidatePath(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	if path == "/" {
		return nil, fmt.Errorf("framework: namespace %q: %w: empty; use WithoutNamespace for the whole client", namespace, ErrInvalidPath)
	}
	// Checked now, or each write of the view would fail for the same reason.
	if _, err := f.base.root.writable(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	view := &Framework{f.client, f.cfg.root + chroot(path), f.base.compressed}
	if err := applyAll(opts, func(o Option) error { return view.apply(o) }); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	return view, nil
}

// apply sets what an option says of a view.
func (f *Framework) apply(o Option) error {
	if ofViews, ok := o.(interface{ applyView(compressed *bool) }); ok {
		ofViews.applyView(&f.compressed)
		return nil
	}
	return fmt.Errorf("%s is an option of clients, expected one of views: WithCompression", o.name())
}

// WithoutNamespace returns the client that a view was made from, or f itself if it is not
// a view. Two values with the same result share a session.
func (f *Framework) WithoutNamespace() *Framework { return f.base }

// Namespace returns the namespace of a view, or "" if f is not a view.
func (f *Framework) Namespace() string {
	if f == f.base {
		return ""
	}
	return string(f.root)[len(f.cfg.root)+1:]
}

// FullPath returns the server's path of a path of this client, with chroot and namespace.
// The path need not be valid.
func (f *Framework) FullPath(path string) string { return f.root.full(path) }

// unrooted returns a view for paths outside of every chroot.
func (f *Framework) unrooted() *Framework { return &Framework{f.client, "", false} }

// isNamespace reports whether a server's path is a part of the namespace. Neither the root
// nor the chroot is.
func (f *Framework) isNamespace(full string) bool {
	return len(full) > max(len(f.cfg.root), 1) && isBelow(string(f.root), full)
}

// awaitAccess waits for a connection whose server has accepted the credentials.
func (f *Framework) awaitAccess(ctx context.Context) error {
	if err := f.BlockUntilConnected(ctx); err != nil || len(f.cfg.auth) == 0 {
		return err // without credentials there is nothing to be refused
	}
	// The reply to any request, even a refusal, comes after the replies to the credentials. A server that refuses
	// them ends its connection, and another may accept them.
	if _, err := f.Exists(ctx, "/", WithRetry(retry.Forever(retry.MinWait))); err != nil && !errors.Is(err, ErrNoAuth) {
		return fmt.Errorf("framework: presenting the credentials: %w", reasonOf(err))
	}
	return nil
}

// History returns the number of the history of the servers that the client reads. Servers that come
// back empty, or from a backup, number their transactions again. So Czxid, Mzxid, Pzxid, Version
// and every other number of two Stats compare within one history only. So do tokens. Equal numbers
// of two histories may stand for different data, and a lower number may be the newer one. Compare
// the data then.
//
//	history := client.History()
//	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
//	if client.History() != history {
//		// The read may be of either: read again.
//	}
//	isKnown := stat.Mzxid == known.mzxid
//	if history != known.history {
//		isKnown = bytes.Equal(data, known.data)
//	}
//
// Bind a write that depends on a read with [InHistory]. A connection that goes on with a session takes
// no call before its server has named its newest transaction. So the number has risen before a call can
// meet restored servers, and a bound call is not sent to them.
//
// The number is never 0. It rises with every id of a [Session] after the first. Within a session, a
// reconnecting client names the newest transaction that it has seen, and a server that is behind
// refuses the client. But restored servers can get past that transaction: under a leader of their
// own, or by the writes of other clients. So the number also rises when the first reply of a
// connection names a transaction of another leader than before, or an older one. It rises as well when a server has
// hung up on the client instead of answering its handshake. In most of these cases nothing was lost, which a
// comparison of the data shows.
//
// One case shows no sign. The servers come back within the session timeout, from a backup that has
// the session. Their leader has the same number as before, or there is a single server. And they
// reach the newest transaction that the client has seen before the client tries to reconnect. A
// write on condition of a version can then replace data that the client has not read. A lock of the
// same session can be held although its servers have forgotten it.
//
// When the number rises within a session, the client asks for the session's ephemeral znodes. If the
// servers have some that the session had deleted, they were restored, and the session ends with
// [ReasonSessionExpired]. Servers before ZooKeeper 3.6 and ClickHouse Keeper cannot tell.
//
// The number changes with connections only. Each new connection ends the one-shot watches, and
// brings an [EventResync] to persistent ones. So code that reads again then, and compares by this
// rule, misses nothing.
func (f *Framework) History() int64 { return f.conduit.History() }

// remind is the time between two warnings of a client that has not reached a server yet.
const remind = 10 * time.Minute

// unreached counts the attempts to connect of a client that has not had a session yet.
type unreached struct {
	mu     sync.Mutex
	failed int
	warned time.Time // zero before the first warning
}

// note counts a failure, and reports whether to warn.
func (u *unreached) note(servers int) (warn bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed++
	if u.failed < servers || !u.warned.IsZero() && time.Since(u.warned) < remind {
		return false
	}
	u.warned = time.Now()
	return true
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
		e.cfg.log.Warn("no server has completed the authentication", "servers", e.ensemble.current(), "error", f.Reason)
	default:
		e.cfg.log.Warn("no server can be reached", "servers", e.ensemble.current(), "error", f.Reason)
	}
}
