// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
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
		row := lockRow{Path: r.Path, Kind: r.Kind, Holders: r.Holders, Waiters: r.Waiters, MaxLeases: r.MaxLeases, Foreign: r.Foreign}
		if p, found := r.OldestHold(); found {
			row.OldestHold = &p
		}
		if p, found := r.LongestWait(); found && r.Waiters > 0 {
			row.LongestWait = &p
		}
		rows = append(rows, row)
	}
	return rows
}

var lockColumns = []string{"PATH", "KIND", "HOLDER", "HELD", "WAITERS", "WAITING"}

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

func (c *call) lockHead() []string {
	if c.output == "wide" {
		return append(lockColumns[:len(lockColumns):len(lockColumns)], "TOKEN", "SESSION", "CLIENT", "FOREIGN")
	}
	return lockColumns
}

// verbLocks lists the locks below a path.
func verbLocks(fs *flag.FlagSet) action {
	watch := fs.Bool("w", false, "then write a line for each lock that changes")
	waiting := timeFlag(fs, "waiting-longer", "list only locks that a contender has waited for longer than this `time`, and exit with 2 if there are any", 0)
	return func(ctx context.Context, c *call) error {
		path := c.arg(0, "/")
		switch {
		case *watch && *waiting != 0:
			return usage("locks: -w together with -waiting-longer, expected one of them")
		case *watch:
			return c.watchLocks(ctx, path)
		}
		survey, err := inspect.Walk(ctx, c.client, path, inspect.HeadsOnly())
		if err != nil {
			return err
		}
		rows := lockRows(survey.Recipes)
		if *waiting > 0 {
			rows = slices.DeleteFunc(rows, func(l lockRow) bool { return l.LongestWait == nil || time.Since(l.LongestWait.Since) <= *waiting })
		}
		c.complainOf(survey.Unreadable)
		return cmp.Or(c.writeLocks(rows), monitored(*waiting > 0 && len(rows) > 0))
	}
}

// complainOf names the znodes below which there may be locks that are not shown.
func (c *call) complainOf(unreadable []string) {
	for _, p := range unreadable {
		c.complainf("curatorctl: %s may not be listed\n", printable(p))
	}
}

func (c *call) writeLocks(rows []lockRow) error {
	cells := [][]string{c.lockHead()}
	for _, row := range rows {
		cells = append(cells, row.cells(c.output == "wide"))
	}
	return c.show(rows, cells)
}

// arg returns an argument, or what is meant without it.
func (c *call) arg(i int, otherwise string) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return otherwise
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
		owners := c.censusOrNote(ctx)
		for _, r := range recipes {
			if err := c.showRecipe(r, owners); err != nil {
				return err
			}
		}
		return nil
	}
}

func (c *call) showRecipe(r inspect.Recipe, owners inspect.Census) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d hold, %d wait", printable(r.Path), r.Kind, r.Holders, r.Waiters)
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
		if p.Holds {
			state = "holds"
		}
		fmt.Fprintf(&b, "\n  %s %s for %s, token %d", state, nameOf(p), age(p.Since), p.Token)
		for _, ahead := range p.WaitsFor {
			fmt.Fprintf(&b, ", behind %s", names[ahead])
		}
		fmt.Fprintf(&b, "\n        node %s\n        %s", printable(p.Path), owners.Describe(p.Session))
	}
	for _, name := range r.Foreign {
		fmt.Fprintf(&b, "\n  foreign child %s", printable(name))
	}
	return c.println(b.String())
}

// verbLockRevoke asks for a lock.
func verbLockRevoke(fs *flag.FlagSet) action {
	yes := fs.Bool("yes", false, "do it")
	return func(ctx context.Context, c *call) error {
		var asked []locks.Participant
		p, _, err := c.contender(ctx, c.args[0])
		switch {
		case err == nil:
			asked = []locks.Participant{p}
		case errors.Is(err, errNoContender):
			asked, err = c.holdersAt(ctx, c.args[0])
		}
		if err != nil {
			return err
		}
		for _, p := range asked {
			said := "asked " + nameOf(p) + " to give the lock back, node " + printable(p.Path)
			switch {
			case p.RevocationRequested():
				said = "its owner was asked before, node " + printable(p.Path) // the name is gone
			case !*yes:
				c.complainf("replaces the data of node %s, the name of %s\n", printable(p.Path), nameOf(p))
				return usage("lock revoke: nothing was done: -yes is missing")
			default:
				if err := locks.AttemptRevoke(ctx, c.client, p.Path); err != nil {
					return err
				}
			}
			if err := c.println(said); err != nil {
				return err
			}
		}
		return nil
	}
}

// holdersAt returns the holders of the locks at a path.
func (c *call) holdersAt(ctx context.Context, path string) ([]locks.Participant, error) {
	recipes, err := inspect.At(ctx, c.client, path)
	if err != nil {
		return nil, err
	}
	var holders []locks.Participant
	for _, r := range recipes {
		for _, p := range r.Participants {
			if p.Holds && p.Session != 0 && r.Kind.IsLock() {
				holders = append(holders, p)
			}
		}
	}
	if len(holders) == 0 {
		return nil, fmt.Errorf("%s: no contender holds a lock there", path)
	}
	return holders, nil
}

// verbLockBreak deletes the node of a contender.
func verbLockBreak(fs *flag.FlagSet) action {
	token := fs.Int64("token", 0, "`token` of the hold, as lock show prints it")
	yes := fs.Bool("yes", false, "do it")
	return func(ctx context.Context, c *call) error {
		node := c.args[0]
		stat, err := c.client.Exists(ctx, node)
		switch {
		case err != nil:
			return err
		case stat == nil:
			return fmt.Errorf("%s: %w", node, framework.ErrNoNode)
		}
		p, recipes, err := c.contender(ctx, node)
		if errors.Is(err, errNoContender) {
			return c.namingHolders(ctx, err)
		}
		switch {
		case err != nil:
			return err
		case *token == 0:
			return usage("lock break: -token missing; curatorctl lock show has the token of each hold")
		case p.Token != *token:
			return fmt.Errorf("%s has the token %d, expected %d: it is another hold", node, p.Token, *token)
		}
		_, name := framework.SplitPath(node)
		c.complainf("deletes %s of %s, there for %s, session %s\n", printable(name), nameOf(p), age(p.Since), inspect.SessionText(p.Session))
		c.complainf("%s; the owner learns of it from the server, and may work until then\n", successorIn(recipes, node))
		if !*yes {
			return usage("lock break: nothing was done: -yes is missing")
		}
		// The names of contenders are never used again, so the version says that it is this node.
		_, err = c.client.Transact(ctx,
			framework.CheckOp(node, stat.Version), framework.DeleteOp(node, framework.WithVersion(stat.Version)))
		if errors.Is(err, framework.ErrNoNode) {
			return fmt.Errorf("%s has gone by itself: %w", node, err)
		}
		if err != nil {
			return err
		}
		return c.println("deleted " + printable(node))
	}
}

// errNoContender is a znode that is not in the queue of a lock or an election.
var errNoContender = errors.New("it is no contender of a lock or an election: a contender is ephemeral, and has a whole name of Curator's, " +
	"zk.Lock's or kazoo's form; expected the node of one, as lock show prints it")

// contender returns the contender with a node, and the recipes that it is in. A node that this client may not read
// is no contender, because it may be an application's.
func (c *call) contender(ctx context.Context, node string) (locks.Participant, []inspect.Recipe, error) {
	folder, _ := framework.SplitPath(node)
	above, name := framework.SplitPath(folder)
	folders := []string{folder}
	if name == "leases" || name == "locks" { // of a semaphore
		folders = []string{above, folder}
	}
	for _, at := range folders {
		recipes, err := inspect.At(ctx, c.client, at)
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			return locks.Participant{}, nil, err
		}
		for _, r := range recipes {
			for _, p := range r.Participants {
				if p.Path == node && p.Session != 0 && r.Kind.IsLock() {
					return p, recipes, nil
				}
			}
		}
	}
	return locks.Participant{}, nil, fmt.Errorf("%s: %w", node, errNoContender)
}

// namingHolders adds the holders to the refusal of the folder of a lock.
func (c *call) namingHolders(ctx context.Context, refusal error) error {
	holders, err := c.holdersAt(ctx, c.args[0])
	if err != nil {
		return usage("lock break: %w", refusal) // it is no lock either
	}
	var nodes []string
	for _, p := range holders {
		nodes = append(nodes, fmt.Sprintf("%s of %s with the token %d", printable(p.Path), nameOf(p), p.Token))
	}
	return usage("lock break: %w; the lock is held by %s", refusal, strings.Join(nodes, ", "))
}

// successorIn says who is next when a node is deleted.
func successorIn(recipes []inspect.Recipe, node string) string {
	for _, r := range recipes {
		isPermit := r.Kind == inspect.Semaphore && slices.ContainsFunc(r.Participants, func(p locks.Participant) bool {
			return p.Path == node && p.Holds
		})
		for _, p := range r.Participants {
			if isPermit && !p.Holds || len(p.WaitsFor) == 1 && p.WaitsFor[0] == node {
				return nameOf(p) + " is next"
			}
		}
	}
	return "no contender waits for it"
}
