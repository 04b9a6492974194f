// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/partition"
)

// verbPartitions shows the members of a group, and where its partitions are.
func verbPartitions(fs *flag.FlagSet) action {
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
		return cmp.Or(c.writePartitions(a), monitored(*moving && len(onTheirWay) > 0))
	}
}

// verbPartitionOrder returns a verb that orders something for a member or a partition.
func verbPartitionOrder(
	said string, ofMember bool, order func(ctx context.Context, client *framework.Framework, path, name string, on bool) error,
) func(*flag.FlagSet) action {
	return func(fs *flag.FlagSet) action {
		undo := fs.Bool("undo", false, "end the order")
		return func(ctx context.Context, c *call) error {
			if !*undo {
				name, member := c.args[1], ""
				if ofMember {
					name, member = "", name
				}
				if err := c.noteAbsent(ctx, name, member); err != nil {
					return err
				}
			}
			if err := order(ctx, c.client, c.args[0], c.args[1], !*undo); err != nil {
				return err
			}
			if *undo {
				return c.println("no longer " + said + ": " + printable(c.args[1]))
			}
			return c.println(said + " " + printable(c.args[1]))
		}
	}
}

// noteAbsent says if the group does not have a partition or a member, "" for none. The order may be meant for a
// member that is down, and is written. The name may also be a typing error.
func (c *call) noteAbsent(ctx context.Context, name, member string) error {
	a, err := partition.Read(ctx, c.client, c.args[0])
	if err != nil {
		return err
	}
	absent := func(what, name string) {
		c.complainf("curatorctl: %s is no %s of %s now, and the order waits for it\n", printable(name), what, printable(c.args[0]))
	}
	if name != "" && !slices.ContainsFunc(a.Partitions, func(p partition.State) bool { return p.Name == name }) {
		absent("partition", name)
	}
	if member != "" && !slices.ContainsFunc(a.Members, func(m partition.Peer) bool { return m.ID == member }) {
		absent("member", member)
	}
	return nil
}

// verbPartitionPin names the member that must have a partition.
func verbPartitionPin(ctx context.Context, c *call) error {
	member := c.arg(2, "")
	if member != "" {
		if err := c.noteAbsent(ctx, c.args[1], member); err != nil {
			return err
		}
	}
	if err := partition.Pin(ctx, c.client, c.args[0], c.args[1], member); err != nil {
		return err
	}
	if member == "" {
		return c.println("no longer pinned: " + printable(c.args[1]))
	}
	return c.println("pinned " + printable(c.args[1]) + " to " + printable(member))
}

func (c *call) writePartitions(a partition.Assignment) error {
	if c.output == "json" {
		return c.json(a)
	}
	cells := [][]string{{"MEMBER", "CAPACITY", "WANTED", "HELD", "STATE"}}
	for _, m := range a.Members {
		state := printable(m.Describe())
		if !m.Until.IsZero() {
			state += ", awaited until " + moment(m.Until)
		}
		cells = append(cells, []string{printable(m.ID), strconv.Itoa(m.Capacity), strconv.Itoa(m.Wanted), strconv.Itoa(m.Held), state})
	}
	if err := c.table(cells); err != nil {
		return err
	}
	head := []string{"PARTITION", "OWNER", "HOLDER", "SINCE", "WAITING", "STATE"}
	if c.output == "wide" {
		head = append(head, "TOKEN", "LOAD", "STANDBYS")
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
	state := p.Describe()
	if p.Pinned != "" {
		state += ", pinned to " + printable(p.Pinned)
	}
	cells := []string{printable(p.Name), orDash(p.Owner), orDash(p.Holder), since, strconv.Itoa(p.Waiting), state}
	if wide {
		cells = append(cells, token, strconv.Itoa(p.Load), orDash(standbys(p)))
	}
	return cells
}

// standbys lists the standbys of a partition, and which are not prepared yet.
func standbys(p partition.State) string {
	var list []string
	for _, id := range p.Standbys {
		if !slices.Contains(p.Prepared, id) {
			id += " (preparing)"
		}
		list = append(list, id)
	}
	return strings.Join(list, ", ")
}
