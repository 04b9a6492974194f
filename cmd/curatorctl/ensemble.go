// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// wordLimit bounds how long one server may take to answer a four-letter word.
const wordLimit = 3 * time.Second

// fourLetters asks one server, over a connection as the client makes them.
func (c *call) fourLetters(ctx context.Context, server, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordLimit)
	defer cancel()
	conn, err := c.client.Dialer()(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	switch {
	case ctx.Err() != nil: // the answer may end before its end
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("%s: %w", word, err)
	case len(answer) == 0:
		return "", errors.New("no answer")
	case answer[len(answer)-1] != '\n':
		return "", fmt.Errorf("%s: %w", word, errTruncated)
	case strings.Contains(string(answer), "is not executed because it is not in the whitelist"):
		return "", fmt.Errorf("%s is not in 4lw.commands.whitelist", word)
	}
	return string(answer), nil
}

// errTruncated is an answer that ends within a line.
var errTruncated = errors.New("the answer is truncated")

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
	text, err := c.fourLetters(ctx, address, "srvr")
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
	if text, err := c.fourLetters(ctx, address, "mntr"); err == nil {
		s.Watches = number(fields(text, "\t")["zk_watch_count"])
	}
	if text, err := c.fourLetters(ctx, address, "conf"); err == nil {
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

// session is one session, as the servers know it.
type session struct {
	ID         string   `json:"id"`
	Client     string   `json:"client,omitempty"`  // address of its connection
	Server     string   `json:"server,omitempty"`  // that has the connection
	Timeout    int      `json:"timeout,omitempty"` // milliseconds
	Expires    string   `json:"expires,omitempty"` // as the leader says, without renewal
	Ephemerals []string `json:"ephemerals"`
}

var consLine = regexp.MustCompile(`^\s*/?(\S+?)\[\d+\]\((.*)\)\s*$`)

// readCons adds what the word cons says about connections.
func readCons(sessions map[int64]*session, server, text string) {
	for line := range strings.Lines(text) {
		m := consLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		f := make(map[string]string)
		for pair := range strings.SplitSeq(m[2], ",") {
			name, value, _ := strings.Cut(pair, "=")
			f[name] = value
		}
		if id, ok := sessionID(f["sid"]); ok {
			s := sessionOf(sessions, id)
			s.Client, s.Server = m[1], server
			s.Timeout, _ = strconv.Atoi(f["to"])
		}
	}
}

// dateOf returns a date of Java's in RFC 3339. One that cannot be read, such as one of a time zone whose
// letters say no offset, stays what it is.
func dateOf(text string) string {
	when, err := time.Parse(time.UnixDate, text)
	if zone, offset := when.Zone(); err != nil || offset == 0 && zone != "UTC" && zone != "GMT" {
		return text
	}
	return when.UTC().Format(time.RFC3339)
}

func sessionID(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 0, 64)
	return int64(n), err == nil && n != 0 //nolint:gosec // sessions are printed as unsigned numbers
}

func sessionOf(sessions map[int64]*session, id int64) *session {
	if sessions[id] == nil {
		sessions[id] = &session{ID: sessionText(id), Ephemerals: []string{}}
	}
	return sessions[id]
}

// readDump adds what the word dump says: when sessions expire, and what they own.
func readDump(sessions map[int64]*session, text string) {
	expires, owner := "", int64(0)
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		before, date, isExpiry := strings.Cut(trimmed, " expire at ")
		id, isSession := sessionID(strings.TrimSuffix(trimmed, ":"))
		switch {
		case isExpiry && before != "":
			expires, owner = dateOf(strings.TrimSuffix(date, ":")), 0
		case isSession && strings.HasSuffix(trimmed, ":"):
			owner, expires = id, ""
		case isSession && expires != "":
			sessionOf(sessions, id).Expires = expires
		case owner != 0 && strings.HasPrefix(trimmed, "/"):
			s := sessionOf(sessions, owner)
			if !slices.Contains(s.Ephemerals, trimmed) {
				s.Ephemerals = append(s.Ephemerals, trimmed)
			}
		default:
			owner, expires = 0, ""
		}
	}
}

// census is the sessions as the servers know them.
type census struct {
	sessions map[int64]*session
	asked    []string // the servers that have listed their connections
	whole    bool     // those are all servers of the ensemble
}

// takeCensus asks all servers. What they do not say is in the error, beside what others do.
func (c *call) takeCensus(ctx context.Context) (census, error) {
	found := census{sessions: make(map[int64]*session)}
	var errs []error
	var roll members
	for _, address := range c.client.Servers() {
		for _, word := range []string{"cons", "dump"} {
			text, err := c.fourLetters(ctx, address, word)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", address, err))
			case word == "cons":
				found.asked = append(found.asked, address)
				readCons(found.sessions, address, text)
			default:
				readDump(found.sessions, text)
			}
		}
		text, err := c.fourLetters(ctx, address, "conf")
		roll.read(text, err)
	}
	found.whole = len(errs) == 0 && roll.areAsked()
	return found, errors.Join(errs...)
}

// members compares the servers that were asked with the servers that there are.
type members struct {
	listed, asked []string // server.N
	unknown       bool     // a server has not said which there are
}

// read adds what the word conf says.
func (m *members) read(text string, err error) {
	f := fields(text, "=")
	_, inQuorum := f["quorumPort"]
	n := len(m.listed)
	for name := range f {
		if strings.HasPrefix(name, "server.") {
			m.listed = append(m.listed, name)
		}
	}
	if err != nil || inQuorum && len(m.listed) == n { // as before ZooKeeper 3.5
		m.unknown = true
	}
	m.asked = append(m.asked, "server."+f["serverId"])
}

func (m *members) areAsked() bool {
	return !m.unknown && !slices.ContainsFunc(m.listed, func(name string) bool { return !slices.Contains(m.asked, name) })
}

// censusOrNote is takeCensus for a verb that can do without, and says what is missing.
func (c *call) censusOrNote(ctx context.Context) census {
	found, err := c.takeCensus(ctx)
	if err != nil {
		c.complainf("curatorctl: sessions are not known: %s\n", said(err))
	}
	return found
}

// describe says whether the owner of a node is alive.
func (n census) describe(id int64) string {
	s, found := n.sessions[id]
	switch {
	case id == 0:
		return "no session: the node stays until it is deleted"
	case !found:
		return "session " + sessionText(id)
	case s.Client != "":
		return fmt.Sprintf("session %s is connected from %s to %s, timeout %v", sessionText(id), s.Client, s.Server,
			time.Duration(s.Timeout)*time.Millisecond)
	}
	connection := " has no connection"
	switch {
	case len(n.asked) == 0:
		connection = ": no server has listed its connections"
	case !n.whole: // another server may have it
		connection = ": no connection at the servers asked (" + strings.Join(n.asked, ", ") + ")"
	}
	return fmt.Sprintf("session %s%s, expires at %s", sessionText(id), connection, cmp.Or(s.Expires, "an unknown time"))
}

func verbSessions(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		found, err := c.takeCensus(ctx)
		sessions := found.sessions
		if err != nil && len(sessions) == 0 {
			return err
		}
		if err != nil {
			c.complainf("curatorctl: sessions may be missing: %s\n", said(err))
		}
		list := []session{}
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
