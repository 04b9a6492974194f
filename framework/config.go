// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/logqueue"
	"github.com/gocurator/curator/internal/options"
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

// Dialer connects to a server; (*net.Dialer).DialContext is a Dialer. The context bounds
// the attempt.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

type config struct {
	conduit.Config

	ensemble       EnsembleProvider
	connectString  string // its first answer, of which are Servers
	root           chroot
	tracksEnsemble bool
	trackedAddress func(line string) string // nil for the client address in the line
	retry          retry.Policy
	logs           *logqueue.Queue // in front of the handler of Logger; nil for a logger that discards everything
	errorPolicy    ErrorPolicy
	syncLimit      int
	tls            func() *tls.Config   // nil for plain connections; a function, as fmt shows the keys in a configuration
	tracers        trace.TracerProvider // nil for none
	meters         metric.MeterProvider // nil for none
	pathAttribute  bool
	acl            ACLProvider // nil for none
	compression    CompressionProvider
	compressed     bool // see WithCompression
	noContainers   bool
	guard          string // the path of its socket, or empty
}

// queueLogs puts a queue between the client and the handler, which belongs to the program
// and may block for as long as a pipe is full.
func (c *config) queueLogs() {
	level, root := slog.LevelWarn, func() slog.Handler { return slog.Default().Handler() }
	if c.Logger != nil {
		handler := c.Logger.Handler()
		if handler == slog.DiscardHandler {
			return // no goroutine for records that go nowhere
		}
		level, root = slog.Level(math.MinInt), func() slog.Handler { return handler }
	}
	c.logs = logqueue.New(root)
	c.Logger = slog.New(c.logs.Handler(level))
}

// The servers' timing as ZooKeeper's sample configuration has it.
const (
	defaultTickTime  = 2 * time.Second
	defaultSyncLimit = 5
)

// safeTimeout is the shortest session timeout T with which StandardErrorPolicy is safe
// when a server is cut off from its leader together with its clients.
//
// A follower that is cut off disconnects its clients syncLimit ticks later. The session must
// not have expired by then. The leader last learned of the session from the answer to its
// own ping, at most half a tick before the cut. The client's ping in that answer was sent at
// most T/3 earlier, because go-zookeeper pings that often. So T - T/3 must be more than
// syncLimit + 1/2 ticks, and T more than 1.5 x (syncLimit + 1/2). A leader that is cut off
// from its followers gives up a tick later than a follower does, but a new leader begins
// with T for every session. The other half of a tick is room for delays.
func (c *config) safeTimeout() time.Duration {
	return time.Duration(c.syncLimit+1) * c.Tick * 3 / 2
}

// The keys of log records are shared with telemetry, so that the two can be joined.
const (
	logState   = "curator.state"
	logPath    = "curator.path"
	logSession = "curator.session"
	logReason  = "curator.reason"
	logServer  = "server.address" // with the port
)

// applyAll applies the options of a constructor or a verb in their order.
func applyAll[O any](opts []O, apply func(O) error) error {
	if err := options.Apply(opts, apply); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return nil
}
