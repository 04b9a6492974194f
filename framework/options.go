// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/internal/secrets"
	"github.com/gocurator/curator/internal/usercode"
	"github.com/gocurator/curator/retry"
)

// Option is a setting of a client, for [New] and [Connect]. [Framework.UsingNamespace] takes
// [WithCompression] only.
type Option interface {
	name() string
	apply(*config) error
}

type clientOption struct {
	as  string
	set func(*config) error
}

func (o clientOption) name() string          { return o.as }
func (o clientOption) apply(c *config) error { return o.set(c) }

// option returns an option that is refused with the text unless its argument is valid.
func option(name string, valid bool, set func(*config), refusal string, args ...any) Option {
	return clientOption{name, options.Checked(valid, set, refusal, args...)}
}

// plain returns an option that cannot be refused.
func plain(name string, set func(*config)) Option { return option(name, true, set, "") }

func newConfig(connectString string, opts []Option) (config, error) {
	c := config{
		Config: conduit.Config{
			SessionTimeout: defaultSessionTimeout, ConnectTimeout: defaultConnectionTimeout,
			MaxRequest: defaultMaxRequestSize, MaxReply: defaultMaxReplySize,
			Dial: dialTCP, Lookup: lookUpHost, Tick: defaultTickTime,
		},
		retry:       retry.ExponentialBackoff(100*time.Millisecond, 5),
		compression: GzipCompressionProvider{},
		syncLimit:   defaultSyncLimit,
	}
	if err := applyAll(opts, func(o Option) error { return o.apply(&c) }); err != nil {
		return config{}, fmt.Errorf("framework: %w", err)
	}
	// After the options, since one of them may be the provider.
	if err := c.findEnsemble(connectString); err != nil {
		return config{}, err
	}
	switch {
	case c.Resume != nil:
		c.guard = "" // the client is a guard
	case c.guard == "":
		c.guard = os.Getenv(guarding.Env)
	}
	for _, a := range c.Auth {
		if err := c.fitsAuth(a); err != nil { // whatever the order of the options
			return config{}, fmt.Errorf("framework: %w", err)
		}
	}
	if c.tls != nil {
		c.Dial = overTLS(c.Dial, c.tls())
	}
	c.queueLogs()
	return c, nil
}

// WithSessionTimeout requests a session timeout from 100 ms to 24 h. The server may grant
// another, see [Session.Timeout]. Default: 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return option("WithSessionTimeout", minSessionTimeout <= d && d <= maxSessionTimeout, func(c *config) { c.SessionTimeout = d },
		"session timeout %v, expected %v to %v", d, minSessionTimeout, maxSessionTimeout)
}

// WithConnectionTimeout bounds how long one try of a request waits for a connection before
// it fails with [ErrNotConnected], which the retry policy may retry. It also bounds one
// attempt to connect. Default: 15 s.
func WithConnectionTimeout(d time.Duration) Option {
	return option("WithConnectionTimeout", d > 0, func(c *config) { c.ConnectTimeout = d },
		"connection timeout %v, expected more than 0", d)
}

// WithRetryPolicy sets the policy that determines whether and when a request that failed
// with a [Retryable] error is repeated. Default: exponential backoff from 100 ms, five
// retries.
func WithRetryPolicy(p retry.Policy) Option {
	return clientOption{"WithRetryPolicy", func(c *config) error {
		if options.IsNil(p) {
			return fmt.Errorf("retry policy nil, expected a policy such as retry.None()")
		}
		if err := retry.Validate(p); err != nil {
			return err
		}
		c.retry = p
		return nil
	}}
}

// WithErrorPolicy sets which trouble ends the holds of recipes. Default:
// [StandardErrorPolicy].
func WithErrorPolicy(p ErrorPolicy) Option {
	return option("WithErrorPolicy", p.validate() == nil, func(c *config) { c.errorPolicy = p }, "%w", p.validate())
}

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
	return option("WithLogger", log != nil, func(c *config) { c.Logger = log }, "logger nil, expected a *slog.Logger")
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
// stand in the connection string. A panic or runtime.Goexit fails the attempt. The client stays disconnected
// until the function returns, even after the attempt's context has ended. Default: TCP; the
// client looks host names up at every attempt, and tries their addresses one by one in
// random order.
func WithDialer(dial Dialer) Option {
	guarded := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if p := usercode.Apart(func() { conn, err = dial(ctx, network, address) }); p != nil { // it would end the connecting goroutine
			return nil, fmt.Errorf("the dialer panicked: %v", p.Value)
		}
		if err == nil && conn == nil {
			err = errors.New("the dialer has returned neither a connection nor an error")
		}
		return conn, err
	}
	return option("WithDialer", dial != nil, func(c *config) { c.Dial, c.Lookup = guarded, nil }, "dialer nil, expected a function")
}

// WithMaxRequestSize sets the largest request in bytes. A larger one fails with
// [ErrTooLarge] and is not sent: a server would cut the connection, and with it all other
// requests under way. Raise the limit only together with jute.maxbuffer at every server.
// The client keeps to it in requests of its own. Default: 1,047,552.
func WithMaxRequestSize(n int) Option {
	return option("WithMaxRequestSize", n >= 1<<10, func(c *config) { c.MaxRequest = n },
		"maximal request size %d, expected 1024 or more", n)
}

// WithMaxReplySize sets the largest reply in bytes. The call of a larger one fails with
// [ErrTooLarge], and the client skips the reply. It cuts the connection if the reply is
// larger than both this limit and 64 MiB. [WithReplyLimit] gives one read of a list another
// limit. Default: 16 MiB.
func WithMaxReplySize(n int) Option {
	return option("WithMaxReplySize", n >= 1<<10, func(c *config) { c.MaxReply = n },
		"maximal reply size %d, expected 1024 or more", n)
}

// WithEnsembleProvider sets the provider of the servers' addresses. The connection string
// given to [New] must then be empty. Default: [FixedEnsembleProvider] of that string.
func WithEnsembleProvider(p EnsembleProvider) Option {
	return option("WithEnsembleProvider", !options.IsNil(p), func(c *config) { c.ensemble = p },
		"ensemble provider nil, expected one such as FixedEnsembleProvider")
}

// findEnsemble asks the provider for the first time.
func (c *config) findEnsemble(connectString string) (err error) {
	switch {
	case c.ensemble == nil:
		c.ensemble = FixedEnsembleProvider(connectString)
	case connectString != "":
		return fmt.Errorf("framework: %w: connection string %q together with WithEnsembleProvider, expected an empty one",
			ErrInvalidOption, connectString)
	}
	switch {
	case c.trackedAddress != nil && !c.tracksEnsemble:
		return fmt.Errorf("framework: %w: WithTrackedAddress without WithEnsembleTracker, expected both", ErrInvalidOption)
	// Following plain ports would take every connection out of TLS.
	case c.tracksEnsemble && c.tls != nil && c.trackedAddress == nil:
		return fmt.Errorf("framework: %w: WithEnsembleTracker together with WithTLS: the configuration names the servers' plain ports, "+
			"expected WithTrackedAddress, too", ErrInvalidOption)
	}
	c.connectString = c.ensemble.ConnectionString()
	c.Servers, c.root, err = parseConnectString(c.connectString)
	return err
}

// WithEnsembleTracker makes the client follow the ensemble's own configuration. The client reads and
// watches /zookeeper/config on every connection. From then on it connects to the servers named
// there, until the [EnsembleProvider] changes its answer. The chroot stays. It is Curator's
// EnsembleTracker, but off by default: servers may advertise addresses that clients cannot reach.
//
// The address of a server is the part of its line after the semicolon. A wildcard in it means the
// host at the beginning of the line. Lines without a client port are skipped. The configuration is
// ignored if the server is standalone, or if only one of several servers lists a client port.
// Servers show the latter when zoo.cfg has clientPort outside of the server lines, and the listed
// one is the leader.
//
// The client needs permission to read /zookeeper/config, which all clients have by default.
// Tracking costs a read and a watch per connection. With [WithTLS] it needs [WithTrackedAddress],
// because the configuration names plain ports.
func WithEnsembleTracker() Option {
	return plain("WithEnsembleTracker", func(c *config) { c.tracksEnsemble = true })
}

// WithTrackedAddress sets which address [WithEnsembleTracker] takes from a line of the configuration,
// such as the one of the secure port. address gets what stands behind "server.1=", such as
// "zk1:2888:3888:participant;0.0.0.0:2181", and returns "zk1:2281", or "" to leave the server out. An
// address that does not parse is left out, too. A function that panics leaves the servers as they
// are. Default: the client address in the line.
func WithTrackedAddress(address func(line string) string) Option {
	return option("WithTrackedAddress", address != nil, func(c *config) { c.trackedAddress = address },
		"function nil, expected one from a server's line to its address")
}

// WithoutContainerParents makes the client and its recipes create parents as persistent
// znodes instead of containers, for servers that have no containers. Such parents stay after
// their last child has been deleted. It is Curator's dontUseContainerParents. Default: containers,
// except at ClickHouse Keeper before 26.7, until a server answers that it does not know them, or
// has hung up at them three times in a row.
func WithoutContainerParents() Option {
	return plain("WithoutContainerParents", func(c *config) { c.noContainers = true })
}

// WithGuard registers each session of the client with a guard (see curatorctl guard), by the path of its
// socket. If this process ends without [Framework.Close], the guard ends the session, and all that the
// session holds, within milliseconds instead of the session timeout. It never ends the session of a process
// that lives. Guards need Linux.
//
// The client registers a session before it sends the first request in it, and withdraws the registration at
// Close. A guard that does not answer within a second makes no call fail. The client then goes on without it, logs one
// warning, and registers the session as soon as the guard is back.
//
// Default: the path in the environment variable CURATOR_GUARD, which curatorctl guard sets for its command. Without
// one there is no guard.
func WithGuard(path string) Option {
	err := guarding.CheckPath(path)
	return option("WithGuard", err == nil, func(c *config) { c.guard = path }, "%w", err)
}

// WithACLProvider sets the provider of the access control lists of new znodes without
// [WithACL]. Default: every client may do everything.
func WithACLProvider(p ACLProvider) Option {
	return option("WithACLProvider", !options.IsNil(p), func(c *config) { c.acl = p },
		"ACL provider nil, expected one")
}

// WithCompressionProvider sets the provider that [Compressed], [Decompressed] and [WithCompression] use.
// Default: [GzipCompressionProvider].
func WithCompressionProvider(p CompressionProvider) Option {
	return option("WithCompressionProvider", !options.IsNil(p), func(c *config) { c.compression = p },
		"compression provider nil, expected one")
}

// WithCompression stores the data of all znodes compressed and decompresses all data, as with
// [Compressed] and [Decompressed] at each call. [Uncompressed] and [Undecompressed] exempt one call.
// It is an option of a client, and of a view with [Framework.UsingNamespace], whose client may be
// without it. A view of a client with it has it too. Default: off. It is Curator's
// enableCompression, since version 5.8.
//
// As in Curator it applies to recipes too. Locks, elections, values, queues, caches and services
// then read and write all data compressed, even empty data. So all programs that share such znodes
// must have it, or none. A fleet that runs goes over with a provider that reads both forms; see the example of
// [WithCompressionProvider]. A contender, participant or item that is not compressed fails no call that also concerns
// others: locks and elections wait for such a contender, and queues leave such an item out. What ZooKeeper itself
// writes, such as [Framework.Config], and parents that are created on the way are not compressed.
func WithCompression() Option {
	return option(nameOfCompression, true, func(c *config) { c.compressed = true }, "")
}

// nameOfCompression is the name of the only option that views take.
const nameOfCompression = "WithCompression"

// WithTLS encrypts every connection; the connection string must name the servers'
// secureClientPort. The handshake is part of the attempt to connect, and bounded with it. An
// empty ServerName means each server's host as in the connection string. The configuration
// is copied. For settings that change while the client runs, such as a renewed client
// certificate, use its callbacks (GetClientCertificate), which every connection calls.
//
// A call that waits for a connection includes the failure of the newest attempt in its
// error. [errors.As] finds it there, for instance a [*tls.CertificateVerificationError].
// With [WithDialer], TLS runs on the dialer's connections.
func WithTLS(cfg *tls.Config) Option {
	cfg = cfg.Clone()
	return option("WithTLS", cfg != nil, func(c *config) { c.tls = func() *tls.Config { return cfg } },
		"TLS configuration nil, expected a *tls.Config")
}

// WithAuth presents a credential to every server, on every connection, before any
// request of the client is processed. For scheme "digest" the credential is
// "user:password"; other schemes need a provider at the servers. Several WithAuth add
// several identities. [Framework.SetAuth] changes them while the client runs. The credential is copied, and never appears in a log, an error or
// the output of fmt. It is Curator's authorization.
//
// A credential is not encrypted: without [WithTLS] it crosses the network in the clear.
//
// If all servers refuse a credential, the client ends, because no later attempt could succeed. The
// state becomes [Lost], all holds end with [ReasonAuthFailed], and every watch ends. Every call
// fails with [ErrAuthFailed], and the client makes no further connection. The addresses of one name are
// several servers. A client that was served before goes on until all have refused it for as long as a
// session lasts: a server may have started with half of its configuration. ZooKeeper refuses a scheme
// without a provider, but never a digest. A wrong password shows only as an [ErrNoAuth] from a znode
// that requires the right one.
func WithAuth(scheme string, credential []byte) Option {
	auth := conduit.Auth{Scheme: scheme, Credential: secrets.Hide(credential)}
	valid, refusal := scheme != "", `auth scheme "", expected one such as "digest"`
	if scheme == "digest" && !bytes.Contains(credential, []byte(":")) { // or the identity would have no password
		valid, refusal = false, "digest credential without a colon, expected user:password"
	}
	return option("WithAuth", valid, func(c *config) { c.Auth = append(c.Auth, auth) }, "%s", refusal)
}

// fitsAuth refuses a credential at which every server would cut the connection.
func (c *config) fitsAuth(a conduit.Auth) error {
	if n := len(a.Scheme) + len(a.Credential()); n > c.MaxRequest {
		return fmt.Errorf("%w: scheme and credential of %d bytes, expected %d at most", ErrInvalidOption, n, c.MaxRequest)
	}
	return nil
}

// WithSASL authenticates every connection by SASL, before any other request of the client leaves.
// The client counts as connected only when the exchange is complete. Only one mechanism can be
// given; credentials of [WithAuth] follow it. Servers need a JAAS section and the provider
// SASLAuthenticationProvider, see SERVERS.md.
//
// The exchange takes two thirds of the session timeout at most. Then the client connects to the next
// server. During the exchange pings keep the session, unless the server accepts none before the
// exchange is complete.
//
// [Connect] returns [ErrAuthFailed] once all servers have refused the client, and at once if the mechanism has no
// credentials. A client that runs ends as after the refusal of a credential (see [WithAuth]). If the credentials
// may change (see [SASLMechanism].Renews) it does not end, and tries again with growing pauses of up
// to 30 s. A server that does not know SASL has refused all credentials. Each reason is logged once, and never a secret.
func WithSASL(mechanism SASLMechanism) Option {
	return clientOption{"WithSASL", func(c *config) error {
		switch {
		case options.IsNil(mechanism):
			return errors.New("SASL mechanism nil, expected one such as framework.DigestMD5(user, password)")
		case c.SASL != nil:
			return fmt.Errorf("SASL mechanisms %s and %s, expected one", c.SASL.Mechanism, mechanism.Name())
		}
		if mechanism, ok := mechanism.(interface{ validate() error }); ok {
			if err := mechanism.validate(); err != nil {
				return err
			}
		}
		c.SASL = &conduit.SASL{Mechanism: mechanism.Name(), Renews: mechanism.Renews(), Start: startSASL(mechanism)}
		return nil
	}}
}

// WithServerTiming sets the tickTime and syncLimit (in ticks) of the servers, which the
// client cannot ask them for. The two determine which session timeouts are safe under
// [StandardErrorPolicy]; the first hold in a shorter one logs a warning, once for each process. They
// also determine what a heartbeat under [QuorumErrorPolicy] confirms: too long a tick costs
// time, too short a tick costs safety. Together they are 24 h at most. Default: 2 s
// and 5 ticks, as in ZooKeeper's sample configuration.
func WithServerTiming(tickTime time.Duration, syncLimit int) Option {
	// No session timeout would be safe with more than the longest one together.
	valid := tickTime >= time.Millisecond && syncLimit >= 1 && syncLimit <= int(maxSessionTimeout/tickTime)
	return option("WithServerTiming", valid, func(c *config) { c.Tick, c.syncLimit = tickTime, syncLimit },
		"server timing %v and %d ticks, expected 1ms or more and 1 or more, together at most %v", tickTime, syncLimit, maxSessionTimeout)
}

// WithReadOnly lets the client use a server that has lost its quorum. Such a server must be
// started with the system property readonlymode.enabled=true and, because ZooKeeper 3.8
// otherwise opens no sessions in that mode, with localSessionsEnabled=true in zoo.cfg. It is
// Curator's canBeReadOnly. Default: the client uses only servers with a quorum.
//
// On such a server the state is [ReadOnly]. Reads return what the server knew last: other
// clients may have changed it since, and it may include writes that were never committed. A recipe
// that only reads, such as the wait at a barrier, decides by that.
// Writes fail at once with [ErrNotReadOnly], whatever the retry policy; a [Guaranteed]
// delete goes on in the background. The client keeps looking for a server with a quorum, by
// the four-letter word isro, and is [Connected] or [Reconnected] there.
//
// The client never presents a quorum session to a read-only server, which cannot know whether the
// session still exists. So a client that loses the quorum is first [Suspended], then [Lost], and
// then ReadOnly. Every connection made after the session's deadline opens a new session. The servers
// may keep the old session, and its ephemeral nodes, until it times out.
func WithReadOnly() Option {
	return plain("WithReadOnly", func(c *config) { c.ReadOnly = true })
}

// WithTracerProvider makes the client and its recipes record spans; the package
// documentation lists them. Default: no spans. OpenTelemetry's global provider is used only
// if it is given here.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option("WithTracerProvider", !options.IsNil(p), func(c *config) { c.tracers = p },
		"tracer provider nil, expected a trace.TracerProvider")
}

// WithMeterProvider makes the client and its recipes record metrics; the package
// documentation lists the instruments. Default: no metrics. OpenTelemetry's global provider
// is used only if it is given here.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option("WithMeterProvider", !options.IsNil(p), func(c *config) { c.meters = p },
		"meter provider nil, expected a metric.MeterProvider")
}

// WithPathAttribute adds the attribute curator.path to all spans, and to the metrics of
// recipes, with the path that the recipe was made for. The metrics of single requests never
// have it, because sequential names are unbounded. Default: off, because paths may be
// confidential and each path is a time series of its own.
func WithPathAttribute() Option {
	return plain("WithPathAttribute", func(c *config) { c.pathAttribute = true })
}
