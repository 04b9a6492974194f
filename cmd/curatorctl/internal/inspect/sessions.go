// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// Session is one session, as the servers know it.
type Session struct {
	ID         string   `json:"id"`                // 0x and hexadecimal digits
	Client     string   `json:"client,omitempty"`  // address of its connection
	Server     string   `json:"server,omitempty"`  // that has the connection
	Timeout    int      `json:"timeout,omitempty"` // milliseconds; 0 without a connection
	Expires    string   `json:"expires,omitempty"` // as the leader says, without renewal
	Ephemerals []string `json:"ephemerals"`

	// Silence is how long its server has not heard its client, in milliseconds. It may be too
	// low at a server to which the caller of [Sessions] is not connected.
	Silence int `json:"silence,omitempty"`

	// Renewals counts the requests and pings over its connection, each of which has renewed the session.
	Renewals int `json:"renewals,omitempty"`

	// ExpiresIn is Expires as a time from now, in milliseconds, a tick of the server too long at
	// most. It is 0 if the leader has not listed the session of the client that asks.
	ExpiresIn int `json:"expiresIn,omitempty"`

	answered int64     // when its server has last answered it, by a clock of that server, in milliseconds
	expires  time.Time // Expires; servers of one zone compare
}

// isLost reports whether no server has a connection of a session that a leader has listed.
func (s *Session) isLost() bool { return s.Client == "" }

// isSilent reports whether the client has missed its pings. Clients ping after a third of the session timeout.
func (s *Session) isSilent() bool { return s.Client != "" && s.Silence > s.Timeout/2 }

// Census is the sessions as the servers know them.
type Census struct {
	Sessions map[int64]*Session
	Asked    []string // the servers that have listed their connections
	Whole    bool     // those are all servers of the ensemble
}

// isDead reports whether a session has no client that answers. A session that no server lists is not known.
func (n Census) isDead(s *Session) bool {
	return s != nil && (s.isLost() && n.Whole || s.isSilent())
}

// Sessions asks all servers of the client for their sessions, with the four-letter words cons, dump
// and conf. It takes three connections to each server, one after another. What the servers do not say
// is in the error, beside what others do: usually the words are not in 4lw.commands.whitelist.
func Sessions(ctx context.Context, client *framework.Framework) (Census, error) {
	if err := usable(ctx, client); err != nil {
		return Census{}, fmt.Errorf("inspect: sessions: %w", err)
	}
	found := Census{Sessions: make(map[int64]*Session)}
	var errs []error
	var roll members
	for _, address := range client.Servers() {
		for _, word := range []string{"cons", "dump"} {
			text, err := FourLetterWord(ctx, client, address, word)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", address, err))
			case word == "cons":
				found.Asked = append(found.Asked, address)
				found.readCons(address, text)
			default:
				found.readDump(text)
			}
		}
		text, err := FourLetterWord(ctx, client, address, "conf")
		roll.read(text, err)
	}
	found.Whole = len(errs) == 0 && roll.areAsked()
	found.reckon(client.Session())
	return found, errors.Join(errs...)
}

// reckon finds out when sessions expire. The session that asks was heard just now, so no clocks are compared.
func (n Census) reckon(own *framework.Session) {
	if own == nil || n.Sessions[own.ID()] == nil || n.Sessions[own.ID()].expires.IsZero() {
		return
	}
	now := n.Sessions[own.ID()].expires.Add(-own.Timeout())
	for _, s := range n.Sessions {
		if !s.expires.IsZero() {
			s.ExpiresIn = int(max(s.expires.Sub(now), time.Second).Milliseconds())
		}
	}
}

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
	if err := usable(ctx, client); err != nil {
		return "", fmt.Errorf("inspect: %s: %w", word, err)
	}
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
		return "", fmt.Errorf("%s is not in 4lw.commands.whitelist", word)
	}
	return string(answer), nil
}

// errTruncated is an answer that ends within a line.
var errTruncated = errors.New("the answer is truncated")

var consLine = regexp.MustCompile(`^\s*/?(\S+?)\[\d+\]\((.*)\)\s*$`)

// readCons adds what the word cons says about connections.
func (n Census) readCons(server, text string) {
	var here []*Session
	newest := int64(0)
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
			s := n.session(id)
			s.Client, s.Server = m[1], server
			s.Timeout, _ = strconv.Atoi(f["to"])
			s.Renewals, _ = strconv.Atoi(f["recved"])
			s.answered, _ = strconv.ParseInt(f["lresp"], 10, 64)
			newest = max(newest, s.answered)
			here = append(here, s)
		}
	}
	for _, s := range here {
		if s.answered > 0 {
			s.Silence = int(newest - s.answered)
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

// ParseSession reads the id of a session, such as 0x1000a. It reports false for other text, and for 0.
func ParseSession(text string) (id int64, ok bool) {
	n, err := strconv.ParseUint(text, 0, 64)
	return int64(n), err == nil && n != 0 //nolint:gosec // sessions are printed as unsigned numbers
}

// SessionText is how ZooKeeper's logs print the id of a session.
func SessionText(id int64) string {
	if id == 0 {
		return "no session"
	}
	return fmt.Sprintf("0x%x", uint64(id)) //nolint:gosec // unsigned
}

func (n Census) session(id int64) *Session {
	if n.Sessions[id] == nil {
		n.Sessions[id] = &Session{ID: SessionText(id), Ephemerals: []string{}}
	}
	return n.Sessions[id]
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

// members compares the servers that were asked with the servers that there are.
type members struct {
	listed, asked []string // server.N
	unknown       bool     // a server has not said which there are
	idle          int      // servers that have lost their quorum, and with it their clients; they do not say which they are
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

// Describe says in words whether the owner of a node is alive.
func (n Census) Describe(id int64) string {
	s, found := n.Sessions[id]
	switch {
	case id == 0:
		return "no session: the node stays until it is deleted"
	case !found:
		return "session " + SessionText(id)
	case s.Client != "":
		return fmt.Sprintf("session %s is connected from %s to %s, timeout %v, renewed %d times over this connection, the last time %v ago", SessionText(id),
			s.Client, s.Server, milliseconds(s.Timeout), s.Renewals, milliseconds(s.Silence))
	}
	connection := " has no connection"
	switch {
	case len(n.Asked) == 0:
		connection = ": no server has listed its connections"
	case !n.Whole: // another server may have it
		connection = ": no connection at the servers asked (" + strings.Join(n.Asked, ", ") + ")"
	}
	return fmt.Sprintf("session %s%s, expires at %s", SessionText(id), connection, cmp.Or(s.Expires, "an unknown time"))
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
