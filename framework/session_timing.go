package framework

import (
	"fmt"
	"sync/atomic"
	"time"
)

// The servers' timing as ZooKeeper's sample configuration has it.
const (
	DefaultTickTime  = 2 * time.Second
	DefaultSyncLimit = 5
)

// WithServerTiming sets the tickTime and syncLimit (in ticks) of the servers, which the
// client cannot ask them for. The two determine which session timeouts are safe under
// [StandardErrorPolicy]; the first hold in a shorter one logs a warning, once for each process. They
// also determine what a heartbeat under [QuorumErrorPolicy] confirms: too long a tick costs
// time, too short a tick costs safety. Default: [DefaultTickTime] and [DefaultSyncLimit].
func WithServerTiming(tickTime time.Duration, syncLimit int) Option {
	return optionFunc(func(c *config) error {
		if tickTime < time.Millisecond || syncLimit < 1 {
			return fmt.Errorf("server timing %v and %d ticks, expected 1ms or more and 1 or more", tickTime, syncLimit)
		}
		c.tick, c.syncLimit = tickTime, syncLimit
		return nil
	})
}

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
	return time.Duration(c.syncLimit+1) * c.tick * 3 / 2
}

// hasWarned is set once this process has warned of its session timeouts.
var hasWarned atomic.Bool

// warnOfTiming logs a warning if the timeout is too short for the policy, at the first hold of a
// session, once for each process. A standalone server cannot be cut off from a leader.
func (s *Session) warnOfTiming(policy ErrorPolicy) {
	if s.timing == nil || hasWarned.Load() {
		return
	}
	granted, expected := s.Timeout(), s.timing.safeTimeout()
	if policy == QuorumErrorPolicy {
		expected = 4 * s.timing.tick
	}
	if policy == SessionErrorPolicy || granted >= expected || s.timed.Swap(true) {
		return
	}
	s.heart.beats.start(func() {
		if !s.heart.beats.hasLeader() || hasWarned.Swap(true) {
			return
		}
		log := s.timing.log.With("timeout", granted, "expected", expected, "policy", policy.String(),
			"remedy", "a longer WithSessionTimeout, or WithServerTiming if the servers' timing is not the usual one")
		if policy == QuorumErrorPolicy {
			log.Warn("The session timeout is short for the error policy. Holds may end although nothing is wrong.")
			return
		}
		log.Warn("The session timeout is short for the error policy. A lock may have two holders while a server is cut off from its leader.")
	})
}
