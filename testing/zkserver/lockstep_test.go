// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// keeper is who cleans up: no client of a program proves to be it, and every ACL there lets it do everything.
const keeper = "keeper:secret"

// subject is one of the two servers that a program is played to.
type subject struct {
	name, addr string
	keeper     *rawClient
}

func newSubject(tb testing.TB, name, addr string) *subject {
	tb.Helper()
	nc := must.Get(dialTCP(addr))(tb)
	tb.Cleanup(func() { nc.Close() })
	c := must.Get(handshake(nc, connection{timeoutMs: programTimeout}))(tb)
	c.must(tb, 100, body{}.int(0).str("digest").str(keeper))
	return &subject{name: name, addr: addr, keeper: c}
}

// lockstep plays a program to both servers, action by action, and tells where their answers differ first: it is empty
// if they never do. It leaves neither nodes nor sessions behind.
func lockstep(tb testing.TB, p program, one, other *subject) string {
	tb.Helper()
	first, second := one.begin(tb, p), other.begin(tb, p)
	difference := play(p, one, first, other, second)
	for s, st := range map[*subject]*stage{one: first, other: second} {
		st.finish()
		require.NoError(tb, s.remove(p.root), "cleaning up at %s after\n%s", s.name, difference)
	}
	return difference
}

func play(p program, one *subject, first *stage, other *subject, second *stage) string {
	played := program{root: p.root}
	for _, batch := range p.batches() {
		played.actions = append(played.actions, batch...)
		if difference := one.tell(played, first.act(batch), other, second.act(batch)); difference != "" {
			return difference
		}
	}
	return one.tell(p, first.finish(), other, second.finish())
}

// tell says how the answers to the end of a program differ, if they do.
func (s *subject) tell(p program, lines []string, other *subject, otherLines []string) string {
	if slices.Equal(lines, otherLines) {
		return ""
	}
	return fmt.Sprintf("%s%s:\n  %s\n%s:\n  %s\n", p,
		s.name, strings.Join(lines, "\n  "), other.name, strings.Join(otherLines, "\n  "))
}

// begin creates the root of a program.
func (s *subject) begin(tb testing.TB, p program) *stage {
	tb.Helper()
	st := &stage{tb: tb, addr: s.addr, root: p.root, began: time.Now(), clients: make(map[string]*rawClient)}
	st.base = s.keeper.must(tb, 15, body{}.str(p.root).str("").join(openTo()).int(0)).zxid
	return st
}

// remove deletes a node and all below.
func (s *subject) remove(node string) error {
	reply, err := s.keep(8, body{}.str(node).flag(false))
	if err != nil {
		return fmt.Errorf("children of %s: %w", node, err)
	}
	list := reply.fields.strs()
	slices.Sort(list)
	for _, name := range list {
		if err := s.remove(node + "/" + name); err != nil {
			return err
		}
	}
	if _, err := s.keep(2, body{}.str(node).int(-1)); err != nil {
		return fmt.Errorf("deleting %s: %w", node, err)
	}
	return nil
}

// keep sends a request of the keeper, which has to succeed.
func (s *subject) keep(op int32, b body) (rawReply, error) {
	reply, err := s.keeper.call(op, b)
	if err == nil && reply.err != 0 {
		err = fmt.Errorf("code %d", reply.err)
	}
	return reply, err
}

// act does what a batch says and returns what came of it.
func (s *stage) act(batch []action) []string {
	s.lines = nil
	name := batch[0].client
	if s.clients[name] == nil {
		s.attach(name, reconnects)
	}
	switch does := batch[0].does; does {
	case asks:
		s.ask(name, batch)
	case hangsUp:
		s.hangUp(name)
	case counts:
		s.counts()
	default:
		s.attach(name, does)
	}
	return s.lines
}

// ask sends the requests of a batch and receives their replies.
func (s *stage) ask(name string, batch []action) {
	c := s.clients[name]
	if c.nc == nil {
		return
	}
	if batch[0].op == opClose {
		s.flush(inOrder) // so that the events to come are those of the close
		defer s.flush(inAnyOrder)
	}
	var xids []int32
	for _, a := range batch {
		xid, err := c.sendAs(a.xid, a.op, a.encode(s.base))
		if err != nil {
			s.lost(name, err)
			return
		}
		xids = append(xids, xid)
	}
	for i, a := range batch {
		reply, err := c.receive()
		if err != nil {
			s.lost(name, err)
			return
		}
		if a.op == opClose {
			sortEvents(reply.events)
		}
		s.record(fmt.Sprintf("%s xid %t", name, reply.xid == xids[i]), reply, replyFields[a.op])
	}
	if batch[0].ends {
		_, err := c.receive()
		s.lost(name, err)
	}
	if batch[0].op == opClose {
		c.session = 0
	}
}

// lost records the end of a connection.
func (s *stage) lost(name string, err error) {
	if ended(err) {
		err = nil
	}
	s.lines = append(s.lines, fmt.Sprintf("%s: connection ended, error %v", name, err))
	s.clients[name].hangUp()
}

// hangUp closes the connection, if there is one.
func (c *rawClient) hangUp() {
	if c.nc != nil {
		c.nc.Close()
	}
	c.nc, c.pending = nil, nil
}

// hangUp makes a client leave without closing its session.
func (s *stage) hangUp(name string) {
	s.flush(inOrder)
	s.clients[name].hangUp()
}

// How events are compared. Those of the end of a session are in any order, for so are its ephemeral nodes.
const (
	inOrder    = true
	inAnyOrder = false
)

// flush collects the events that are on their way to all clients.
func (s *stage) flush(ordered bool) {
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		c := s.clients[name]
		if c.nc == nil {
			continue
		}
		reply, err := c.call(opPing, body{})
		if err != nil {
			s.lost(name, err)
			continue
		}
		if !ordered {
			sortEvents(reply.events)
		}
		s.record(name+" ping", reply, nil)
	}
}

func sortEvents(events []rawEvent) {
	slices.SortFunc(events, func(a, b rawEvent) int {
		if a.path != b.path {
			return strings.Compare(a.path, b.path)
		}
		return int(a.kind - b.kind)
	})
}

// attach opens a connection for a client. It takes the place of the one that the client has, if the server gives it the
// session.
func (s *stage) attach(name string, how deed) {
	s.flush(inOrder)
	old := s.clients[name]
	if old == nil {
		old = &rawClient{}
	}
	c, err := s.shake(s.wanted(old, how))
	if old.nc != nil {
		s.stillThere(name)
	}
	if err != nil {
		s.lines = append(s.lines, fmt.Sprintf("%s: refused without an answer %t", name, ended(err)))
		return
	}
	s.lines = append(s.lines, fmt.Sprintf("%s: timeout %d, same session %t, none %t, same password %t, empty %t", name, c.timeout,
		c.session == old.session, c.session == 0, bytes.Equal(c.password, old.password), bytes.Equal(c.password, make([]byte, 16))))
	if c.session == 0 {
		_, err := c.receive()
		s.lines = append(s.lines, fmt.Sprintf("%s: refused, connection ended %t", name, ended(err)))
		c.hangUp()
		return
	}
	old.hangUp()
	s.clients[name] = c
}

// wanted is what a client asks for that has had the session of old.
func (s *stage) wanted(old *rawClient, how deed) connection {
	want := connection{timeoutMs: programTimeout, session: old.session}
	if old.session != 0 {
		want.password = old.password
	}
	switch how {
	case wrongPassword:
		want.password = make([]byte, 16)
	case emptyPassword:
		want.password = []byte{}
	case wrongSession:
		want.session ^= 1 << 40
	case futureZxid:
		want.lastZxid = s.base + 1<<40
	case shortTimeout:
		want.timeoutMs = 1
	case longTimeout:
		want.timeoutMs = math.MaxInt32
	case oldClient:
		want.noReadOnly = true
	case reconnects, asks, hangsUp, counts:
	}
	return want
}

// shake connects.
func (s *stage) shake(want connection) (*rawClient, error) {
	nc, err := dialTCP(s.addr)
	if err != nil {
		return nil, err
	}
	c, err := handshake(nc, want)
	if err != nil {
		nc.Close()
	}
	return c, err
}

// stillThere records whether the server has ended the connection of a client.
func (s *stage) stillThere(name string) {
	reply, err := s.clients[name].call(opPing, body{})
	if err != nil {
		s.lost(name, err)
		return
	}
	s.record(name+" ping", reply, nil)
}

// finish collects what is on its way and closes all sessions.
func (s *stage) finish() []string {
	s.lines = nil
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		c := s.clients[name]
		if c.session != 0 && c.nc == nil {
			s.attach(name, reconnects)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if c := s.clients[name]; c.session != 0 {
			s.ask(name, []action{{client: name, does: asks, request: request{op: opClose, ends: true}}})
		}
	}
	return s.lines
}
