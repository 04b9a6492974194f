// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestDiffSameAsApache runs the same requests against Apache ZooKeeper and against this server and compares what comes
// back, once times, session ids and absolute zxids are made comparable.
func TestDiffSameAsApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	apache := startApache(t, ensemble.WithProperty("zookeeper.DigestAuthenticationProvider.superDigest", superDigest),
		ensemble.WithConfig("reconfigEnabled", "true"))
	ours := startLikeIt(t)
	t.Run("mntr", func(t *testing.T) { compareKeys(t, apache, ours) })
	t.Run("words", func(t *testing.T) { compareWords(t, apache, ours) }) // while both are new
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			want := perform(t, apache, s)
			require.Equal(t, want, perform(t, ours, s))
		})
	}
	t.Run("limits", func(t *testing.T) { compareLimits(t, apache, ours) }) // which leaves sessions
}

// startLikeIt starts a server of ours with a super user and with reconfigurations.
func startLikeIt(t *testing.T) (addr string) {
	t.Helper()
	return start(t, zkserver.WithSuperDigest(superDigest), zkserver.WithReconfigEnabled()).Addr()
}

// TestDiffSweepsAsApache compares what the sweeper leaves. It runs apart, because it would change zxids under the scripts.
func TestDiffSweepsAsApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	const interval = 200 * time.Millisecond
	apache := startApache(t, ensemble.WithContainerCheckInterval(interval))
	ours := start(t, zkserver.WithContainerCheckInterval(interval)).Addr()
	s := script{"sweeps", scriptSweeps}
	require.Equal(t, perform(t, apache, s), perform(t, ours, s))
}

// TestDiffScriptsRepeat runs every script twice against servers of ours: what a script records must not depend on chance.
func TestDiffScriptsRepeat(t *testing.T) {
	first, second := startLikeIt(t), startLikeIt(t)
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			require.Equal(t, perform(t, first, s), perform(t, second, s))
		})
	}
}

// script is a sequence of requests under the path that the stage gives it.
type script struct {
	name string
	play func(*stage)
}

// stage records what the clients of a script send and receive.
type stage struct {
	tb      testing.TB
	addr    string
	root    string
	base    int64 // zxid of the first reply: others are told relative to it
	began   time.Time
	clients map[string]*rawClient
	opened  []*rawClient // all that have been connected
	step    int
	lines   []string
	times   map[int64]int64 // of transactions that have been seen, by zxid
}

func perform(tb testing.TB, addr string, s script) []string {
	tb.Helper()
	st := &stage{tb: tb, addr: addr, root: "/" + s.name, began: time.Now(), clients: make(map[string]*rawClient)}
	st.connect("a")
	reply := st.client("a").must(tb, 15, createBody(st.root, "", 0))
	st.base = reply.zxid
	s.play(st)
	for _, name := range slices.Sorted(maps.Keys(st.clients)) {
		st.client(name).call(-11, body{}) //nolint:errcheck // a script may have ended the connection already
		st.client(name).nc.Close()
	}
	st.endSessions()
	return st.lines
}

// endSessions closes the sessions whose connections have ended before. Their expiry would be a transaction in the middle
// of a later script.
func (s *stage) endSessions() {
	for _, old := range s.opened {
		nc := must.Get(dialTCP(s.addr))(s.tb)
		s.tb.Cleanup(func() { nc.Close() })
		c, err := handshake(nc, connection{timeoutMs: old.timeout, session: old.session, password: old.password})
		if err == nil && c.session == old.session {
			must.Get(c.call(-11, body{}))(s.tb)
		}
	}
	require.Equal(s.tb, "0", keysOf(s.tb, s.addr)["zk_global_sessions"])
}

// connect adds a client.
func (s *stage) connect(name string) {
	s.tb.Helper()
	nc := must.Get(dialTCP(s.addr))(s.tb)
	s.tb.Cleanup(func() { nc.Close() })
	c := must.Get(handshake(nc, connection{timeoutMs: 8000}))(s.tb)
	s.clients[name] = c
	s.opened = append(s.opened, c)
}

// reconnect adds a client that asks for the session of another, as want is made from that client's facts, and records
// what it is given.
func (s *stage) reconnect(name, other string, want func(*connection)) {
	s.tb.Helper()
	nc := must.Get(dialTCP(s.addr))(s.tb)
	s.tb.Cleanup(func() { nc.Close() })
	old := s.client(other)
	asked := connection{timeoutMs: 8000, session: old.session, password: old.password}
	want(&asked)
	c, err := handshake(nc, asked)
	if err != nil {
		s.lines = append(s.lines, fmt.Sprintf("%s connects: ended %t", name, ended(err)))
		return
	}
	s.lines = append(s.lines, fmt.Sprintf("%s connects: timeout %d, session of %s %t, none %t, password kept %t, empty %t",
		name, c.timeout, other, c.session == old.session, c.session == 0, bytes.Equal(c.password, old.password),
		bytes.Equal(c.password, make([]byte, 16))))
	s.clients[name] = c
}

// counts records what mntr counts.
func (s *stage) counts() {
	s.tb.Helper()
	keys := keysOf(s.tb, s.addr)
	for _, key := range []string{"znode_count", "watch_count", "ephemerals_count", "approximate_data_size", "global_sessions"} {
		s.lines = append(s.lines, key+" "+keys["zk_"+key])
	}
}

func (s *stage) client(name string) *rawClient { return s.clients[name] }

// do sends a request and records its reply, decoded by fields.
func (s *stage) do(client string, op int32, b body, fields ...func(*stage, *reader) string) {
	s.tb.Helper()
	s.step++
	what := fmt.Sprintf("#%d %s op %d %s", s.step, client, op, firstString(b))
	reply, err := s.client(client).call(op, b)
	if err != nil {
		s.lines = append(s.lines, fmt.Sprintf("%s: connection ended: %v", what, ended(err)))
		return
	}
	s.record(what, reply, fields)
}

func (s *stage) record(what string, reply rawReply, fields []func(*stage, *reader) string) {
	for _, e := range reply.events {
		s.lines = append(s.lines, fmt.Sprintf("  event %d %s", e.kind, e.path))
	}
	parts := []string{fmt.Sprintf("%s: code %d zxid %s", what, reply.err, s.zxid(reply.zxid))}
	if reply.err == 0 {
		for _, f := range fields {
			parts = append(parts, f(s, &reply.fields))
		}
	}
	if reply.fields.err != nil || len(reply.fields.b) > 0 {
		parts = append(parts, fmt.Sprintf("UNREAD %q %v", reply.fields.b, reply.fields.err))
	}
	s.lines = append(s.lines, strings.Join(parts, " "))
}

// events records what has been queued for a client.
func (s *stage) events(client string) {
	s.tb.Helper()
	s.do(client, 11, body{})
}

// firstString is the path of most requests.
func firstString(b body) string {
	r := reader{b: b.b}
	if text := r.str(); r.err == nil && strings.HasPrefix(text, "/") {
		return text
	}
	return ""
}

func (s *stage) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("%+d", z-s.base)
}

// multiOf builds the request of a multi or a multiRead from pairs of opcode and body.
func multiOf(ops ...any) body {
	var b body
	for i := 0; i < len(ops); i += 2 {
		b = b.int(int32(ops[i].(int))).flag(false).int(-1).join(ops[i+1].(body))
	}
	return b.int(-1).flag(true).int(-1)
}
