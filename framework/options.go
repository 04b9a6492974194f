// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/logqueue"
	"github.com/gocurator/curator/retry"
)

// Limits and defaults. The timeouts are Curator's.
const (
	defaultSessionTimeout    = 60 * time.Second
	defaultConnectionTimeout = 15 * time.Second

	// defaultMaxRequestSize leaves a kilobyte of ZooKeeper's jute.maxbuffer of
	// 1,048,575 bytes for the server's own additions.
	defaultMaxRequestSize = 1_047_552

	// defaultMaxReplySize bounds what a server can make the client allocate at
	// once. It is above ZooKeeper's own limit because a list of many children may be
	// longer than any request.
	defaultMaxReplySize = 16 << 20

	minSessionTimeout = 100 * time.Millisecond
	maxSessionTimeout = 24 * time.Hour
)

// Option is a setting of a client, for [New] and [Connect]. [Framework.UsingNamespace] takes
// [WithCompression] only.
type Option interface {
	name() string
	apply(*config) error
}

// clientOption is an option of clients, not of views.
type clientOption struct {
	as  string
	set func(*config) error
}

func (o clientOption) name() string          { return o.as }
func (o clientOption) apply(c *config) error { return o.set(c) }

// Dialer connects to a server; (*net.Dialer).DialContext is a Dialer. The context bounds
// the attempt.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

type config struct {
	ensemble          EnsembleProvider
	connectString     string   // its first answer
	servers           []string // of that
	root              chroot
	tracksEnsemble    bool
	readOnly          bool
	suspended         func() time.Duration // nil asks the operating system
	sessionTimeout    time.Duration
	connectionTimeout time.Duration
	maxRequest        int
	maxReply          int
	retry             retry.Policy
	log               *slog.Logger    // queueLogs puts logs in front of its handler
	logs              *logqueue.Queue // nil for a logger that discards everything
	dial              Dialer
	lookup            func(ctx context.Context, host string) ([]string, error) // nil if the dialer does it
	errorPolicy       ErrorPolicy
	tick              time.Duration
	syncLimit         int
	auth              []conduit.Auth
	sasl              *conduit.SASL        // nil for none
	tls               *tls.Config          // nil for plain connections
	tracers           trace.TracerProvider // nil for none
	meters            metric.MeterProvider // nil for none
	pathAttribute     bool
	acl               ACLProvider // nil for none
	compression       CompressionProvider
	compressed        bool // see WithCompression
	noContainers      bool
}

func newConfig(connectString string, opts []Option) (config, error) {
	c := config{
		sessionTimeout:    defaultSessionTimeout,
		connectionTimeout: defaultConnectionTimeout,
		maxRequest:        defaultMaxRequestSize,
		maxReply:          defaultMaxReplySize,
		retry:             retry.ExponentialBackoff(100*time.Millisecond, 5),
		dial:              dialTCP,
		lookup:            lookUpHost,
		compression:       GzipCompressionProvider{},
		tick:              defaultTickTime,
		syncLimit:         defaultSyncLimit,
	}
	if err := applyAll(opts, func(o Option) error { return o.apply(&c) }); err != nil {
		return config{}, fmt.Errorf("framework: %w", err)
	}
	// After the options, since one of them may be the provider.
	if err := c.findEnsemble(connectString); err != nil {
		return config{}, err
	}
	for _, a := range c.auth {
		if n := len(a.Credential()); n > c.maxRequest { // whatever the order of the options
			return config{}, fmt.Errorf("framework: %w: a credential of %d bytes, expected %d at most",
				ErrInvalidOption, n, c.maxRequest)
		}
	}
	if c.tls != nil {
		c.dial = overTLS(c.dial, c.tls)
	}
	c.queueLogs()
	return c, nil
}

// queueLogs puts a queue between the client and the handler, which belongs to the program
// and may block for as long as a pipe is full.
func (c *config) queueLogs() {
	level, root := slog.LevelWarn, func() slog.Handler { return slog.Default().Handler() }
	if c.log != nil {
		handler := c.log.Handler()
		if handler == slog.DiscardHandler {
			return // no goroutine for records that go nowhere
		}
		level, root = slog.Level(math.MinInt), func() slog.Handler { return handler }
	}
	c.logs = logqueue.New(root)
	c.log = slog.New(c.logs.Handler(level))
}

// applyAll applies the options of a constructor or a verb in their order.
func applyAll[O any](opts []O, apply func(O) error) error {
	for _, o := range opts {
		if any(o) == nil {
			return fmt.Errorf("%w: a nil option", ErrInvalidOption)
		}
		if err := apply(o); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidOption, err)
		}
	}
	return nil
}

// WithSessionTimeout requests a session timeout from 100 ms to 24 h. The server may grant
// another, see [Session.Timeout]. Default: 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return clientOption{"WithSessionTimeout", func(c *config) error {
		if d < minSessionTimeout || d > maxSessionTimeout {
			return fmt.Errorf("session timeout %v, expected %v to %v", d, minSessionTimeout, maxSessionTimeout)
		}
		c.sessionTimeout = d
		return nil
	}}
}

// WithConnectionTimeout bounds how long one try of a request waits for a connection before
// it fails with [ErrNotConnected], which the retry policy may retry. It also bounds one
// attempt to connect. Default: 15 s.
func WithConnectionTimeout(d time.Duration) Option {
	return clientOption{"WithConnectionTimeout", func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("connection timeout %v, expected more than 0", d)
		}
		c.connectionTimeout = d
		return nil
	}}
}

// WithRetryPolicy sets the policy that determines whether and when a request that failed
// with a [Retryable] error is repeated. Default: exponential backoff from 100 ms, five
// retries.
func WithRetryPolicy(p retry.Policy) Option {
	return clientOption{"WithRetryPolicy", func(c *config) error {
		if p == nil {
			return fmt.Errorf("retry policy nil, expected a policy such as retry.None()")
		}
		c.retry = p
		return nil
	}}
}

// WithErrorPolicy sets which trouble ends the holds of recipes. Default:
// [StandardErrorPolicy].
func WithErrorPolicy(p ErrorPolicy) Option {
	return clientOption{"WithErrorPolicy", func(c *config) error {
		c.errorPolicy = p
		return p.validate()
	}}
}

// The keys of log records are shared with telemetry, so that the two can be joined.
const (
	logState   = string(keyState)
	logPath    = string(keyPath)
	logSession = "curator.session"
	logReason  = "curator.reason"
	logServer  = string(keyServer) // with the port
)

// WithLogger sets the logger of the client and its recipes. Levels: Debug for
// go-zookeeper's messages, Info for changes of state, Warn for a lost connection or
// session, Error for lost holds and for panics. The keys are shared with telemetry:
// curator.state, curator.session, curator.reason, curator.path, curator.fence,
// server.address (with the port), and "error". Paths are logged; data and secrets are not.
// Default: slog.Default from Warn up. slog.New(slog.DiscardHandler) silences the client.
//
// The logger's handler runs on a goroutine of its own, behind a queue of 1,024 records. A
// handler that is slow, blocks or panics loses records, and delays neither the client nor
// the end of a hold. Lost records are counted, and reported when the handler works again.
// [Framework.Close] waits at most half a second for the queue.
func WithLogger(log *slog.Logger) Option {
	return clientOption{"WithLogger", func(c *config) error {
		if log == nil {
			return fmt.Errorf("logger nil, expected a *slog.Logger")
		}
		c.log = log
		return nil
	}}
}

// dialTCP connects to the server's address that the attempt is for, if one was looked up.
func dialTCP(ctx context.Context, network, server string) (net.Conn, error) {
	if address := conduit.Address(ctx); address != "" {
		server = address
	}
	return new(net.Dialer).DialContext(ctx, network, server)
}

func lookUpHost(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

// WithDialer sets the function that connects to servers. It receives host names as they
// stand in the connection string. A panic fails the attempt. The client stays disconnected
// until the function returns, even after the attempt's context has ended. Default: TCP; the
// client looks host names up at every attempt, and tries their addresses one by one in
// random order.
func WithDialer(dial Dialer) Option {
	return clientOption{"WithDialer", func(c *config) error {
		if dial == nil {
			return fmt.Errorf("dialer nil, expected a function")
		}
		c.lookup = nil
		c.dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			defer func() {
				if recovered := recover(); recovered != nil { // it would end the connecting goroutine
					conn, err = nil, fmt.Errorf("the dialer panicked: %v", recovered)
				}
			}()
			conn, err = dial(ctx, network, address)
			if err == nil && conn == nil {
				err = errors.New("the dialer has returned neither a connection nor an error")
			}
			return conn, err
		}
		return nil
	}}
}

// WithMaxRequestSize sets the largest request in bytes. A larger one fails with
// [ErrTooLarge] and is not sent: a server would cut the connection, and with it all other
// requests under way. Raise the limit only together with jute.maxbuffer at every server.
// The client keeps to it in requests of its own. Default: 1,047,552.
func WithMaxRequestSize(n int) Option {
	return clientOption{"WithMaxRequestSize", func(c *config) error {
		if n < 1<<10 {
			return fmt.Errorf("maximal request size %d, expected 1024 or more", n)
		}
		c.maxRequest = n
		return nil
	}}
}

// WithMaxReplySize sets the largest reply in bytes. The call of a larger one fails with
// [ErrTooLarge], and the client skips the reply. It cuts the connection if the reply is
// larger than both this limit and 64 MiB. [WithReplyLimit] accepts a longer list from one
// read. Default: 16 MiB.
func WithMaxReplySize(n int) Option {
	return clientOption{"WithMaxReplySize", func(c *config) error {
		if n < 1<<10 {
			return fmt.Errorf("maximal reply size %d, expected 1024 or more", n)
		}
		c.maxReply = n
		return nil
	}}
}
