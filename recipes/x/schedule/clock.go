// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

// ClockTolerance is how far the clock of a process may differ from the servers' clock. The process
// counts with its clock within this tolerance, and with the servers' clock and the tolerance beyond.
const ClockTolerance = 10 * time.Second

// clock is the clock of a process, bound by the servers' clock. It knows that from the mtime of a
// write, and from the time that has passed since, which no change of the process's clock moves.
type clock struct {
	wall     func() time.Time
	servers  time.Time // when they applied the last write
	answered time.Time // when this process knew, by the monotonic clock
}

func (c *clock) learn(mtime int64) { c.servers, c.answered = time.UnixMilli(mtime), time.Now() }

// now returns the time, and by how much the process's clock is out of the tolerance: it is ahead if
// that is more than 0.
func (c *clock) now() (now time.Time, out time.Duration) {
	now = c.wall().UTC()
	// The servers' time is not earlier than this, as they applied the write before the answer came.
	servers := c.servers.Add(time.Since(c.answered)).UTC()
	earliest, latest := servers.Add(-ClockTolerance), servers.Add(ClockTolerance)
	switch {
	case now.After(latest):
		return latest, now.Sub(latest)
	case now.Before(earliest):
		return earliest, now.Sub(earliest)
	default:
		return now, 0
	}
}
