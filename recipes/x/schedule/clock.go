// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

// ClockTolerance is how far the clock of a process may differ from the servers' clock. Within the tolerance
// the process's clock counts. Beyond it a tick runs when both clocks say that it is due.
const ClockTolerance = 10 * time.Second

// clock is the clock of a process beside the servers' clock. It knows that from the mtime of a
// write, and from the time that has passed since, which no change of the process's clock moves.
type clock struct {
	wall     func() time.Time
	servers  time.Time // when they applied the last write
	answered time.Time // when this process knew, by the monotonic clock
}

func (c *clock) learn(mtime int64) { c.servers, c.answered = time.UnixMilli(mtime), time.Now() }

// now returns the time, and by how much the process's clock differs from the servers' if that is more than the
// tolerance: it is ahead if that is more than 0. Then the earlier clock counts, since either may be wrong, and
// nothing may run early.
func (c *clock) now() (now time.Time, out time.Duration) {
	now = c.wall().UTC()
	// The servers' time is not earlier than this, as they applied the write before the answer came.
	servers := c.servers.Add(time.Since(c.answered)).UTC()
	switch out = now.Sub(servers); {
	case now.After(servers.Add(ClockTolerance)):
		return servers, out
	case out < -ClockTolerance:
		return now, out
	default:
		return now, 0
	}
}

// latest is now by the clock that is ahead.
func (c *clock) latest() time.Time {
	now, out := c.now()
	return now.Add(max(out, -out))
}
