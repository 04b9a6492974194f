// SPDX-License-Identifier: Apache-2.0

package framework

import "time"

// WatchedPaths is the number of server watches that the client keeps account of.
func (f *Framework) WatchedPaths() int { return f.watches.Known() }

// ClientAddresses is what an ensemble tracker makes of a configuration.
func ClientAddresses(config string) []string { return clientAddresses(config, nil) }

// SuspendedFor makes the client believe that the machine has been suspended for as long as fn
// says.
func SuspendedFor(fn func() time.Duration) Option {
	return clientOption{"SuspendedFor", func(c *config) error {
		c.Suspended = fn
		return nil
	}}
}

// Defaults and a name that programs need not know.
const (
	DefaultMaxRequestSize      = defaultMaxRequestSize
	DefaultMaxDecompressedSize = defaultMaxDecompressedSize
	HeartbeatPrefix            = heartbeatPrefix
)

// ForgetTheTiming has the next short session warn again, as in another process.
func ForgetTheTiming() { hasWarned.Store(false) }

// JoinHeartbeat is Hold under QuorumErrorPolicy, except that it does not wait.
func (s *Session) JoinHeartbeat() (leave func()) {
	t := s.heart.join()
	return func() { s.heart.leave(t) }
}

// WhileFree is what a move to another server does.
func (s *Session) WhileFree(move func()) bool { return s.whileFree(move) }
