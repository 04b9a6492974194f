// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// verbLockRevoke asks for a lock.
func verbLockRevoke(fs *flag.FlagSet) action {
	yes := fs.Bool("yes", false, "do it, instead of only saying what would be done")
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
		refused := false
		for _, p := range asked {
			said := "asked " + nameOf(p) + " to give the lock back, node " + printable(p.Path)
			switch {
			case p.RevocationRequested():
				said = "its owner was asked before, node " + printable(p.Path) // the name is gone
			case !*yes:
				c.complainf("replaces the data of node %s, the name of %s\n", printable(p.Path), nameOf(p))
				refused = true
				continue
			default:
				if err := locks.AttemptRevoke(ctx, c.client, p.Path); err != nil {
					return err
				}
			}
			if err := c.println(said); err != nil {
				return err
			}
		}
		if refused {
			return usage("lock revoke: nothing was done: -yes is missing")
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
	token := fs.Int64("token", 0, "`token` of the hold, as lock show prints it: any other hold is left alone")
	yes := fs.Bool("yes", false, "do it, instead of only saying what would be done")
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
		isPermit := (r.Kind == inspect.Semaphore || r.Kind == inspect.Slots) && slices.ContainsFunc(r.Participants, func(p locks.Participant) bool {
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
