// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

// verbSessions lists the sessions with what they own.
func verbSessions(ctx context.Context, c *call) error {
	found, err := inspect.Sessions(ctx, c.client)
	sessions := found.Sessions
	if err != nil && len(sessions) == 0 {
		return &exit{status: exitUnknown, err: fmt.Errorf("%w. %s", err, found.Remedy)}
	}
	if err != nil {
		c.complainf("curatorctl: sessions may be missing: %s. %s\n", said(err), found.Remedy)
	}
	list := []inspect.Session{}
	for _, id := range slices.Sorted(maps.Keys(sessions)) {
		list = append(list, *sessions[id])
	}
	rows := [][]string{{"SESSION", "CLIENT", "SERVER", "TIMEOUT", "LIFE", "OWNS"}}
	for _, s := range list {
		owns := strconv.Itoa(len(s.Ephemerals))
		if c.output == "wide" && len(s.Ephemerals) > 0 {
			owns = printable(strings.Join(s.Ephemerals, " "))
		}
		timeout := "-"
		if s.Timeout > 0 {
			timeout = (time.Duration(s.Timeout) * time.Millisecond).String()
		}
		rows = append(rows, []string{s.ID, cmp.Or(s.Client, "-"), cmp.Or(s.Server, "-"), timeout, string(s.Life), owns})
	}
	return c.show(list, rows)
}

// censusOrNote asks for the sessions for a verb that can do without, and says what is missing.
func (c *call) censusOrNote(ctx context.Context) inspect.Census {
	found, err := inspect.Sessions(ctx, c.client)
	if err != nil {
		c.complainf("curatorctl: sessions are not known: %s. %s\n", said(err), found.Remedy)
	}
	return found
}
