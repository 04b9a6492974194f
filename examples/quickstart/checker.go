package main

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// checker keeps a record of all holds of the lock in this process, and judges it
// at the end. All times carry a monotonic clock reading.
type checker struct {
	mu     sync.Mutex
	holds  []*hold
	open   []*hold // those of holds that were not over when look was last called
	losses int
}

// hold is one time that somebody had the lock: from the return of Acquire to the
// end of the lease or the call of Release, whichever was first.
type hold struct {
	checker *checker
	token   int64
	ended   <-chan struct{} // closed when the lease ends
	waited  time.Duration   // from the call of Acquire to its return
	from    time.Time
	until   time.Time // zero as long as it is not known to be over
}

// granted records that Acquire, called at asked, has just returned a lease.
func (c *checker) granted(token int64, ended <-chan struct{}, asked time.Time) *hold {
	c.look()
	return c.begin(token, ended, asked, time.Now())
}

// look finds the holds that are over because their leases have ended. To whoever
// has just acquired the lock, this is the question: did the others know by then? A
// goroutine that waits for the end of a lease could be late with the answer.
func (c *checker) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(h *hold) bool {
		select {
		case <-h.ended:
			h.endLocked(time.Now())
		default:
		}
		return !h.until.IsZero()
	})
}

func (c *checker) begin(token int64, ended <-chan struct{}, asked, from time.Time) *hold {
	h := &hold{checker: c, token: token, ended: ended, waited: from.Sub(asked), from: from}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds, c.open = append(c.holds, h), append(c.open, h)
	return h
}

// end records that the hold was over at this time. Of several times the earliest
// counts.
func (h *hold) end(at time.Time) {
	h.checker.mu.Lock()
	defer h.checker.mu.Unlock()
	h.endLocked(at)
}

func (h *hold) endLocked(at time.Time) {
	if h.until.IsZero() || at.Before(h.until) {
		h.until = at
	}
}

// lost counts a lock that was lost while it was held.
func (c *checker) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
}

// summary is the verdict on a run.
type summary struct {
	acquisitions     int
	overlaps         int // holds that began before an earlier one had ended
	tokenRegressions int // tokens that were not greater than all before
	lostWhileHeld    int
	p50, p99         time.Duration // of the waits
}

// summary judges the record.
func (c *checker) summary() summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	holds := slices.Clone(c.holds)
	slices.SortStableFunc(holds, func(a, b *hold) int { return a.from.Compare(b.from) })
	waits := make([]time.Duration, len(holds))
	for i, h := range holds {
		waits[i] = h.waited
	}
	slices.Sort(waits)
	return summary{
		acquisitions:     len(holds),
		overlaps:         overlaps(holds),
		tokenRegressions: tokenRegressions(holds),
		lostWhileHeld:    c.losses,
		p50:              quantile(waits, 0.50),
		p99:              quantile(waits, 0.99),
	}
}

// ok tells whether the lock kept its promise.
func (s summary) ok() bool { return s.overlaps == 0 && s.tokenRegressions == 0 }

// String is the last line of the program.
func (s summary) String() string {
	return fmt.Sprintf("acquisitions=%d overlaps=%d token_regressions=%d lost_while_held=%d acquire_p50=%v acquire_p99=%v",
		s.acquisitions, s.overlaps, s.tokenRegressions, s.lostWhileHeld,
		s.p50.Round(time.Microsecond), s.p99.Round(time.Microsecond))
}

// overlaps counts the holds, given in the order of their beginnings, that began
// while another was held.
func overlaps(holds []*hold) (n int) {
	var last *hold // of those before, the one that ended last
	for _, h := range holds {
		if last != nil && (last.until.IsZero() || h.from.Before(last.until)) {
			n++
		}
		if last == nil || !last.until.IsZero() && (h.until.IsZero() || h.until.After(last.until)) {
			last = h
		}
	}
	return n
}

// tokenRegressions counts the holds, given in the order of their beginnings,
// whose token was not greater than those of all before.
func tokenRegressions(holds []*hold) (n int) {
	greatest := int64(math.MinInt64)
	for _, h := range holds {
		if h.token <= greatest {
			n++
		}
		greatest = max(greatest, h.token)
	}
	return n
}

// quantile returns the smallest of the sorted values that a share of at least q
// of them does not exceed (the nearest rank), or 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}
