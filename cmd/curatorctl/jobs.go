// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/schedule"
)

// verbJobs lists the jobs of a fleet.
func verbJobs(ctx context.Context, c *call) error {
	list, err := schedule.List(ctx, c.client, c.args[0])
	if err != nil {
		return err
	}
	rows := [][]string{{"JOB", "STATE", "LAST SUCCESS", "NEXT", "RUNNER", "FAILURES", "MISSED"}}
	for _, e := range list {
		rows = append(rows, []string{
			printable(e.Name), printable(e.Describe()), moment(e.Succeeded), moment(e.Next), orDash(e.Runner),
			strconv.Itoa(e.Failures), strconv.FormatInt(e.Missed, 10),
		})
	}
	return c.show(list, rows)
}

// verbJobHistory lists the last runs of a job.
func verbJobHistory(ctx context.Context, c *call) error {
	list, err := schedule.List(ctx, c.client, c.args[0])
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(e schedule.Entry) bool { return e.Name == c.args[1] })
	if i < 0 {
		return fmt.Errorf("%s: job %q: %w", c.args[0], c.args[1], framework.ErrNoNode)
	}
	runs := list[i].Runs()
	rows := [][]string{{"TICK", "OUTCOME", "ATTEMPT", "LATE", "TOOK", "RUNNER", "ERROR"}}
	for _, run := range runs {
		tick, late := moment(run.Tick), short(run.Late())
		if run.Manual {
			tick, late = tick+" by order", "-"
		}
		rows = append(rows, []string{
			tick, cmp.Or(printable(string(run.Outcome)), "running"), strconv.Itoa(run.Attempt), late, short(run.Took(time.Now())),
			orDash(run.Runner), orDash(run.Error),
		})
	}
	return c.show(runs, rows)
}

// verbJobOrder returns a verb that orders something for a job.
func verbJobOrder(
	said string, order func(ctx context.Context, client *framework.Framework, path, job string) error,
) action {
	return func(ctx context.Context, c *call) error {
		if err := order(ctx, c.client, c.args[0], c.args[1]); err != nil {
			return err
		}
		return c.println(said + " " + printable(c.args[1]))
	}
}

// verbJobSkip skips the next tick of a job.
func verbJobSkip(ctx context.Context, c *call) error {
	tick, err := schedule.SkipNext(ctx, c.client, c.args[0], c.args[1])
	if err != nil {
		return err
	}
	return c.println("skips " + printable(c.args[1]) + " of " + moment(tick))
}
