// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// Session is one session, as the servers know it.
type Session struct {
	ID         string   `json:"id"`                // 0x and hexadecimal digits
	Client     string   `json:"client,omitempty"`  // address of its connection
	Server     string   `json:"server,omitempty"`  // that has the connection
	Timeout    int      `json:"timeout,omitempty"` // milliseconds; missing without a connection
	Expires    string   `json:"expires,omitempty"` // as the leader says, without renewal
	Ephemerals []string `json:"ephemerals"`

	// Life says whether the session has a client that answers. Why says of an unknown one what is missing.
	Life Life   `json:"life"`
	Why  string `json:"why,omitempty"`

	// Silence is how long the client has not been heard, in milliseconds: by the leader, which knows it to a tick, and by
	// the server that has the connection.
	Silence int `json:"silence,omitempty"`

	// Renewals counts the requests and pings over its connection, each of which has renewed the session.
	Renewals int `json:"renewals,omitempty"`

	// ExpiresIn is Expires as a time from now, in milliseconds, a tick of the server too long at
	// most. It is missing if the leader has not listed the session of the client that asks.
	ExpiresIn int `json:"expiresIn,omitempty"`

	expires time.Time // Expires; servers of one zone compare
}

// Life is what is known of the client of a session.
type Life string

// The lives. A client that is lost or silent may come back until its session expires.
const (
	LifeAlive   Life = "alive"
	LifeSilent  Life = "silent" // it is connected, and has missed its pings
	LifeLost    Life = "lost"   // no server has a connection of the session
	LifeUnknown Life = "unknown"
)

func (l Life) isDead() bool { return l == LifeSilent || l == LifeLost }

// Census is the sessions as the servers know them.
type Census struct { //nolint:recvcheck // what is read only has a copy
	Sessions map[int64]*Session
	Asked    []string // the servers that have listed their connections
	Whole    bool     // those are all servers of the ensemble that run
	Missing  []string // what the servers have not said, with their addresses
	Remedy   string   // what would make it known; empty if nothing is missing

	tick time.Duration
	led  bool // the leader has listed its sessions
}

// Sessions asks all servers of the client for their sessions, with the four-letter words cons, dump
// and conf. It takes three connections to each server, one after another. Where the words are not in 4lw.commands.whitelist, which is
// so by default, it asks the admin server at the port 8080 instead. A server that refuses the connection has no clients.
// What the servers do not say is in the error, beside what others do.
func Sessions(ctx context.Context, client *framework.Framework) (Census, error) {
	servers := client.Servers()
	hosts := make(map[string]int)
	for _, address := range servers {
		host, _, _ := net.SplitHostPort(address)
		hosts[host]++
	}
	said := make([]told, len(servers))
	var wg sync.WaitGroup
	for i, address := range servers {
		wg.Go(func() {
			host, _, _ := net.SplitHostPort(address)
			said[i] = askSessions(ctx, client, address, hosts[host] > 1)
		})
	}
	wg.Wait()
	found := Census{Sessions: make(map[int64]*Session)}
	var errs []error
	for _, t := range said {
		if t.missing != nil {
			err := fmt.Errorf("%s: %w", t.address, t.missing)
			errs, found.Missing = append(errs, err), append(found.Missing, err.Error())
		}
	}
	members := found.read(ctx, client, said)
	found.Whole = len(found.Missing) == 0 && members.areAsked()
	found.tick = time.Duration(cmp.Or(members.tick, 2000)) * time.Millisecond
	switch {
	case errors.Is(errors.Join(errs...), errNotAllowed):
		found.Remedy = "To know it, write 4lw.commands.whitelist=srvr,mntr,conf,cons,dump into zoo.cfg of each server and restart it."
	case len(found.Missing) > 0:
		found.Remedy = "To know it, ask again when these servers answer."
	case !found.Whole:
		found.Missing, found.Remedy = []string{"not all servers of the ensemble were asked"}, "To know it, name all servers, and allow them the word conf."
	}
	found.reckon(idOf(client.Session()))
	return found, errors.Join(errs...)
}

// read adds what the servers have said.
func (n *Census) read(ctx context.Context, client *framework.Framework, said []told) (roll members) {
	for _, t := range said {
		switch {
		case t.idle:
			roll.idle++
			continue
		case t.admin != nil:
			n.Asked = append(n.Asked, t.address)
			n.readAdmin(t.address, t.admin)
			config, err := client.Config(ctx)
			roll.read(fmt.Sprintf("%s\nserverId=%s\ntickTime=%s\n", config, t.admin.ServerID, t.admin.TickTime), err)
			continue
		case t.cons != "":
			n.Asked = append(n.Asked, t.address)
			n.readCons(t.address, t.cons)
		}
		n.readDump(t.dump)
		roll.read(t.conf, t.confErr)
	}
	return roll
}

// reckon finds out when sessions expire, and which have clients that answer. The session that asks was heard just now, so no clocks
// are compared.
func (n *Census) reckon(own int64, timeout time.Duration) {
	asks := n.Sessions[own] // nil if no server has named it
	n.led = asks != nil && !asks.expires.IsZero()
	for _, s := range n.Sessions {
		late := 0 // how long the leader has not heard it
		if n.led && !s.expires.IsZero() {
			left := s.expires.Sub(asks.expires.Add(-timeout))
			s.ExpiresIn = int(max(left, time.Second).Milliseconds())
			late = s.Timeout - int(left.Milliseconds()) // of a short timeout, a second is much
		}
		s.judge(n, late, s == asks || asks != nil && s.Server == asks.Server)
		s.Silence = max(s.Silence, late)
	}
}

// idOf returns the id of a session, and its timeout: zeros for no session.
func idOf(s *framework.Session) (id int64, timeout time.Duration) {
	if s == nil {
		return 0, 0
	}
	return s.ID(), s.Timeout()
}

// judge says whether the client of a session answers. late is how long the leader has not heard it, and near says that the client that
// asks is connected to the same server, whose clock has gone on until now.
func (s *Session) judge(n *Census, late int, near bool) {
	// Clients ping after a third of the timeout, followers tell the leader within half a tick, and the leader counts in ticks.
	patience := max(milliseconds(s.Timeout)/2, milliseconds(s.Timeout)/3+n.tick*3/2+time.Second)
	switch {
	case s.Client == "" && n.Whole:
		s.Life = LifeLost
	case s.Client == "":
		s.Life, s.Why = LifeUnknown, strings.Join(n.Missing, "; ")
	case s.Silence > s.Timeout/2, milliseconds(late) > patience:
		s.Life = LifeSilent
	case s.ExpiresIn > 0, near:
		s.Life = LifeAlive
	default:
		s.Life, s.Why = LifeUnknown, "the leader has not said when sessions expire: "+strings.Join(n.Missing, "; ")
	}
}

// of returns what is known of the client of a session.
func (n *Census) of(id int64) (life Life, why string) {
	switch s := n.Sessions[id]; {
	case s != nil:
		return s.Life, s.Why
	case len(n.Missing) > 0:
		return LifeUnknown, strings.Join(n.Missing, "; ")
	default:
		return LifeUnknown, "no server has listed its session"
	}
}

// Life says whether the client of a session answers. It is "" for no session.
func (n Census) Life(id int64) Life {
	if id == 0 {
		return ""
	}
	life, _ := n.of(id)
	return life
}

// lookAgain asks the leader for some sessions again, until it has heard the client of each, or until it has not heard it for longer than the
// session still lasts. A client pings sooner than that.
func (n *Census) lookAgain(ctx context.Context, client *framework.Framework, ids []int64) {
	begun := time.Now()
	before := make(map[int64]time.Time)
	for _, id := range ids {
		if s := n.Sessions[id]; s != nil && s.Life == LifeUnknown && s.ExpiresIn > 0 {
			before[id] = s.expires
		}
	}
	for len(before) > 0 && ctx.Err() == nil {
		sleep(ctx, time.Second)
		again := Census{Sessions: make(map[int64]*Session)}
		for _, address := range n.Asked {
			text, _ := FourLetterWord(ctx, client, address, "dump") // what is missing stays unknown
			again.readDump(text)
		}
		again.reckon(idOf(client.Session()))
		if !again.led {
			return
		}
		for id, expired := range before {
			s, passed := again.Sessions[id], time.Since(begun)
			switch {
			case s == nil: // it has expired
				delete(n.Sessions, id)
			case s.expires.After(expired):
				n.Sessions[id].Life, n.Sessions[id].Silence = LifeAlive, 0
			case passed > milliseconds(s.ExpiresIn):
				n.Sessions[id].Life, n.Sessions[id].ExpiresIn = LifeSilent, s.ExpiresIn
				n.Sessions[id].Silence = int(passed.Milliseconds())
			default:
				continue
			}
			delete(before, id)
		}
	}
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

// Describe says in words whether the owner of a node is alive.
func (n Census) Describe(id int64) string {
	s, found := n.Sessions[id]
	life, why := n.of(id)
	switch {
	case id == 0:
		return "no session: the node stays until it is deleted"
	case !found:
		return fmt.Sprintf("session %s: whether its client is alive is not known (%s)", SessionText(id), why)
	case s.Client != "":
		heard := fmt.Sprintf("the last time %v ago", milliseconds(s.Silence))
		if life == LifeUnknown {
			heard = "the last time is not known"
		}
		return fmt.Sprintf("session %s is connected from %s to %s, timeout %v, renewed %d times over this connection, %s", SessionText(id),
			s.Client, s.Server, milliseconds(s.Timeout), s.Renewals, heard)
	}
	connection := " has no connection"
	switch {
	case life == LifeAlive:
		connection = " is renewed at a server that was not asked"
	case life == LifeLost:
	case len(n.Asked) == 0:
		connection = ": no server has listed its connections"
	default: // another server may have it
		connection = ": no connection at the servers asked (" + strings.Join(n.Asked, ", ") + "; " + why + ")"
	}
	expires := cmp.Or(s.Expires, "an unknown time")
	if s.Expires == "" && s.ExpiresIn > 0 {
		expires = time.Now().Add(milliseconds(s.ExpiresIn)).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("session %s%s, expires at %s", SessionText(id), connection, expires)
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
