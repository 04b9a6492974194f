// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
)

// Limits of servers that they do not tell, and how near is too near.
const (
	maxBuffer      = 0xfffff // jute.maxbuffer, by default: bytes of a request or a reply
	maxOutstanding = 1000    // globalOutstandingLimit, by default
	manyWatches    = 500_000 // of one server, some hundred bytes each
	near           = 0.8     // of a limit
	halfOfBuffer   = maxBuffer / 2
	manyChildren   = 10_000 // lists of them are slow
	wrongClock     = 30 * time.Second
	examined       = 500 // znodes that are asked for at a time
	shownOfOne     = 10  // findings of one kind
)

// ailment is a finding of the doctor.
type ailment struct {
	About string `json:"about"` // kind of the finding
	Where string `json:"where"` // servers, session or path
	Text  string `json:"text"`
	Mend  string `json:"mend"`
	More  int    `json:"more,omitempty"` // of the last one of its kind that is kept: others that are left out
	Note  bool   `json:"note,omitempty"` // it may be of no effect, and does not count for the status
}

// kinds are the kinds of findings, the worst first.
var kinds = []string{
	"server", "connections", "load", "session", "quota", "children", "size", "clock", "timeout", "empty", "version", notKnown,
}

// notKnown is the kind of what could not be examined.
const notKnown = "unknown"

// doctor gathers findings.
type doctor struct {
	*call
	found []ailment
	kept  map[string][]int // the places of those of a kind
}

// findf adds a finding. What several servers have in common is one.
func (d *doctor) findf(about, where, mend, format string, args ...any) *ailment {
	a := ailment{About: about, Where: where, Text: fmt.Sprintf(format, args...), Mend: mend}
	for _, i := range d.kept[about] {
		if f := &d.found[i]; f.Text == a.Text && f.Mend == mend && !strings.HasPrefix(where, "/") {
			f.Where += ", " + where
			return f
		}
	}
	if of := d.kept[about]; len(of) == shownOfOne {
		d.found[of[shownOfOne-1]].More++
		return new(ailment)
	}
	d.kept[about] = append(d.kept[about], len(d.found))
	d.found = append(d.found, a)
	return &d.found[len(d.found)-1]
}

// verbDoctor looks for what will hurt.
func verbDoctor(fs *flag.FlagSet) action {
	var except []string
	fs.Func("except", "leave out these `kinds` of findings, such as version,timeout", func(text string) error {
		except = strings.Split(text, ",")
		for _, kind := range except {
			if !slices.Contains(kinds, kind) {
				return fmt.Errorf("%q, expected some of %s", kind, strings.Join(kinds, ", "))
			}
		}
		return nil
	})
	return func(ctx context.Context, c *call) error {
		d := &doctor{call: c, found: []ailment{}, kept: make(map[string][]int)}
		e := c.askServers(ctx)
		d.examineServers(e)
		if e.Quorum {
			limited, cancel := c.limited(ctx)
			defer cancel()
			if err := c.with(limited, c.connect, func() error { return d.examine(ctx, e) }); err != nil {
				return err
			}
		}
		d.found = slices.DeleteFunc(d.found, func(a ailment) bool { return slices.Contains(except, a.About) })
		return cmp.Or(d.write(), d.status())
	}
}

func (d *doctor) status() error {
	answer := inspect.No
	for _, a := range d.found {
		switch {
		case a.Note:
		case a.About != notKnown:
			answer = inspect.Yes
		case answer == inspect.No:
			answer = inspect.Unknown
		}
	}
	return answered(answer)
}

// examine looks at what a client that is connected can see.
func (d *doctor) examine(ctx context.Context, e ensemble) error {
	d.examineSessions(ctx, e)
	if err := d.examineTree(ctx, []string{d.arg(0, "/")}); err != nil {
		return err
	}
	return d.examineQuotas(ctx)
}

func (d *doctor) write() error {
	slices.SortStableFunc(d.found, func(a, b ailment) int {
		return cmp.Compare(slices.Index(kinds, a.About), slices.Index(kinds, b.About))
	})
	var lines []string
	for _, a := range d.found {
		lines = append(lines, fmt.Sprintf("%s: %s: %s\n    %s", a.About, printable(a.Where), printable(a.Text), a.Mend))
		if a.More > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d more", a.About, a.More))
		}
	}
	return d.say(d.found, lines...)
}

// fault is what is wrong with versions of ZooKeeper from one on, until another.
type fault struct{ from, until, text string }

// faults are those that matter to clients of this library.
var faults = []fault{
	{"0", "3.5.5", "it shows the hashes of passwords in access control lists to all clients (CVE-2019-0201)"},
	{"0", "3.6.0", "it has no persistent watches: caches and contention take more requests"},
	{"3.5.0", "3.6.0", "after 2147483647 its sequence numbers go on with negative ones, which few clients but this library order rightly"},
	{"3.6.0", "3.8.4", "its watches tell clients of znodes that they may not read (CVE-2024-23944)"},
	{"3.9.0", "3.9.2", "its watches tell clients of znodes that they may not read (CVE-2024-23944)"},
	{"0", "3.7.2", "an unauthorized server can join its ensemble where SASL guards that (CVE-2023-44981)"},
	{"3.8.0", "3.8.3", "an unauthorized server can join its ensemble where SASL guards that (CVE-2023-44981)"},
	{"3.9.0", "3.9.1", "an unauthorized server can join its ensemble where SASL guards that (CVE-2023-44981)"},
	{"3.9.0", "3.9.3", "its admin server believes the addresses that requests claim (CVE-2024-51504)"},
	{"3.8.0", "3.8.6", "it takes a certificate for the name that reverse DNS has for an address (CVE-2026-24281)"},
	{"3.9.0", "3.9.5", "it takes a certificate for the name that reverse DNS has for an address (CVE-2026-24281)"},
}

var versionNumber = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)`)

// versionOf returns a number that grows with the version, and 0 for a text that is none.
func versionOf(text string) (n int) {
	m := versionNumber.FindStringSubmatch(text)
	for i := 1; i < len(m); i++ {
		part, _ := strconv.Atoi(m[i])
		n = 1000*n + part
	}
	return n
}

// whitelist is the line that has servers say what this command asks them.
const whitelist = "Write 4lw.commands.whitelist=srvr,mntr,conf,cons,dump into zoo.cfg of each server and restart it"

// isRelease matches the version of a build of the project itself, which ends with a commit. Distributions patch theirs.
var isRelease = regexp.MustCompile(`-[0-9a-f]{40}$`)

// examineServers looks at each server.
func (d *doctor) examineServers(e ensemble) {
	if !e.Quorum {
		d.findf("server", d.servers, "Start more of its servers.", "no server has a quorum")
	}
	for _, s := range e.Servers {
		address := s.Address
		if s.Error != "" {
			d.findf("server", address, s.remedy(), "it does not say how it is: %s", s.Error)
			continue
		}
		if len(s.mntr) == 0 || len(s.conf) == 0 {
			d.findf(notKnown, address, whitelist+".", "watches, file descriptors, limits and the safe session timeout are not known: mntr or conf is not allowed")
		}
		version := versionOf(s.Version)
		for _, f := range faults {
			if version != 0 && version >= versionOf(f.from) && version < versionOf(f.until) {
				found := d.findf("version", address, "Upgrade to "+f.until+" or later, unless your distribution has patched it. -except version leaves this out.",
					"ZooKeeper %s: %s", cmp.Or(strings.SplitN(s.Version, "-", 2)[0], s.Version), f.text)
				found.Note = !isRelease.MatchString(s.Version)
			}
		}
		if n := valueOf(s.Outstanding); n >= maxOutstanding/2 {
			d.findf("load", address, "Find the clients with the most requests: curatorctl sessions -o wide, and the word cons. Read in pipelines, and watch instead of polling.",
				"%d requests are outstanding. From globalOutstandingLimit on, by default %d, the server stops reading", n, maxOutstanding)
		}
		if n := valueOf(s.Watches); n >= manyWatches {
			d.findf("load", address, "Use one recursive watch, as the caches of this library do, instead of one for each znode.", "it has %d watches, some hundred bytes each", n)
		}
		d.examineLimits(s)
	}
}

// remedy is what helps with a server that does not say how it is.
func (s server) remedy() string {
	switch {
	case strings.Contains(s.Error, "whitelist"):
		return whitelist + "."
	case s.hangsUp:
		return "It ends connections at once: it has as many from this address as maxClientCnxns allows, or it expects TLS. Its log says so."
	case strings.Contains(s.Error, "refused"):
		return "Start it."
	default:
		return "See its log."
	}
}

// examineLimits looks at what a server says of its own limits.
func (d *doctor) examineLimits(s server) {
	address := s.Address
	if open, most := number(s.mntr["zk_open_file_descriptor_count"]), number(s.mntr["zk_max_file_descriptor_count"]); most > 0 && float64(open) >= near*float64(most) {
		d.findf("load", address, "Raise the limit of open files, or close connections.", "it has %d of %d file descriptors", open, most)
	}
	if reply := max(number(s.mntr["zk_max_client_response_size"]), number(s.mntr["zk_last_client_response_size"])); reply >= halfOfBuffer {
		d.findf("load", address, "Look for long lists and large znodes below.", "it has sent a reply of %d bytes. Clients in Java refuse more than jute.maxbuffer, by default %d", reply, maxBuffer)
	}
}

// examineSessions compares timeouts, clocks and connections, and looks for sessions without a client.
func (d *doctor) examineSessions(ctx context.Context, e ensemble) {
	census, err := inspect.Sessions(ctx, d.client)
	if len(census.Missing) > 0 {
		d.findf(notKnown, d.servers, census.Remedy, "whether clients are alive is not known of all sessions: %s", oneLine(strings.Join(census.Missing, "; ")))
	} else if err != nil {
		d.findf(notKnown, d.servers, "Ask again.", "sessions are not known: %s", said(err))
	}
	safe := e.SafeSessionTimeout
	short, shortest := 0, safe
	connections := make(map[[2]string]int) // of a server, from a host
	for _, s := range census.Sessions {
		if host, _, err := net.SplitHostPort(s.Client); err == nil {
			connections[[2]string{s.Server, host}]++
		}
		if s.Life == inspect.LifeLost && len(s.Ephemerals) > 0 {
			d.findf("session", s.ID, "Wait, or delete the znodes if the client is certain to be gone.",
				"it has no client, and owns %d ephemeral znodes such as %s until it expires at %s", len(s.Ephemerals), s.Ephemerals[0], cmp.Or(s.Expires, "an unknown time"))
		}
		if s.Client != "" && s.Timeout > 0 && s.Timeout < safe {
			short++
			shortest = min(shortest, s.Timeout)
		}
	}
	if short > 0 {
		d.findf("timeout", d.servers, "Use longer session timeouts, or QuorumErrorPolicy.",
			"%d sessions have timeouts below %v, the shortest %v: with StandardErrorPolicy, and in Java, a holder behind a follower that is cut off may learn of its loss too late",
			short, time.Duration(safe)*time.Millisecond, time.Duration(shortest)*time.Millisecond)
	}
	for _, s := range e.Servers {
		most := number(s.conf["maxClientCnxns"])
		for at, n := range connections {
			if at[0] == s.Address && most > 0 && float64(n) >= near*float64(most) {
				d.findf("connections", s.Address, "Raise maxClientCnxns, or share one client in each process.", "%s has %d of %d connections (maxClientCnxns)", at[1], n, most)
			}
		}
	}
	own := census.Sessions[d.client.Session().ID()]
	if own == nil {
		return
	}
	expires, err := time.Parse(time.RFC3339, own.Expires)
	if ahead := time.Until(expires) - d.client.Session().Timeout(); err == nil && ahead.Abs() > wrongClock {
		d.findf("clock", own.Server, "Set the clocks with NTP. No lock depends on them, but ages, schedules and TTL nodes do.",
			"the clock of the leader differs from this machine's by about %v", ahead.Round(time.Second))
	}
}

// examineTree looks at znodes and at what is below them, with one request for each.
func (d *doctor) examineTree(ctx context.Context, paths []string) error {
	for part := range slices.Chunk(paths, examined) {
		names, stats, errs := make([][]string, len(part)), make([]framework.Stat, len(part)), make([]error, len(part))
		reads := make([]framework.Read, len(part))
		for i, path := range part {
			reads[i] = framework.ReadChildren(path, &names[i], framework.StoringStatIn(&stats[i])).StoringErrorIn(&errs[i])
		}
		if err := d.client.Pipeline(ctx, reads...); err != nil {
			return err
		}
		left := make(map[string]int) // folders that were left empty, by parent
		var below []string
		for i, path := range part {
			switch {
			case errs[i] == nil:
			case errors.Is(errs[i], framework.ErrNoAuth):
				d.complainOf([]string{path})
				continue
			case errors.Is(errs[i], framework.ErrNoNode) && path != d.arg(0, "/"):
				continue
			default:
				return errs[i]
			}
			d.examineZnode(path, names[i], stats[i])
			if s := stats[i]; s.EphemeralOwner == 0 && s.NumChildren == 0 && s.DataLength == 0 && s.Cversion > 0 {
				parent, _ := framework.SplitPath(path)
				left[parent]++
			}
			for _, name := range names[i] {
				if child := framework.JoinPath(path, name); d.client.FullPath(child) != "/zookeeper" {
					below = append(below, child)
				}
			}
		}
		if err := d.examineTree(ctx, below); err != nil {
			return err
		}
		for parent, n := range left {
			if n >= examined/2 { // containers are among them for a minute
				d.findf("empty", parent, "Create parents as containers, as locks of this library do, and delete these: curatorctl find, curatorctl rm.",
					"%d folders in it had children and have none any more, such as those of locks that are not used", n)
			}
		}
	}
	return nil
}

func (d *doctor) examineZnode(path string, names []string, s framework.Stat) {
	bytes := 0
	for _, name := range names {
		bytes += len(name) + 4
	}
	switch {
	case bytes >= halfOfBuffer:
		d.findf("children", path, "Divide it into several folders. Above the limit no client can list it, or delete what is in it.",
			"its list of %d children is %d bytes long, and jute.maxbuffer is %d by default", len(names), bytes, maxBuffer)
	case len(names) >= manyChildren:
		d.findf("children", path, "Divide it into several folders.", "it has %d children: each list of them is slow", len(names))
	}
	if s.DataLength >= halfOfBuffer {
		d.findf("size", path, "Keep the data elsewhere, and the place of it here.", "it has %d bytes, and a request may have jute.maxbuffer, by default %d", s.DataLength, maxBuffer)
	}
}

var quotaLimit = regexp.MustCompile(`(count|bytes|countHardLimit|byteHardLimit)=(-?\d+)`)

// examineQuotas compares quotas with what is used.
func (d *doctor) examineQuotas(ctx context.Context) error {
	const root = "/zookeeper/quota"
	if d.client.FullPath("/") != "/" {
		return nil // they are outside the chroot
	}
	nodes, err := inspect.Tree(ctx, d.client, root)
	if errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNoAuth) {
		return nil
	}
	limits := make(map[string]map[string]int)
	for _, z := range nodes {
		folder, name := framework.SplitPath(z.Path)
		said := make(map[string]int)
		for _, m := range quotaLimit.FindAllStringSubmatch(string(z.Data), -1) {
			said[m[1]], _ = strconv.Atoi(m[2])
		}
		switch name {
		case "zookeeper_limits":
			limits[folder] = said
		case "zookeeper_stats": // comes after the limits
			most := limits[folder]
			for what, names := range map[string][]string{"count": {"count", "countHardLimit"}, "bytes": {"bytes", "byteHardLimit"}} {
				for _, name := range names {
					if n := most[name]; n > 0 && float64(said[what]) >= near*float64(n) {
						d.findf("quota", strings.TrimPrefix(folder, root), "Delete znodes, or raise the quota with setquota of zkCli.", "%d of %d are used (%s)", said[what], n, name)
					}
				}
			}
		}
	}
	return err
}
