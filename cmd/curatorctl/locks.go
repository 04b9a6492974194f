// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

// lockRow is one lock in a list. Its keys are for scripts.
type lockRow struct {
	Path        string             `json:"path"`
	Kind        inspect.Kind       `json:"kind"`
	Holders     int                `json:"holders"`
	Waiters     int                `json:"waiters"`
	MaxLeases   int                `json:"maxLeases,omitempty"`
	OldestHold  *locks.Participant `json:"oldestHold"`
	LongestWait *locks.Participant `json:"longestWait"`
	Foreign     []string           `json:"foreign,omitempty"`
}

// lockRows returns the rows of the locks that have contenders.
func lockRows(recipes []inspect.Recipe) []lockRow {
	rows := []lockRow{}
	for _, r := range recipes {
		if !r.Kind.IsLock() || r.Holders+r.Waiters == 0 {
			continue
		}
		row := lockRow{r.Path, r.Kind, r.Holders, r.Waiters, r.MaxLeases, r.OldestHold(), nil, r.Foreign}
		if r.Waiters > 0 {
			row.LongestWait = r.LongestWait()
		}
		rows = append(rows, row)
	}
	return rows
}

// cells returns the cells of the lock's row in a table.
func (l lockRow) cells(wide bool) []string {
	holder, held, waiting := "-", "-", "-"
	if l.OldestHold != nil {
		holder, held = nameOf(*l.OldestHold), age(l.OldestHold.Since)
		if l.Holders > 1 {
			holder += fmt.Sprintf(" and %d more", l.Holders-1)
		}
	}
	if l.LongestWait != nil {
		waiting = age(l.LongestWait.Since)
	}
	cells := []string{printable(l.Path), string(l.Kind), holder, held, strconv.Itoa(l.Waiters), waiting}
	if wide {
		token, session, client := "-", "-", "-"
		if p := l.OldestHold; p != nil {
			token, session, client = strconv.FormatInt(p.Token, 10), inspect.SessionText(p.Session), inspect.Client(*p)
		}
		cells = append(cells, token, session, client, strconv.Itoa(len(l.Foreign)))
	}
	return cells
}

// verbLocks lists the locks below a path.
func verbLocks(fs *flag.FlagSet) action {
	waiting := timeFlag(fs, "waiting-longer", "list only locks that a contender has waited for longer than this `time`, and exit with 2 if there are any", 0)
	return func(ctx context.Context, c *call) error {
		survey, err := inspect.Walk(ctx, c.client, c.arg(0, "/"), inspect.HeadsOnly())
		if err != nil {
			return err
		}
		rows := lockRows(survey.Recipes)
		if *waiting > 0 {
			rows = slices.DeleteFunc(rows, func(l lockRow) bool { return l.LongestWait == nil || time.Since(l.LongestWait.Since) <= *waiting })
		}
		c.complainOf(survey.Unreadable)
		head := []string{"PATH", "KIND", "HOLDER", "HELD", "WAITERS", "WAITING"}
		if c.output == "wide" {
			head = append(head, "TOKEN", "SESSION", "CLIENT", "FOREIGN")
		}
		cells := [][]string{head}
		for _, row := range rows {
			cells = append(cells, row.cells(c.output == "wide"))
		}
		return cmp.Or(c.show(rows, cells), monitored(*waiting > 0 && len(rows) > 0))
	}
}

// complainOf names the znodes below which there may be locks that are not shown.
func (c *call) complainOf(unreadable []string) {
	for _, p := range unreadable {
		c.complainf("curatorctl: %s may not be listed\n", printable(p))
	}
}

// verbLockShow shows the queue at a path as a chain.
func verbLockShow(fs *flag.FlagSet) action {
	permits := numberFlag(fs, "permits", "the `maximum` of a semaphore, which its znodes do not say", 1, 0)
	return func(ctx context.Context, c *call) error {
		var opts []inspect.Option
		if *permits != 0 {
			opts = append(opts, inspect.WithMaxLeases(*permits))
		}
		recipes, err := inspect.At(ctx, c.client, c.args[0], opts...)
		if err != nil {
			return err
		}
		if c.output == "json" {
			if recipes == nil {
				recipes = []inspect.Recipe{}
			}
			return c.json(recipes)
		}
		if len(recipes) == 0 {
			return c.println(printable(c.args[0]) + ": no recipe, or a lock without contenders")
		}
		owners, answer := c.censusOrNote(ctx), inspect.No
		for _, r := range recipes {
			if err := c.showRecipe(r, owners); err != nil {
				return err
			}
			if r.Kind.IsLock() && slices.ContainsFunc(r.Participants, func(p locks.Participant) bool { return owners.Life(p.Session) == inspect.LifeUnknown }) {
				answer = inspect.Unknown
			}
		}
		return answered(answer)
	}
}

func (c *call) showRecipe(r inspect.Recipe, owners inspect.Census) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", printable(r.Path), r.Kind)
	isQueue := r.Kind.IsLock() || r.Kind == inspect.DoubleBarrier
	if isQueue {
		fmt.Fprintf(&b, ", %d hold, %d wait", r.Holders, r.Waiters)
	}
	if r.MaxLeases > 0 {
		fmt.Fprintf(&b, ", at most %d", r.MaxLeases)
	}
	if r.Items > 0 {
		fmt.Fprintf(&b, ", %d items", r.Items)
	}
	names := make(map[string]string, len(r.Participants))
	for _, p := range r.Participants {
		names[p.Path] = nameOf(p)
	}
	for _, p := range r.Participants {
		state := "waits"
		if !isQueue { // such as a member of a group
			state = "has"
		} else if p.Holds {
			state = "holds"
			if number, isSlot := inspect.Slot(p); isSlot {
				state = "holds the number " + number + ":"
			}
		}
		fmt.Fprintf(&b, "\n  %s %s for %s, token %d", state, nameOf(p), age(p.Since), p.Token)
		for _, ahead := range p.WaitsFor {
			fmt.Fprintf(&b, ", behind %s", cmp.Or(names[ahead], printable(ahead))) // which may be no contender
		}
		fmt.Fprintf(&b, "\n        node %s\n        %s", printable(p.Path), owners.Describe(p.Session))
	}
	for _, name := range r.Foreign {
		fmt.Fprintf(&b, "\n  foreign child %s", printable(name))
	}
	return c.println(b.String())
}
