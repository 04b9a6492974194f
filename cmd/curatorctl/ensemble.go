// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
)

// server is what one server says about itself.
type server struct {
	Address     string `json:"address"`
	Error       string `json:"error,omitempty"`
	Mode        string `json:"mode,omitempty"`
	Version     string `json:"version,omitempty"`
	Zxid        string `json:"zxid,omitempty"`
	Lag         int64  `json:"lag"` // transactions behind the server that is farthest
	Latency     string `json:"latency,omitempty"`
	Connections int    `json:"connections"`
	Outstanding int    `json:"outstanding"`
	Nodes       int    `json:"nodes"`
	Watches     int    `json:"watches"`
	TickTime    int    `json:"tickTime,omitempty"`
	SyncLimit   int    `json:"syncLimit,omitempty"`

	zxid int64
}

// fields reads lines of "name<separator>value".
func fields(text, separator string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, separator); found {
			m[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return m
}

func (c *call) askServer(ctx context.Context, address string) server {
	s := server{Address: address}
	text, err := inspect.FourLetterWord(ctx, c.client, address, "srvr")
	if err != nil {
		s.Error = err.Error()
		return s
	}
	f := fields(text, ": ")
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	s.Mode, s.Zxid, s.Latency = f["Mode"], f["Zxid"], f["Latency min/avg/max"]
	s.Version, _, _ = strings.Cut(f["Zookeeper version"], ",")
	s.Connections, s.Outstanding, s.Nodes = number(f["Connections"]), number(f["Outstanding"]), number(f["Node count"])
	s.zxid, _ = strconv.ParseInt(strings.TrimPrefix(s.Zxid, "0x"), 16, 64)
	if s.Mode == "" {
		s.Error = oneLine(strings.TrimSpace(text)) // such as: not currently serving requests
	}
	// The others are not on every whitelist.
	if text, err := inspect.FourLetterWord(ctx, c.client, address, "mntr"); err == nil {
		s.Watches = number(fields(text, "\t")["zk_watch_count"])
	}
	if text, err := inspect.FourLetterWord(ctx, c.client, address, "conf"); err == nil {
		f := fields(text, "=")
		s.TickTime, s.SyncLimit = number(f["tickTime"]), number(f["syncLimit"])
	}
	return s
}

// ensemble is all servers.
type ensemble struct {
	Servers []server `json:"servers"`
	Quorum  bool     `json:"quorum"`

	// SafeSessionTimeout is the shortest one with which StandardErrorPolicy is safe, in
	// milliseconds; 0 if the servers do not say.
	SafeSessionTimeout int `json:"safeSessionTimeout,omitempty"`

	// Identities are those that a server has found in the credentials of this command.
	Identities []string `json:"identities,omitempty"`
}

func verbEnsemble(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		addresses := c.client.Servers()
		e := ensemble{Servers: make([]server, len(addresses))}
		var wg sync.WaitGroup
		for i, address := range addresses {
			wg.Go(func() { e.Servers[i] = c.askServer(ctx, address) })
		}
		if c.auth != "" || c.sasl != (saslSettings{}) {
			wg.Go(func() { e.Identities = c.identities(ctx) })
		}
		wg.Wait()
		e.judge()
		if err := c.writeEnsemble(e); err != nil {
			return err
		}
		if !e.Quorum {
			return &exit{status: exitUnavailable}
		}
		return nil
	}
}

func (c *call) writeEnsemble(e ensemble) error {
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
			s.Address, s.Mode, s.Version, s.Zxid, strconv.FormatInt(s.Lag, 10), s.Latency,
			strconv.Itoa(s.Connections), strconv.Itoa(s.Outstanding), strconv.Itoa(s.Watches), strconv.Itoa(s.Nodes),
		})
	}
	if err := c.table(rows); err != nil {
		return err
	}
	text := "quorum: " + map[bool]string{true: "yes", false: "no"}[e.Quorum]
	if e.SafeSessionTimeout > 0 {
		text += fmt.Sprintf("; session timeouts from %v are safe with StandardErrorPolicy", time.Duration(e.SafeSessionTimeout)*time.Millisecond)
	}
	if len(e.Identities) > 0 {
		text += "\nauthenticated as: " + printable(strings.Join(e.Identities, ", "))
	}
	return c.println(text)
}

// identities asks a server for the identities of this command. Without an answer it says why.
func (c *call) identities(ctx context.Context) []string {
	found, err := c.whoAmI(ctx)
	if err != nil {
		c.complainf("curatorctl: identities are not known: %s\n", said(err))
		return nil
	}
	return identityTexts(found)
}

func identityTexts(identities []framework.Identity) []string {
	var all []string
	for _, identity := range identities {
		all = append(all, identity.String())
	}
	slices.Sort(all)
	return all
}

func (c *call) whoAmI(ctx context.Context) ([]framework.Identity, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	found, err := client.WhoAmI(ctx)
	return found, errors.Join(err, client.Close())
}

// judge compares the servers.
func (e *ensemble) judge() {
	var newest int64
	for _, s := range e.Servers {
		newest = max(newest, s.zxid)
		switch s.Mode {
		case "leader", "follower", "observer", "standalone": // servers without a quorum have no mode, or read-only
			e.Quorum = true
		}
		if s.TickTime > 0 && s.Mode != "standalone" {
			e.SafeSessionTimeout = max(e.SafeSessionTimeout, 3*(s.SyncLimit+1)*s.TickTime/2)
		}
	}
	for i := range e.Servers {
		if s := &e.Servers[i]; s.Error == "" && s.zxid>>32 == newest>>32 {
			s.Lag = newest - s.zxid
		}
	}
}

// censusOrNote asks for the sessions for a verb that can do without, and says what is missing.
func (c *call) censusOrNote(ctx context.Context) inspect.Census {
	found, err := inspect.Sessions(ctx, c.client)
	if err != nil {
		c.complainf("curatorctl: sessions are not known: %s\n", said(err))
	}
	return found
}

func verbSessions(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		found, err := inspect.Sessions(ctx, c.client)
		sessions := found.Sessions
		if err != nil && len(sessions) == 0 {
			return err
		}
		if err != nil {
			c.complainf("curatorctl: sessions may be missing: %s\n", said(err))
		}
		list := []inspect.Session{}
		for _, id := range slices.Sorted(maps.Keys(sessions)) {
			list = append(list, *sessions[id])
		}
		if c.output == "json" {
			return c.json(list)
		}
		rows := [][]string{{"SESSION", "CLIENT", "SERVER", "TIMEOUT", "OWNS"}}
		for _, s := range list {
			owns := strconv.Itoa(len(s.Ephemerals))
			if c.output == "wide" && len(s.Ephemerals) > 0 {
				owns = printable(strings.Join(s.Ephemerals, " "))
			}
			rows = append(rows, []string{
				s.ID, cmp.Or(s.Client, "-"), cmp.Or(s.Server, "-"), (time.Duration(s.Timeout) * time.Millisecond).String(), owns,
			})
		}
		return c.table(rows)
	}
}
