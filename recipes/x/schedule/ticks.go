// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"time"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// due returns the tick to run, and in how long, which is 0 or less if it is time. It drops the ticks that are not to be run.
func (r *runner) due() (tick time.Time, in time.Duration, err error) {
	now, err := r.now()
	if err != nil {
		return tick, 0, err
	}
	for isCertain := false; ; {
		if !r.gap.IsZero() {
			if err := r.drop(r.gap, r.job.CatchUp.keeps(), r.job.CatchUp.Window); err != nil {
				return tick, 0, err
			}
			r.kept, r.gap = r.gap, time.Time{}
		}
		tick, err = r.wanted(r.state.Last)
		switch {
		case err != nil:
			return tick, 0, err
		case tick.IsZero():
			return tick, lookEvery, nil
		case tick.After(now):
			return tick, tick.Sub(now), nil
		case !tick.After(r.kept) || !tick.Before(r.busy):
			return tick, tick.Add(r.job.delay(tick)).Sub(now), nil
		case !isCertain: // it was due while the job ran, or in a pause of which this runner has not heard
			if err := r.refresh(r.held); err != nil || r.orders.Paused {
				return tick, lookEvery, err
			}
			isCertain = true
		default:
			if err := r.drop(now, r.job.Overlap.keeps(), 0); err != nil {
				return tick, 0, err
			}
			r.kept, r.busy = now, now
		}
	}
}

// drop drops ticks up to a time, until at most the newest keep are left, and none that is older by more than the
// window, if there is one.
func (r *runner) drop(upTo time.Time, keep int, window time.Duration) error {
	if window > 0 {
		if err := r.pass(upTo.Add(-window-1), 0); err != nil {
			return err
		}
	}
	return r.pass(upTo, keep)
}

// maxCounted is how many dropped ticks of a caller's schedule are counted. A job that is due each second has
// millions after some months, and the schedule can only say which tick follows a time.
const maxCounted = 100_000

// pass drops the ticks up to a time, but for the newest keep.
func (r *runner) pass(upTo time.Time, keep int) error {
	if keep == math.MaxInt {
		return nil
	}
	from := later(r.state.Last, r.orders.Skip) // what is skipped is not missed
	if e, ok := r.job.Schedule.(every); ok {
		if n := e.count(from, upTo) - int64(keep); n > 0 {
			r.missed(e.Next(from).Add(time.Duration(n-1)*time.Duration(e)), n)
		}
		return nil
	}
	var newest []time.Time // of those up to reached, as many as are kept
	reached, last, dropped := from, r.state.Last, int64(0)
	for {
		tick, err := r.next(reached)
		if err != nil {
			return err
		}
		if tick.IsZero() || tick.After(upTo) {
			break
		}
		reached, newest = tick, append(newest, tick)
		if len(newest) <= keep {
			continue
		}
		last, newest = newest[0], newest[1:]
		dropped++
		if dropped != maxCounted {
			continue
		}
		// What follows is passed over, uncounted.
		near, err := r.near(reached, upTo, keep+1)
		if err != nil {
			return err
		}
		if near.After(reached) {
			reached, newest = near, nil
		}
	}
	r.missed(last, dropped)
	return nil
}

// near returns a late time from which n ticks come up to another time. It returns the given time if there is none.
// It halves the time between, as a schedule has no other way to come near.
func (r *runner) near(from, upTo time.Time, n int) (time.Time, error) {
	late := upTo
	for late.Sub(from) > time.Millisecond {
		middle := from.Add(late.Sub(from) / 2)
		tick := middle
		for i := 0; i < n && !tick.IsZero() && !tick.After(upTo); i++ {
			var err error
			if tick, err = r.next(tick); err != nil {
				return from, err
			}
		}
		if tick.IsZero() || tick.After(upTo) {
			late = middle
		} else {
			from = middle
		}
	}
	return from, nil
}

// missed moves the job forward to the last of n ticks that are dropped.
func (r *runner) missed(last time.Time, n int64) {
	r.state.Last = last
	r.state.Missed += n
	r.telemetry.missed.Add(n)
}

// lastYear is the last year that JSON has.
const lastYear = 9999

// next returns the tick after t, or the zero time.
func (r *runner) next(t time.Time) (next time.Time, err error) {
	attempt.GuardHere(r.client, func() error {
		next = r.job.Schedule.Next(t.UTC()).UTC()
		return nil
	}, func(panicked error) { err = panicked })
	switch {
	case err != nil || next.IsZero() || next.Year() > lastYear:
		return time.Time{}, err
	case !next.After(t):
		return next, fmt.Errorf("schedule of job %q: Next(%v) is %v, expected a later time", r.job.Name, t, next)
	default:
		return next, nil
	}
}

// wanted returns the first tick after t that operators do not skip, or the zero time.
func (r *runner) wanted(t time.Time) (time.Time, error) { return r.next(later(t, r.orders.Skip)) }

// now returns the time.
func (r *runner) now() (time.Time, error) {
	now, out := r.clock.now()
	if out == 0 {
		return now, nil
	}
	next, err := r.wanted(r.state.Last)
	if err != nil {
		return now, err
	}
	// What to do depends on whose clock is right, so the servers are asked again. Theirs may have been set.
	if decides := !r.gap.IsZero() || next.After(now) != next.After(r.clock.wall()); decides && time.Since(r.clock.answered) >= lookEvery {
		if err := r.record(r.held); err != nil {
			return now, err
		}
		now, out = r.clock.now()
	}
	if out != 0 && !r.warned {
		r.warned = true
		r.client.Logger().Warn("the clock of this process differs from the servers': a tick runs when both say that it is due",
			logPath, string(r.at), "job", r.job.Name, "difference", out, "tolerance", ClockTolerance)
	}
	return now, nil
}
