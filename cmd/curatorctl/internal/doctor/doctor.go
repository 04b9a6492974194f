// SPDX-License-Identifier: Apache-2.0

// Package doctor finds what will hurt an ensemble or its clients: servers that are away, limits that are near, sessions without clients, wrong
// clocks. What it cannot examine is a finding, too, of the kind unknown.
package doctor

import (
	"cmp"
	"context"
	"errors"
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

// Finding is something that will hurt, or that is not known.
type Finding struct {
	About string `json:"about"` // kind of the finding
	Where string `json:"where"` // servers, session or path
	Text  string `json:"text"`
	Mend  string `json:"mend"`
	More  int    `json:"more,omitempty"` // of the last one of its kind that is kept: others that are left out
	Note  bool   `json:"note,omitempty"` // it may be of no effect, and does not count for the status
}

// Kinds are the kinds of findings, the worst first.
var Kinds = []string{
	"server", "connections", "load", "session", "quota", "children", "size", "clock", "timeout", "empty", "version", notKnown,
}

// notKnown is the kind of what could not be examined.
const notKnown = "unknown"

// Doctor gathers findings.
type Doctor struct {
	servers Ensemble
	name    string // of all servers
	client  *framework.Framework
	root    string // of the tree that is examined
	found   []Finding
	kept    map[string][]int // the places of those of a kind
}

// New returns a doctor that has looked at the servers, which it calls by a name when it means all of them.
func New(name string, e Ensemble) *Doctor {
	d := &Doctor{servers: e, name: name, found: []Finding{}, kept: make(map[string][]int)}
	d.examineServers()
	return d
}

// Examine looks at what a connected client can see: sessions, the znodes from path on, and quotas.
func (d *Doctor) Examine(ctx context.Context, client *framework.Framework, path string) error {
	d.client, d.root = client, path
	d.examineSessions(ctx)
	if err := d.examineTree(ctx, []string{path}); err != nil {
		return err
	}
	return d.examineQuotas(ctx)
}

// Findings are those until now, the worst first, without some kinds.
func (d *Doctor) Findings(except ...string) []Finding {
	found := slices.DeleteFunc(slices.Clone(d.found), func(a Finding) bool { return slices.Contains(except, a.About) })
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Compare(slices.Index(Kinds, a.About), slices.Index(Kinds, b.About))
	})
	return found
}

// findf adds a finding. What several servers have in common is one.
func (d *Doctor) findf(about, where, mend, format string, args ...any) *Finding {
	a := Finding{About: about, Where: where, Text: fmt.Sprintf(format, args...), Mend: mend}
	for _, i := range d.kept[about] {
		if f := &d.found[i]; f.Text == a.Text && f.Mend == mend && !strings.HasPrefix(where, "/") {
			f.Where += ", " + where
			return f
		}
	}
	if of := d.kept[about]; len(of) == shownOfOne {
		d.found[of[shownOfOne-1]].More++
		return new(Finding)
	}
	d.kept[about] = append(d.kept[about], len(d.found))
	d.found = append(d.found, a)
	return &d.found[len(d.found)-1]
}

// Answer says whether there is something wrong among the findings.
func Answer(found []Finding) inspect.Answer {
	answer := inspect.No
	for _, a := range found {
		switch {
		case a.Note:
		case a.About != notKnown:
			answer = inspect.Yes
		case answer == inspect.No:
			answer = inspect.Unknown
		}
	}
	return answer
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
func (d *Doctor) examineServers() {
	if !d.servers.Quorum {
		d.findf("server", d.name, "Start more of its servers.", "no server has a quorum")
	}
	for _, s := range d.servers.Servers {
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
func (s Server) remedy() string {
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
func (d *Doctor) examineLimits(s Server) {
	address := s.Address
	if open, most := number(s.mntr["zk_open_file_descriptor_count"]), number(s.mntr["zk_max_file_descriptor_count"]); most > 0 && float64(open) >= near*float64(most) {
		d.findf("load", address, "Raise the limit of open files, or close connections.", "it has %d of %d file descriptors", open, most)
	}
	if reply := max(number(s.mntr["zk_max_client_response_size"]), number(s.mntr["zk_last_client_response_size"])); reply >= halfOfBuffer {
		d.findf("load", address, "Look for long lists and large znodes below.", "it has sent a reply of %d bytes. Clients in Java refuse more than jute.maxbuffer, by default %d", reply, maxBuffer)
	}
}

// examineSessions compares timeouts, clocks and connections, and looks for sessions without a client.
func (d *Doctor) examineSessions(ctx context.Context) {
	census, _ := inspect.Sessions(ctx, d.client) // what is missing says the same
	if len(census.Missing) > 0 {
		d.findf(notKnown, d.name, census.Remedy, "whether clients are alive is not known of all sessions: %s", inspect.OneLine(strings.Join(census.Missing, "; ")))
	}
	for _, s := range census.Sessions {
		if s.Life == inspect.LifeLost && len(s.Ephemerals) > 0 {
			d.findf("session", s.ID, "Wait, or delete the znodes if the client is certain to be gone.",
				"it has no client, and owns %d ephemeral znodes such as %s until it expires at %s", len(s.Ephemerals), s.Ephemerals[0], cmp.Or(s.Expires, "an unknown time"))
		}
	}
	d.examineTimeouts(census, d.servers.SafeSessionTimeout)
	d.examineConnections(census)
	d.examineClock(census)
}

// examineTimeouts counts the sessions of clients whose timeouts are below the safe one, in milliseconds.
func (d *Doctor) examineTimeouts(census inspect.Census, safe int) {
	short, shortest := 0, safe
	for _, s := range census.Sessions {
		if s.Client != "" && s.Timeout > 0 && s.Timeout < safe {
			short++
			shortest = min(shortest, s.Timeout)
		}
	}
	if short > 0 {
		d.findf("timeout", d.name, "Use longer session timeouts, or QuorumErrorPolicy.",
			"%d sessions have timeouts below %v, the shortest %v: with StandardErrorPolicy, and in Java, a holder behind a follower that is cut off may learn of its loss too late",
			short, time.Duration(safe)*time.Millisecond, time.Duration(shortest)*time.Millisecond)
	}
}

// examineConnections compares the connections of each host with the limit of its server.
func (d *Doctor) examineConnections(census inspect.Census) {
	connections := make(map[[2]string]int) // of a server, from a host
	for _, s := range census.Sessions {
		if host, _, err := net.SplitHostPort(s.Client); err == nil {
			connections[[2]string{s.Server, host}]++
		}
	}
	for _, s := range d.servers.Servers {
		most := number(s.conf["maxClientCnxns"])
		for at, n := range connections {
			if at[0] == s.Address && most > 0 && float64(n) >= near*float64(most) {
				d.findf("connections", s.Address, "Raise maxClientCnxns, or share one client in each process.", "%s has %d of %d connections (maxClientCnxns)", at[1], n, most)
			}
		}
	}
}

// examineClock compares the clock of the leader, which says when the doctor's own session expires, with this machine's.
func (d *Doctor) examineClock(census inspect.Census) {
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
func (d *Doctor) examineTree(ctx context.Context, paths []string) error {
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
			if errs[i] != nil {
				if err := d.passOver(path, errs[i]); err != nil {
					return err
				}
				continue
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
		d.examineLeft(left)
	}
	return nil
}

// passOver returns the error of a read, unless the doctor can go on without the znode.
func (d *Doctor) passOver(path string, err error) error {
	switch {
	case errors.Is(err, framework.ErrNoAuth):
		d.findf(notKnown, path, "Ask as a user that may read it.", "what is in it is not known: it may not be listed")
		return nil
	case errors.Is(err, framework.ErrNoNode) && path != d.root: // it was deleted since its parent was listed
		return nil
	default:
		return err
	}
}

// examineLeft finds the parents of many folders that were left empty.
func (d *Doctor) examineLeft(left map[string]int) {
	for parent, n := range left {
		if n >= examined/2 { // containers are among them for a minute
			d.findf("empty", parent, "Create parents as containers, as locks of this library do, and delete these: curatorctl find, curatorctl rm.",
				"%d folders in it had children and have none any more, such as those of locks that are not used", n)
		}
	}
}

func (d *Doctor) examineZnode(path string, names []string, s framework.Stat) {
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
func (d *Doctor) examineQuotas(ctx context.Context) error {
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
