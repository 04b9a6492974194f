// SPDX-License-Identifier: Apache-2.0

package conduit

import "time"

const (
	coalesceTime = time.Millisecond
	coalesceFrom = 32 // requests under way

	// coalesceAbove is how long a reply takes at least, so that it is late by a tenth at most.
	coalesceAbove = 10 * coalesceTime

	// A wait is worth its time if it brings coalesceWorth replies. Between two waits there are coalesceOften
	// replies or more, and up to coalesceRarely where waits were not worth it.
	coalesceWorth  = 4
	coalesceOften  = 8
	coalesceRarely = 4096
)

// coalescing decides when the reader waits a moment before the next read. With many requests under way, a
// server sends its replies one by one. To be woken for each of them takes processor time from a server
// on the same machine and from the callers. After a wait there are many replies to read, and as many callers,
// whose next requests leave in one write. Network cards coalesce their interrupts for the same reason.
//
// Where waits bring little, as on a link without a buffer, they become rarer.
type coalescing struct {
	often   int           // replies between two waits
	replies int           // since the last wait
	took    time.Duration // the newest reply
	waited  bool          // what the last wait has brought is still being read
	last    bool          // the newest reply is that to the only request under way
}

// noteReply notes a reply that took so long, while left requests are still under way.
func (c *coalescing) noteReply(took time.Duration, left int) {
	c.replies++
	c.took = took
	c.last = left == 0
}

// isDue reports whether a wait would be in order; all that was received has been read.
func (c *coalescing) isDue() bool {
	if c.waited {
		c.waited = false
		c.often = min(2*c.often, coalesceRarely)
		if c.replies >= coalesceWorth {
			c.often = coalesceOften
		}
	}
	return c.replies >= c.often && c.took >= coalesceAbove
}

func (c *coalescing) begin() { c.replies, c.waited = 0, true }
