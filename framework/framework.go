package framework

import (
	"context"
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
	base     *Framework // the one that is not a view
	watches  *watching.Registry
	janitor  *janitor.Janitor
	searches *searching.Searches

	noContainers atomic.Bool // parents are persistent nodes: asked for, or a server has no others
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
		if ctx != nil && ctx.Err() != nil && f.usable() == nil {
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

// TracerProvider returns the provider given to [WithTracerProvider], or one that does
// nothing, for recipes on the client. It is never nil.
func (f *Framework) TracerProvider() trace.TracerProvider {
	return f.cfg.tracerProvider()
}

// MeterProvider returns the provider given to [WithMeterProvider], or one that does
// nothing, for recipes on the client. It is never nil.
func (f *Framework) MeterProvider() metric.MeterProvider {
	return f.cfg.meterProvider()
}

// HasTelemetry reports whether the client has a tracer or meter provider. Without one,
// recipes need not measure anything.
func (f *Framework) HasTelemetry() bool { return f.telemetry != nil }

// HasPathAttribute reports whether the client was made [WithPathAttribute].
func (f *Framework) HasPathAttribute() bool { return f.cfg.pathAttribute }

// ServerAttributes returns the attributes server.address and server.port of the
// newest connection, for spans of recipes; nil for a client without telemetry, and
// before the first connection.
func (f *Framework) ServerAttributes() []attribute.KeyValue {
	if f.telemetry == nil {
		return nil
	}
	return slices.Clone(*f.telemetry.server.Load())
}
