// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"

	"github.com/gocurator/curator/recipes/inspect"
)

// verbDeadlocks lists the cycles of clients that wait for each other.
func verbDeadlocks(fs *flag.FlagSet) func(context.Context, *call) error {
	stands := timeFlag(fs, "for", "report a cycle if it stands for this `time`, by default 5s; longer than a healthy thread holds a lock")
	return func(ctx context.Context, c *call) error {
		var opts []inspect.Option
		if *stands != 0 {
			opts = append(opts, inspect.LongerThan(*stands))
		}
		found, err := inspect.Deadlocks(ctx, c.client, c.arg(0, "/"), opts...)
		if err != nil {
			return err
		}
		if c.output == "json" {
			err = c.json(append([]inspect.Deadlock{}, found...))
		} else {
			for _, d := range found {
				if err := c.println(d.String()); err != nil {
					return err
				}
			}
		}
		if err == nil && len(found) > 0 {
			return &exit{status: exitFound}
		}
		return err
	}
}
