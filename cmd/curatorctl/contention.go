// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

// verbContention reports what locks had to bear.
func verbContention(fs *flag.FlagSet) action {
	lasts := timeFlag(fs, "for", "watch for this `time`, by default 1m; a signal ends it sooner, and reports", time.Minute)
	most := numberFlag(fs, "top", "show the `number` of locks with the most waiters, by default 20; -o json has all", 1, 20)
	return func(ctx context.Context, c *call) error {
		traffic, err := inspect.Follow(ctx, c.client, c.arg(0, "/"))
		if err != nil {
			return err
		}
		defer traffic.Close()
		select {
		case <-time.After(*lasts):
		case <-ctx.Done():
		}
		found := traffic.Take()
		if c.output == "json" {
			err = c.json(found)
		} else {
			err = c.writeContention(found, *most)
		}
		if err = cmp.Or(err, context.Cause(ctx)); err == nil && found.Unknown != "" {
			err = answered(inspect.Unknown)
		}
		return err
	}
}

func (c *call) writeContention(found inspect.Contention, most int) error {
	rows := [][]string{{"PATH", "KIND", "TURNS", "WAITERS", "MOST", "WAIT P50", "P99", "HOLD P50", "P99", "HELD", "LOST", "LONGEST HOLD"}}
	for _, l := range found.Locks[:min(len(found.Locks), most)] {
		rows = append(rows, []string{
			printable(l.Path), string(l.Kind), strconv.Itoa(l.Turns), strconv.FormatFloat(l.Waiters, 'f', 1, 64), strconv.Itoa(l.Most),
			measured(l.Wait, l.Wait.P50), measured(l.Wait, l.Wait.P99), measured(l.Hold, l.Hold.P50), measured(l.Hold, l.Hold.P99),
			fmt.Sprintf("%.0f%%", 100*l.Held), strconv.Itoa(l.Losses), longestHold(l, found.Until),
		})
	}
	if err := c.table(rows); err != nil {
		return err
	}
	return c.println(remarks(found, most))
}

// longestHold writes the longest hold of a lock, which may go on at the end.
func longestHold(l inspect.Load, end time.Time) string {
	if len(l.Longest) == 0 {
		return "-"
	}
	t := l.Longest[0]
	until, goesOn := t.Left, ""
	if until.IsZero() {
		until, goesOn = end, " and goes on"
	}
	text := seconds(until.Sub(t.Granted).Seconds()) + goesOn
	if t.Owner != "" {
		text += " " + cut(t.Owner, longName)
	}
	return text
}

// remarks says what the figures have cost, and how exact they are.
func remarks(found inspect.Contention, most int) string {
	text := fmt.Sprintf("in %s; it took %d notifications, %d looks, %d reads and %d lists of sessions", seconds(found.Until.Sub(found.From).Seconds()),
		found.Cost.Events, found.Cost.Looks, found.Cost.Reads, found.Cost.Censuses)
	if n := len(found.Locks) - most; n > 0 {
		text = fmt.Sprintf("%d more locks; ", n) + text
	}
	if slices.ContainsFunc(found.Locks, func(l inspect.Load) bool { return l.Wait.AtLeast || l.Hold.AtLeast }) {
		text += "\n> before a time: it is a least value, as some go on, or had begun before"
	}
	if found.Sampled {
		text += "\nwithout a watch: turns between two looks are missing"
	}
	if found.Gaps > 0 {
		text += fmt.Sprintf("\nthe connection was lost %d times, and times are not exact", found.Gaps)
	}
	if found.Partial {
		text += "\nthere were too many locks to have all"
	}
	if found.Unknown != "" {
		text += "\nlosses may be missing: " + oneLine(found.Unknown)
	}
	return text
}

// measured writes one of some times: a dash for what was not measured, and ">" before a least value.
func measured(of inspect.Times, s float64) string {
	switch {
	case of.Count == 0:
		return "-"
	case of.AtLeast:
		return ">" + seconds(s)
	default:
		return seconds(s)
	}
}

// seconds writes a time with three digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Minute).String()
}
