// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"time"

	"github.com/gocurator/curator/recipes/inspect"
)

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
