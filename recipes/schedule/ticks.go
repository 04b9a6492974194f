// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"time"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// due returns the tick to run, or how long to wait. It drops the ticks that are not to be run.
func (r *runner) due() (tick time.Time, wait time.Duration, err error) {
	now, err := r.now()
	if err != nil {
		return tick, 0, err
	}
	if !r.gap.IsZero() {
		if err := r.drop(r.gap, r.job.CatchUp.keeps(), r.job.CatchUp.Window); err != nil {
			return tick, 0, err
		}
		r.gap = time.Time{}
	}
	for {
		tick, err = r.next(r.state.Last)
		switch {
		case err != nil:
			return tick, 0, err
		case tick.IsZero():
			return tick, lookEvery, nil
		case tick.After(now):
			r.busy = false
			return tick, tick.Sub(now), nil
		case !tick.After(r.orders.Skip):
			r.state.Last = tick
		case r.busy && tick.After(r.backlog): // it was due while the job ran
			if err := r.drop(now, r.job.Overlap.keeps(), 0); err != nil {
				return tick, 0, err
			}
			r.backlog = now
		default:
			return tick, tick.Add(r.job.delay(tick)).Sub(now), nil
		}
	}
}

// drop drops ticks up to a time, until at most the newest keep are left, and none that is older by more than the
// window, if there is one.
func (r *runner) drop(upTo time.Time, keep int, window time.Duration) error {
	if keep == math.MaxInt && window == 0 {
		return nil
	}
	due := 0
	for t := r.state.Last; ; due++ {
		next, err := r.next(t)
		if err != nil {
			return err
		}
		if next.IsZero() || next.After(upTo) {
			break
		}
		t = next
	}
	for ; due > 0; due-- {
		tick, err := r.next(r.state.Last)
		if err != nil || due <= keep && (window == 0 || !tick.Before(upTo.Add(-window))) {
			return err
		}
		r.state.Last = tick
		r.state.Missed++
		r.telemetry.missed.Add(1)
	}
	return nil
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

// wanted returns the tick after t that operators do not skip. It is zero if there is none, and if the schedule fails,
// which the runner says when it needs the tick.
func (r *runner) wanted(t time.Time) time.Time {
	next, err := r.next(t)
	for err == nil && !next.IsZero() && !next.After(r.orders.Skip) {
		next, err = r.next(next)
	}
	if err != nil {
		return time.Time{}
	}
	return next
}

// now returns the time.
func (r *runner) now() (time.Time, error) {
	now, out := r.clock.now()
	if out == 0 {
		return now, nil
	}
	next, err := r.next(r.state.Last)
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
		r.client.Logger().Warn("the clock of this process differs from the servers', which counts now",
			logPath, string(r.at), "job", r.job.Name, "difference", out, "beyond", ClockTolerance)
	}
	return now, nil
}
