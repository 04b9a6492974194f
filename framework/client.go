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

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

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
	connecting   atomic.Bool // Connect is under way
	unreached    unreached
	heartbeats   atomic.Int64 // see sessionOwner

	mu       sync.Mutex    // guards what follows, and orders Start and Close
	closing  chan struct{} // not nil once Close has begun, closed when it is done
	closeErr error
}

// BlockUntilConnected blocks until there is a connection with a session, and returns nil.
// It returns an error when the context or the client ends first ([ErrClosed],
// [ErrAuthFailed]), and at once before Start ([ErrNotStarted]).
func (f *Framework) BlockUntilConnected(ctx context.Context) error {
	if err := f.awaitConnection(ctx, 0); err != nil {
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
func (f *Framework) MaxRequestSize() int { return f.cfg.MaxRequest }

// Servers returns the servers of the next attempt to connect, as host:port. They come from
// the connection string, or from [WithEnsembleProvider] or [WithEnsembleTracker].
func (f *Framework) Servers() []string { return f.ensemble.current() }

// Dialer returns the dialer with which the client connects to servers: the argument of
// [WithDialer] or TCP, with TLS on top if there is [WithTLS]. It is for additional
// connections, for instance to send a four-letter word to one server. The caller must close
// them.
func (f *Framework) Dialer() Dialer { return f.cfg.Dial }

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
func (f *Framework) Logger() *slog.Logger { return f.cfg.Logger }

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
		TracerProvider: f.cfg.tracers, MeterProvider: f.cfg.meters,
		PathAttribute: f.cfg.pathAttribute, Server: slices.Clone(*f.telemetry.server.Load()),
	}, true
}

var errView = errors.New("it is a view: the client that it was made from is started and closed")

// UsingNamespace returns a view of this client whose paths are all below
// /namespace, in arguments, results and events: the view's /a is the client's
// /namespace/a. A namespace is a name, or several with slashes between them, such as "shop/orders".
// It is Curator's usingNamespace. As there, namespaces do not nest: a view of a view is a view of the
// whole client.
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
	if err := f.base.checkNamespace(namespace); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w: %w", namespace, ErrInvalidPath, err)
	}
	view := &Framework{f.client, f.cfg.root + chroot(path), f.base.compressed}
	err := applyAll(opts, func(o Option) error {
		if o.name() != nameOfCompression {
			return fmt.Errorf("%s is an option of clients, expected one of views: WithCompression", o.name())
		}
		view.compressed = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	return view, nil
}

// checkNamespace says what is wrong with a namespace, as its caller has written it.
func (f *Framework) checkNamespace(namespace string) error {
	switch {
	case namespace == "":
		return errors.New("it is empty, expected a name; WithoutNamespace returns the whole client")
	case namespace[0] == '/':
		return errors.New("it begins with a slash, expected names such as \"orders\" or \"shop/orders\"")
	case isReserved(f.FullPath("/" + namespace)): // checked now, or each write of the view would fail for this reason
		return errors.New(reserved + " is ZooKeeper's own")
	default:
		return checkNames(namespace, 0)
	}
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
