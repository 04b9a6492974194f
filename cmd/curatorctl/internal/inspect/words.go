// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
)

// wordLimit bounds how long one server may take to answer a four-letter word, and wordBytes its answer.
const (
	wordLimit = 3 * time.Second
	wordBytes = 16 << 20
)

// memberships is how the answer to conf ends at a server of several: the only one without a line end.
var memberships = regexp.MustCompile(`\nversion=[0-9a-f]+$`)

// FourLetterWord asks one server, over a connection as the client makes them. It blocks for three
// seconds at most.
func FourLetterWord(ctx context.Context, client *framework.Framework, server, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordLimit)
	defer cancel()
	conn, err := client.Dialer()(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, wordBytes))
	switch {
	case ctx.Err() != nil: // the answer may end before its end
		return "", interrupted(ctx)
	case err != nil:
		return "", fmt.Errorf("%s: %w", word, err)
	case len(answer) == 0:
		return "", errors.New("no answer")
	case answer[len(answer)-1] != '\n' && !memberships.Match(answer):
		return "", fmt.Errorf("%s: %w", word, errTruncated)
	case strings.Contains(string(answer), "is not executed because it is not in the whitelist"):
		return "", fmt.Errorf("%s %w", word, errNotAllowed)
	}
	return string(answer), nil
}

var (
	errTruncated  = errors.New("the answer is truncated") // it ends within a line
	errNotAllowed = errors.New("is not in 4lw.commands.whitelist")
)

var consLine = regexp.MustCompile(`^\s*/?(\S+?)\[\d+\]\((.*)\)\s*$`)

// readCons adds what the word cons says about connections.
func (n Census) readCons(server, text string) {
	var here []connection
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
		if id, ok := ParseSession(f["sid"]); ok {
			at := connection{Session: id, Client: m[1]}
			at.Timeout, _ = strconv.Atoi(f["to"])
			at.Renewals, _ = strconv.Atoi(f["recved"])
			at.Answered, _ = strconv.ParseInt(f["lresp"], 10, 64)
			here = append(here, at)
		}
	}
	n.note(server, here)
}

// connection is what a server says of one of its connections. The names are those of the admin server.
type connection struct {
	Session  int64  `json:"session_id"`
	Client   string `json:"remote_socket_address"`
	Timeout  int    `json:"session_timeout"`
	Renewals int    `json:"packets_received"`
	Answered int64  `json:"last_response_time"` // by a clock of the server, in milliseconds
}

// note adds the connections of a server.
func (n Census) note(server string, here []connection) {
	newest := int64(0)
	for _, c := range here {
		newest = max(newest, c.Answered)
	}
	for _, c := range here {
		if c.Session == 0 {
			continue
		}
		s := n.session(c.Session)
		s.Client, s.Server, s.Timeout, s.Renewals = c.Client, server, c.Timeout, c.Renewals
		if c.Answered > 0 {
			s.Silence = int(newest - c.Answered)
		}
	}
}

// dateOf returns a date of Java's, and its text in RFC 3339. One of a time zone whose letters say no offset stays the text
// that it is.
func dateOf(text string) (time.Time, string) {
	when, err := time.Parse(time.UnixDate, text)
	if zone, offset := when.Zone(); err != nil || offset == 0 && zone != "UTC" && zone != "GMT" {
		return when, text
	}
	return when, when.UTC().Format(time.RFC3339)
}

// readDump adds what the word dump says: when sessions expire, and what they own.
func (n Census) readDump(text string) {
	expires, owner := "", int64(0)
	var at time.Time
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		before, date, isExpiry := strings.Cut(trimmed, " expire at ")
		id, isSession := ParseSession(strings.TrimSuffix(trimmed, ":"))
		switch {
		case isExpiry && before != "":
			at, expires = dateOf(strings.TrimSuffix(date, ":"))
			owner = 0
		case isSession && strings.HasSuffix(trimmed, ":"):
			owner, expires = id, ""
		case isSession && expires != "":
			s := n.session(id)
			s.Expires, s.expires = expires, at
		case owner != 0 && strings.HasPrefix(trimmed, "/"):
			s := n.session(owner)
			if !slices.Contains(s.Ephemerals, trimmed) {
				s.Ephemerals = append(s.Ephemerals, trimmed)
			}
		default:
			owner, expires = 0, ""
		}
	}
}

// told is what one server has said of its sessions.
type told struct {
	address    string
	idle       bool // nothing runs there, or it has no quorum: so it has no connection
	cons, dump string
	conf       string
	confErr    error
	admin      *adminSaid
	missing    error // what it has not said, nil if nothing
}

// askSessions asks one server for its sessions. A server that does not answer one word is asked no other. By default ZooKeeper allows none
// of these words, and runs an admin server that says the same. Of servers that share an address only one can have it.
func askSessions(ctx context.Context, client *framework.Framework, address string, shares bool) told {
	t := told{address: address}
	var err error
	for i, into := range []*string{&t.cons, &t.dump} {
		*into, err = FourLetterWord(ctx, client, address, []string{"cons", "dump"}[i])
		switch {
		case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(*into, "not currently serving"):
			t.idle = true
			return t
		case errors.Is(err, context.DeadlineExceeded):
			t.missing, t.confErr = err, err
			return t
		case err != nil:
			t.missing = cmp.Or(t.missing, err)
		}
	}
	t.conf, t.confErr = FourLetterWord(ctx, client, address, "conf")
	if errors.Is(t.missing, errNotAllowed) && !shares {
		if t.admin = askAdmin(ctx, address); t.admin != nil {
			t.missing = nil
		}
	}
	return t
}

// adminPort is admin.serverPort, by default. Tests change it.
var adminPort = "8080"

// adminSaid is what an admin server says of sessions.
type adminSaid struct {
	Connections []connection        `json:"connections"`
	Secure      []connection        `json:"secure_connections"`
	Expiries    map[string][]int64  `json:"expiry_time_to_session_ids"` // by a clock of the leader, in milliseconds; empty at others
	Ephemerals  map[string][]string `json:"session_id_to_ephemeral_paths"`
	ServerID    json.Number         `json:"server_id"`
	TickTime    json.Number         `json:"tick_time"`
	Error       any                 `json:"error"`
	Command     string              `json:"command"`
}

// askAdmin returns nil if there is no admin server that answers.
func askAdmin(ctx context.Context, address string) *adminSaid {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wordLimit)
	defer cancel()
	said := new(adminSaid)
	for _, command := range []string{"connections", "dump", "configuration"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, adminPort)+"/commands/"+command, nil)
		if err != nil {
			return nil
		}
		answer, err := adminClient.Do(request)
		if err != nil {
			return nil
		}
		err = json.NewDecoder(io.LimitReader(answer.Body, wordBytes)).Decode(said)
		_ = answer.Body.Close()
		if err != nil || said.Command != command || said.Error != nil {
			return nil
		}
	}
	return said
}

// adminClient keeps no connection: each census asks once.
var adminClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// readAdmin adds what an admin server says.
func (n Census) readAdmin(server string, said *adminSaid) {
	n.note(server, slices.Concat(said.Connections, said.Secure))
	for text, ids := range said.Expiries {
		at, err := strconv.ParseInt(text, 10, 64)
		for _, id := range ids {
			if err == nil {
				n.session(id).expires = time.UnixMilli(at)
			}
		}
	}
	for text, paths := range said.Ephemerals {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			n.session(id).Ephemerals = append(n.session(id).Ephemerals, paths...)
		}
	}
}

// members compares the servers that were asked with the servers that there are.
type members struct {
	listed, asked []string // server.N
	tick          int      // milliseconds, 0 if no server has said it
	unknown       bool     // a server has not said which there are
	idle          int      // servers that do not run, or have lost their quorum and with it their clients; they do not say which they are
}

// read adds what the word conf says.
func (m *members) read(text string, err error) {
	if err == nil && strings.Contains(text, "not currently serving") {
		m.idle++
		return
	}
	inQuorum, id, n := false, "", len(m.listed)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case strings.HasPrefix(name, "server."):
			m.listed = append(m.listed, name)
		case name == "quorumPort":
			inQuorum = true
		case name == "serverId":
			id = value
		case name == "tickTime":
			m.tick, _ = strconv.Atoi(value)
		}
	}
	if err != nil || inQuorum && len(m.listed) == n { // as before ZooKeeper 3.5
		m.unknown = true
	}
	m.asked = append(m.asked, "server."+id)
}

func (m *members) areAsked() bool {
	slices.Sort(m.listed)
	others := slices.DeleteFunc(slices.Compact(m.listed), func(name string) bool { return slices.Contains(m.asked, name) })
	return !m.unknown && len(others) <= m.idle
}
