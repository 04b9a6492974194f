// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the time by which leases are measured. It advances while the machine is
// suspended, as the server's clock does. Go's monotonic clock stops during a suspension
// on most systems, so clock adds the time that the operating system reports as suspended.
//
// On systems that report nothing, a lease is too long by the time of a suspension.
type clock struct {
	suspended func() time.Duration // since any moment in the past; nil if the system does not report it
	resumed   func()               // called after a suspension, on a goroutine of its own
	most      atomic.Int64         // the largest value reported so far

	began time.Time
	asked atomic.Int64 // when the system was asked last, in nanoseconds since began
}

func newClock(suspended func() time.Duration, resumed func()) *clock {
	c := &clock{suspended: suspended, resumed: resumed, began: time.Now()}
	c.ask(c.began) // suspensions before this moment do not matter
	return c
}

// now returns the time of leases. now does not ask the system for every frame, because that
// takes microseconds. So for askEvery after the end of a suspension, now may not know of
// it.
func (c *clock) now() time.Time {
	here := time.Now()
	if int64(here.Sub(c.began))-c.asked.Load() >= int64(askEvery) {
		c.tell(c.ask(here))
	}
	return here.Add(c.ahead())
}

// exact is now for callers that depend on a deadline: it always asks the system.
func (c *clock) exact() time.Time {
	here := time.Now()
	c.tell(c.ask(here))
	return here.Add(c.ahead())
}

func (c *clock) tell(jumped bool) {
	if jumped {
		go c.resumed() // the caller may hold locks
	}
}

// ask asks the system, and reports whether the machine was suspended since the last call.
func (c *clock) ask(here time.Time) (jumped bool) {
	if c.suspended == nil {
		return false
	}
	c.asked.Store(int64(here.Sub(c.began)))
	said := int64(c.suspended())
	for {
		most := c.most.Load()
		if said <= most {
			return false
		}
		if c.most.CompareAndSwap(most, said) {
			return said-most > int64(noticeable)
		}
	}
}

// ahead is by how much the time of leases is ahead of time.Now.
func (c *clock) ahead() time.Duration { return time.Duration(c.most.Load()) }

// askEvery is how long an answer of the system holds.
const askEvery = time.Millisecond

// noticeable is the shortest suspension that is reported at once. The system's clocks
// differ by less when they are read one after the other.
const noticeable = time.Millisecond

// lookEvery is how often the clock is asked when nothing else asks it.
const lookEvery = time.Second

// watch reports each suspension within lookEvery, until the context ends. It does so even
// without a connection: the timers of a dial, a handshake and a blocked write stop during a
// suspension, and hide it until they end.
func (c *clock) watch(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			c.exact()
		case <-ctx.Done():
			return
		}
	}
}
