// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"strings"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

// verbExplain says why a lock is stuck.
func verbExplain(fs *flag.FlagSet) action {
	permits := numberFlag(fs, "permits", "the `maximum` of a semaphore, which its znodes do not say", 1, 0)
	longer := timeFlag(fs, "waiting-longer", "a wait of more than this `time` for a client that is alive is trouble, too", 0)
	return func(ctx context.Context, c *call) error {
		opts := []inspect.Option{inspect.WithDeadlocks("/"), inspect.LookingTwice()}
		if *permits != 0 {
			opts = append(opts, inspect.WithMaxLeases(*permits))
		}
		if *longer != 0 {
			opts = append(opts, inspect.LongerThan(*longer))
		}
		e, err := inspect.Explain(ctx, c.client, c.args[0], opts...)
		if err != nil {
			return err
		}
		err = c.say(e, strings.TrimSuffix(e.String(), "\n"))
		return cmp.Or(err, answered(e.Answer))
	}
}

// verbDeadlocks lists the cycles of clients that wait for each other.
func verbDeadlocks(fs *flag.FlagSet) action {
	stands := timeFlag(fs, "for", "report a cycle if it stands for this `time`, by default 5s; with a time that no healthy hold lasts for, "+
		"report what may be one, too", 0)
	return func(ctx context.Context, c *call) error {
		var opts []inspect.Option
		if *stands != 0 {
			opts = append(opts, inspect.LongerThan(*stands))
		}
		found, err := inspect.Deadlocks(ctx, c.client, c.arg(0, "/"), opts...)
		if err != nil {
			return err
		}
		var lines []string
		answer := inspect.No
		for _, d := range found {
			lines = append(lines, d.String())
			if d.Certain {
				answer = inspect.Yes
			} else if answer == inspect.No {
				answer = inspect.Unknown
			}
		}
		err = c.say(append([]inspect.Deadlock{}, found...), lines...)
		return cmp.Or(err, answered(answer))
	}
}

// answered returns the status for an answer to a monitor.
func answered(answer inspect.Answer) error {
	if answer == inspect.Unknown {
		return &exit{status: exitUnknown}
	}
	return monitored(answer == inspect.Yes)
}
