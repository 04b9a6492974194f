// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
)

// server is what one server says about itself.
type server struct {
	Address   string `json:"address"`
	Error     string `json:"error,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Version   string `json:"version,omitempty"`
	Zxid      string `json:"zxid,omitempty"`
	Latency   string `json:"latency,omitempty"`
	TickTime  int    `json:"tickTime,omitempty"`
	SyncLimit int    `json:"syncLimit,omitempty"`

	// These are null where the server does not say them.
	Lag         *int64 `json:"lag"` // transactions behind the server that is farthest; unknown while they serve different leaders
	Connections *int   `json:"connections"`
	Outstanding *int   `json:"outstanding"`
	Nodes       *int   `json:"nodes"`
	Watches     *int   `json:"watches"`

	hangsUp bool // it ends connections without an answer

	zxid       int64
	mntr, conf map[string]string // what the words say; empty if they are not on its whitelist
}

// number reads a number, which is 0 if a server does not say it.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// known reads a number, which is nil if a server does not say it.
func known(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// valueOf returns what a server says, 0 if it does not.
func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// orUnknown writes a number for people.
func orUnknown[T any](n *T) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func (c *call) askServer(ctx context.Context, address string) server {
	s := server{Address: address}
	text, err := inspect.FourLetterWord(ctx, c.client, address, "srvr")
	if err != nil {
		s.Error = err.Error()
		s.hangsUp = s.Error == "no answer" || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		return s
	}
	f := fields(text, ": ")
	s.Mode, s.Zxid, s.Latency = f["Mode"], f["Zxid"], f["Latency min/avg/max"]
	s.Version, _, _ = strings.Cut(f["Zookeeper version"], ",")
	s.Version, _, _ = strings.Cut(s.Version, "-$") // the build of Debian names a variable of its build tool
	s.Connections, s.Outstanding, s.Nodes = known(f["Connections"]), known(f["Outstanding"]), known(f["Node count"])
	s.zxid, _ = strconv.ParseInt(strings.TrimPrefix(s.Zxid, "0x"), 16, 64)
	if s.Mode == "" {
		s.Error = oneLine(strings.TrimSpace(text)) // such as: not currently serving requests
	}
	text, _ = inspect.FourLetterWord(ctx, c.client, address, "mntr")
	s.mntr = fields(text, "\t")
	text, _ = inspect.FourLetterWord(ctx, c.client, address, "conf")
	s.conf = fields(text, "=")
	s.Watches, s.TickTime, s.SyncLimit = known(s.mntr["zk_watch_count"]), number(s.conf["tickTime"]), number(s.conf["syncLimit"])
	return s
}

// askServers asks all servers at a time, and compares them.
func (c *call) askServers(ctx context.Context) ensemble {
	addresses := c.client.Servers()
	e := ensemble{Servers: make([]server, len(addresses))}
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() { e.Servers[i] = c.askServer(ctx, address) })
	}
	wg.Wait()
	e.judge()
	return e
}

// ensemble is all servers.
type ensemble struct {
	Servers []server `json:"servers"`
	Quorum  bool     `json:"quorum"`

	// SafeSessionTimeout is the shortest one with which StandardErrorPolicy is safe, in
	// milliseconds; 0 if the servers do not say.
	SafeSessionTimeout int `json:"safeSessionTimeout,omitempty"`
}

// verbEnsemble shows all servers.
func verbEnsemble(ctx context.Context, c *call) error {
	e := c.askServers(ctx)
	if err := c.writeEnsemble(e); err != nil {
		return err
	}
	if !e.Quorum {
		return &exit{status: exitUnavailable}
	}
	return nil
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

func identityTexts(identities []framework.Identity) []string {
	var all []string
	for _, identity := range identities {
		all = append(all, identity.String())
	}
	slices.Sort(all)
	return all
}

// verbWhoAmI lists the identities that a server has for this command.
func verbWhoAmI(ctx context.Context, c *call) error {
	found, err := c.client.WhoAmI(ctx)
	if err != nil {
		return err
	}
	list := []aclEntry{}
	for _, identity := range found {
		list = append(list, aclEntry{Scheme: identity.Scheme, ID: identity.ID})
	}
	return c.say(list, allPrintable(identityTexts(found))...)
}

// judge compares the servers.
func (e *ensemble) judge() {
	var newest int64
	for _, s := range e.Servers {
		newest = max(newest, s.zxid)
		e.Quorum = e.Quorum || serves(s.Mode)
		if s.TickTime > 0 && s.Mode != "standalone" {
			e.SafeSessionTimeout = max(e.SafeSessionTimeout, 3*(s.SyncLimit+1)*s.TickTime/2)
		}
	}
	for i := range e.Servers {
		if s := &e.Servers[i]; s.Error == "" && s.zxid>>32 == newest>>32 {
			lag := newest - s.zxid
			s.Lag = &lag
		}
	}
}
