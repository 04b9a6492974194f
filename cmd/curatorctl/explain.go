// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

// verbExplain says why a lock is stuck.
func verbExplain(fs *flag.FlagSet) action {
	permits := numberFlag(fs, "permits", "the `maximum` of a semaphore, which its znodes do not say", 1, 0)
	longer := timeFlag(fs, "waiting-longer", "a wait of more than this `time` for a client that is alive is trouble, too", 0)
	return func(ctx context.Context, c *call) error {
		opts := []inspect.Option{inspect.WithDeadlocks("/")}
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
		return cmp.Or(err, monitored(e.Trouble()))
	}
}

// verbDeadlocks lists the cycles of clients that wait for each other.
func verbDeadlocks(fs *flag.FlagSet) action {
	stands := timeFlag(fs, "for", "report a cycle if it stands for this `time`, by default 5s; longer than a healthy thread holds a lock", 5*time.Second)
	return func(ctx context.Context, c *call) error {
		found, err := inspect.Deadlocks(ctx, c.client, c.arg(0, "/"), inspect.LongerThan(*stands))
		if err != nil {
			return err
		}
		var lines []string
		for _, d := range found {
			lines = append(lines, d.String())
		}
		err = c.say(append([]inspect.Deadlock{}, found...), lines...)
		return cmp.Or(err, monitored(len(found) > 0))
	}
}
