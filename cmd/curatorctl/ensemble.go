// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
)

// orUnknown writes a number for people.
func orUnknown[T any](n *T) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// verbEnsemble shows all servers.
func verbEnsemble(ctx context.Context, c *call) error {
	e := doctor.Ask(ctx, c.client)
	if err := c.writeEnsemble(e); err != nil {
		return err
	}
	if !e.Quorum {
		return &exit{status: exitUnavailable}
	}
	return nil
}

func (c *call) writeEnsemble(e doctor.Ensemble) error {
	if c.output == "json" {
		return c.json(e)
	}
	rows := [][]string{{"SERVER", "MODE", "VERSION", "ZXID", "LAG", "LATENCY", "CONNECTIONS", "OUTSTANDING", "WATCHES", "NODES"}}
	for _, s := range e.Servers {
		if s.Error != "" {
			rows = append(rows, []string{s.Address, "error: " + printable(s.Error)})
			continue
		}
		rows = append(rows, []string{
			s.Address, s.Mode, s.Version, s.Zxid, orUnknown(s.Lag), s.Latency,
			orUnknown(s.Connections), orUnknown(s.Outstanding), orUnknown(s.Watches), orUnknown(s.Nodes),
		})
	}
	if err := c.table(rows); err != nil {
		return err
	}
	text := "quorum: " + map[bool]string{true: "yes", false: "no"}[e.Quorum]
	if e.SafeSessionTimeout > 0 {
		text += fmt.Sprintf("; session timeouts from %v are safe with StandardErrorPolicy", time.Duration(e.SafeSessionTimeout)*time.Millisecond)
	}
	return c.println(text)
}

// verbWhoAmI lists the identities that a server has for this command.
func verbWhoAmI(ctx context.Context, c *call) error {
	found, err := c.client.WhoAmI(ctx)
	if err != nil {
		return err
	}
	list, texts := []aclEntry{}, []string{}
	for _, identity := range found {
		list, texts = append(list, aclEntry{Scheme: identity.Scheme, ID: identity.ID}), append(texts, printable(identity.String()))
	}
	slices.Sort(texts)
	return c.say(list, texts...)
}
