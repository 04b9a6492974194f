// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"
)

// Schedule says when a job is due. The schedules of robfig/cron have its method.
type Schedule interface {
	// Next returns the first tick after t, or the zero time if there is none. It gets times in UTC.
	// All replicas must get the same answer for the same t.
	Next(t time.Time) time.Time
}

// Every returns the schedule with a tick each d, at the multiples of d since the zero time. So
// Every(time.Hour) is due on the hour, in UTC. The shortest d is a millisecond.
func Every(d time.Duration) Schedule { return every(d) }

type every time.Duration

func (e every) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(e)).Add(time.Duration(e)) //nolint:forbidigo // the ticks are times of the calendar
}

// count returns how many ticks are after a time, up to another one.
func (e every) count(after, upTo time.Time) int64 {
	d := time.Duration(e)
	return int64(upTo.Truncate(d).Sub(after.Truncate(d)) / d) //nolint:forbidigo // as in Next
}

func (e every) check() error {
	if time.Duration(e) < time.Millisecond {
		return fmt.Errorf("schedule Every(%v), expected a millisecond or more", time.Duration(e))
	}
	return nil
}

// Daily returns the schedule with one tick each day, when the clocks in a location show hour:minute.
//
// Each date has one tick, also when the clocks change. If they go forward past hour:minute, the tick
// is at the moment of the change. If they show hour:minute twice, the tick is at the first time.
func Daily(hour, minute int, in *time.Location) Schedule { return daily{hour, minute, in} }

type daily struct {
	hour, minute int
	in           *time.Location
}

func (d daily) check() error {
	switch {
	case d.in == nil:
		return fmt.Errorf("schedule Daily(%d, %d, nil), expected a location such as time.UTC", d.hour, d.minute)
	case d.hour < 0 || d.hour > 23 || d.minute < 0 || d.minute > 59:
		return fmt.Errorf("schedule Daily(%d, %d), expected an hour from 0 to 23 and a minute from 0 to 59", d.hour, d.minute)
	default:
		return nil
	}
}

func (d daily) Next(t time.Time) time.Time {
	year, month, day := t.In(d.in).Date()
	// The tick of a date that the clocks skip is on the next date.
	for n := -1; ; n++ {
		if tick := d.on(year, month, day+n); tick.After(t) {
			return tick
		}
	}
}

// on returns the tick of a date.
func (d daily) on(year int, month time.Month, day int) time.Time {
	tick := time.Date(year, month, day, d.hour, d.minute, 0, 0, d.in)
	start, end := tick.ZoneBounds()
	shown := wall(tick)
	wanted := time.Date(year, month, day, d.hour, d.minute, 0, 0, time.UTC)
	switch {
	case shown.After(wanted): // time.Date has taken the offset before a change that skips the time
		return start
	case shown.Before(wanted): // or the offset after it
		return end
	case !start.IsZero():
		_, now := tick.Zone()
		_, before := start.Add(-1).Zone()
		first := tick.Add(time.Duration(now-before) * time.Second)
		if first.Before(start) && wall(first).Equal(wanted) {
			return first
		}
	}
	return tick
}

// wall returns what the clocks show, as a time in UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
