// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
)

func TestEveryIsDueAtMultiples(t *testing.T) {
	for _, c := range []struct {
		every       time.Duration
		after, want string
	}{
		{time.Hour, "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
		{time.Hour, "2026-03-01T10:59:59.999Z", "2026-03-01T11:00:00Z"},
		{time.Second, "2026-03-01T10:00:00.5Z", "2026-03-01T10:00:01Z"},
		{24 * time.Hour, "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z"},
	} {
		require.Equal(t, c.want, schedule.Every(c.every).Next(parse(t, c.after)).Format(time.RFC3339), "%v after %s", c.every, c.after)
	}
}

func parse(t *testing.T, text string) time.Time {
	t.Helper()
	at := must.Get(time.Parse(time.RFC3339Nano, text))(t)
	return at.UTC()
}

// TestDailyHasOneTickOnEachDate, also when clocks are changed: by an hour, by half of one, at midnight, or by a day.
func TestDailyHasOneTickOnEachDate(t *testing.T) {
	for _, c := range []struct {
		name         string
		location     string
		hour, minute int
		after        string
		want         []string // in UTC
	}{
		{"no change", "UTC", 3, 30, "2026-05-01T00:00:00Z", []string{"2026-05-01T03:30:00Z", "2026-05-02T03:30:00Z"}},
		{"exactly at a tick", "UTC", 3, 30, "2026-05-01T03:30:00Z", []string{"2026-05-02T03:30:00Z"}},
		{
			"forward past the time", "Europe/Berlin", 2, 30, "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		{
			"forward past the time, west of Greenwich", "America/New_York", 2, 30, "2026-03-07T00:00:00Z",
			[]string{"2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
		},
		{"forward to the time", "Europe/Berlin", 3, 0, "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
		{
			"back over the time", "Europe/Berlin", 2, 30, "2026-10-24T00:00:00Z",
			[]string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"back over the time, west of Greenwich", "America/New_York", 1, 30, "2026-10-31T00:00:00Z",
			[]string{"2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		},
		{"back to the time", "Europe/Berlin", 2, 0, "2026-10-24T12:00:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"}},
		{"back, after the time has come twice", "Europe/Berlin", 3, 0, "2026-10-24T12:00:00Z", []string{"2026-10-25T02:00:00Z"}},
		{
			"half an hour forward", "Australia/Lord_Howe", 2, 15, "2026-10-02T00:00:00Z",
			[]string{"2026-10-02T15:45:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"},
		},
		{
			"half an hour back", "Australia/Lord_Howe", 1, 45, "2026-04-03T00:00:00Z",
			[]string{"2026-04-03T14:45:00Z", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		},
		{
			"a midnight that does not exist", "America/Havana", 0, 0, "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		},
		{
			"a date that does not exist", "Pacific/Apia", 9, 0, "2011-12-29T00:00:00Z",
			[]string{"2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := must.Get(time.LoadLocation(c.location))(t)
			s := schedule.Daily(c.hour, c.minute, in)
			got := parse(t, c.after)
			for _, want := range c.want {
				got = s.Next(got)
				require.Equal(t, want, got.UTC().Format(time.RFC3339))
			}
		})
	}
}

// TestDailyOfALongTime: the ticks rise, each date has one, and it shows the time unless the clocks skip that.
func TestDailyOfALongTime(t *testing.T) {
	for _, location := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza"} {
		in := must.Get(time.LoadLocation(location))(t)
		for _, hour := range []int{0, 1, 2, 3} {
			s := schedule.Daily(hour, 30, in)
			tick := s.Next(time.Date(2023, 1, 1, 0, 0, 0, 0, in))
			for range 3 * 365 {
				next := s.Next(tick)
				require.True(t, next.After(tick))
				y, m, d := tick.In(in).Date()
				wanted := time.Date(y, m, d+1, 12, 0, 0, 0, in).Format(time.DateOnly)
				require.Equal(t, wanted, next.In(in).Format(time.DateOnly), "%s after %v", location, tick)
				require.Equal(t, next, s.Next(next.Add(-time.Nanosecond)))
				require.Equal(t, next, s.Next(tick.Add(time.Nanosecond)))
				tick = next
			}
		}
	}
}
