// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"
)

// Option changes a setting of a server that is being started.
type Option interface {
	apply(*config) error
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// plain returns an option that cannot be refused.
func plain(set func(*config)) Option { return option(true, set, "") }

// option returns an option that is refused with the text unless its argument is valid.
func option(valid bool, set func(*config), refusal string, args ...any) Option {
	return optionFunc(func(c *config) error {
		if !valid {
			return fmt.Errorf(refusal, args...)
		}
		set(c)
		return nil
	})
}

type config struct {
	addr           string
	listen         bool
	tick           time.Duration
	syncLimit      int           // ticks that servers of an ensemble wait for each other
	observers      int           // of an ensemble
	minTimeout     time.Duration // 0: 2 ticks
	maxTimeout     time.Duration // 0: 20 ticks
	containerCheck time.Duration
	maxFrame       int
	maxClients     int // connections from one address, 0 for no limit
	maxQueued      int // how many bytes may wait for a client that does not read before its connection is cut
	maxMemory      int // bytes for all connections together
	version        serverVersion
	log            *slog.Logger
	secure         func(net.Conn) net.Conn // wraps connections in TLS; nil for plain ones
	superDigest    string                  // empty for no super user
	saslUsers      map[string]string       // passwords; nil for no SASL
	saslRequired   bool
	keeper         bool // as WithKeeper says
	reconfig       bool // reconfig is allowed, for which it takes more than one server
}

const defaultSyncLimit = 2 // ticks, as the real ensembles of this module

func newConfig(opts []Option) (config, error) {
	c := config{
		addr:           defaultAddr,
		syncLimit:      defaultSyncLimit,
		listen:         true,
		tick:           500 * time.Millisecond,
		containerCheck: time.Minute,
		maxFrame:       0xfffff,
		maxQueued:      64 << 20,
		maxMemory:      256 << 20,
		version:        serverVersion{3, 8, 0},
		log:            slog.New(slog.DiscardHandler),
	}
	for i, o := range opts {
		if o == nil {
			return config{}, fmt.Errorf("zkserver: option %d of %d is nil", i+1, len(opts))
		}
		if err := o.apply(&c); err != nil {
			return config{}, fmt.Errorf("zkserver: %w", err)
		}
	}
	if c.minTimeout == 0 {
		c.minTimeout = 2 * c.tick
	}
	if c.maxTimeout == 0 {
		c.maxTimeout = 20 * c.tick
	}
	if c.minTimeout > c.maxTimeout {
		return config{}, fmt.Errorf("zkserver: smallest session timeout %v is above the largest %v", c.minTimeout, c.maxTimeout)
	}
	return c, nil
}

// defaultAddr is a free port of the loopback interface.
const defaultAddr = "127.0.0.1:0"

// WithAddr sets the TCP address to listen on. Port 0 means a free port outside the range of outgoing connections, which would
// take it while the server is stopped. Defaults to 127.0.0.1:0.
func WithAddr(addr string) Option {
	return plain(func(c *config) { c.addr = addr })
}

// WithoutListener starts a server that listens nowhere: it serves connections from [Server.Dial] and
// [Server.ServeConn]. A listener would keep the fake clock of testing/synctest from advancing.
func WithoutListener() Option {
	return plain(func(c *config) { c.listen = false })
}

// WithTick sets tickTime, the unit of session timeouts: they are bounded by 2 and 20 ticks, and a session expires up to
// one tick later than its timeout says. Defaults to 500 ms, not ZooKeeper's 2 s, because tests wait for expiries. At
// least 1 ms.
func WithTick(d time.Duration) Option {
	return option(d >= time.Millisecond, func(c *config) { c.tick = d }, "tick of %v: at least 1ms expected", d)
}

// WithSyncLimit sets after how many ticks without its leader a server of an [Ensemble] gives it up, and a leader a server, as
// syncLimit does. A server that is cut off goes on answering for that long. Defaults to 2. At least 1.
func WithSyncLimit(ticks int) Option {
	return option(ticks >= 1, func(c *config) { c.syncLimit = ticks }, "sync limit of %d ticks: at least 1 expected", ticks)
}

// WithObservers adds observers to an [Ensemble], at most 3. They follow the leader, serve reads and pass writes on to the leader
// as followers do. They have no vote: they count for no majority and are never elected.
func WithObservers(n int) Option {
	return option(n >= 0 && n <= 3, func(c *config) { c.observers = n }, "%d observers: 0 to 3 expected", n)
}

// WithSessionTimeouts sets the bounds that requested session timeouts are moved into, as minSessionTimeout and
// maxSessionTimeout do. Zero keeps the default, 2 ticks and 20 ticks.
func WithSessionTimeouts(smallest, largest time.Duration) Option {
	return optionFunc(func(c *config) error {
		for _, d := range []time.Duration{smallest, largest} {
			if d < 0 || d > math.MaxInt32*time.Millisecond {
				return fmt.Errorf("session timeout bound of %v: 0 to %v expected", d, math.MaxInt32*time.Millisecond)
			}
		}
		c.minTimeout, c.maxTimeout = smallest, largest
		return nil
	})
}

// WithContainerCheckInterval sets how often empty containers and outdated TTL nodes are looked for and removed.
// Defaults to one minute, as in ZooKeeper.
func WithContainerCheckInterval(d time.Duration) Option {
	return option(d > 0, func(c *config) { c.containerCheck = d }, "container check interval of %v: more than 0 expected", d)
}

// WithMaxFrame sets the size in bytes of the largest request, as jute.maxbuffer does; a larger one costs its sender the
// connection. Defaults to 0xfffff, just below 1 MiB.
func WithMaxFrame(n int) Option {
	return option(0 < n && n <= math.MaxInt32, func(c *config) { c.maxFrame = n },
		"largest frame of %d bytes: 1 to %d expected", n, math.MaxInt32)
}

// WithMaxMemory bounds the bytes of memory that the server keeps for all connections together: requests that have
// arrived in part, answers that clients have not read, watches and identities. Above the bound, the connection
// that holds the most is cut; its client can come back with its session. Every connection counts for at least 24
// KiB, and a session for 800 bytes until it ends. Sessions take at most half of the memory; a client that asks for
// another one is hung up on. The data of znodes is not bounded. Defaults to 256 MiB. At least 1 MiB.
func WithMaxMemory(n int) Option {
	return option(n >= 1<<20, func(c *config) { c.maxMemory = n }, "memory of %d bytes for connections: 1 MiB or more expected", n)
}

// WithMaxClientConnections sets how many connections one address may have, as maxClientCnxns does; further ones are closed
// as soon as they are made. Zero, the default, is no limit: ZooKeeper's is 60, but all clients of a test have the same
// address.
func WithMaxClientConnections(n int) Option {
	return option(n >= 0, func(c *config) { c.maxClients = n }, "%d connections from one address: 0 or more expected", n)
}

// WithVersion sets the version that the server claims in its four-letter words, such as "3.5.10", and the requests
// it knows: a request that a later version introduced costs the connection. Before 3.6, sequence numbers go on at
// -2147483648 after 2147483647; since 3.6 they stay there. Defaults to 3.8.0.
func WithVersion(version string) Option {
	v, err := parseVersion(version)
	return option(err == nil, func(c *config) { c.version = v }, "%w", err)
}

// WithReconfigEnabled answers reconfig as a standalone server with reconfigEnabled=true does: with -6
// (unimplemented), since there is no ensemble to change. Without the option the answer is -123 (reconfig is
// disabled).
func WithReconfigEnabled() Option {
	return plain(func(c *config) { c.reconfig = true })
}

// WithLogger sets the logger for connections, sessions and their ends. By default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return option(log != nil, func(c *config) { c.log = log }, "nil logger: leave the option out for silence")
}
