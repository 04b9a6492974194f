// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"strconv"

	"github.com/gocurator/curator/recipes/partition"
)

// verbPartitions shows the members of a group, and where its partitions are.
func verbPartitions(fs *flag.FlagSet) func(context.Context, *call) error {
	moving := fs.Bool("moving", false, "list only partitions that their owner does not have yet, and exit with 2 if there are any")
	return func(ctx context.Context, c *call) error {
		a, err := partition.Read(ctx, c.client, c.args[0])
		if err != nil {
			return err
		}
		onTheirWay := []partition.State{}
		for _, p := range a.Partitions {
			if p.OnItsWay() {
				onTheirWay = append(onTheirWay, p)
			}
		}
		if *moving {
			a.Partitions = onTheirWay
		}
		if err := c.writePartitions(a); err != nil {
			return err
		}
		if *moving && len(onTheirWay) > 0 {
			return &exit{status: exitFound}
		}
		return nil
	}
}

func (c *call) writePartitions(a partition.Assignment) error {
	if c.output == "json" {
		return c.json(a)
	}
	cells := [][]string{{"MEMBER", "CAPACITY", "WANTED", "HELD", "STATE"}}
	for _, m := range a.Members {
		state := "alive"
		if !m.Alive {
			state = "gone"
		}
		if !m.Until.IsZero() {
			state = "away, awaited until " + moment(m.Until)
		}
		cells = append(cells, []string{printable(m.ID), strconv.Itoa(m.Capacity), strconv.Itoa(m.Wanted), strconv.Itoa(m.Held), state})
	}
	if err := c.table(cells); err != nil {
		return err
	}
	head := []string{"PARTITION", "OWNER", "HOLDER", "SINCE", "WAITING", "STATE"}
	if c.output == "wide" {
		head = append(head, "TOKEN", "LOAD")
	}
	cells = [][]string{head}
	for _, p := range a.Partitions {
		cells = append(cells, partitionCells(p, c.output == "wide"))
	}
	if err := c.println(""); err != nil {
		return err
	}
	return c.table(cells)
}

func partitionCells(p partition.State, wide bool) []string {
	since, token := "-", "-"
	if p.Holder != "" {
		since, token = age(p.Since), strconv.FormatInt(p.Token, 10)
	}
	cells := []string{printable(p.Name), orDash(p.Owner), orDash(p.Holder), since, strconv.Itoa(p.Waiting), p.Describe()}
	if wide {
		cells = append(cells, token, strconv.Itoa(p.Load))
	}
	return cells
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return printable(text)
}
