// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// opAttach is the pseudo opcode of an exchange that asks for a session.
const opAttach = -10

// wish is what a client asks for.
type wish struct {
	op             int32
	path, data     string
	version, flags int32
	parts          []wish // of a multi
}

// outcome is what an answer says. The times of a stat are left out.
type outcome struct {
	err        int32
	path, data string
	names      []string
	stat       stat
	parts      []outcome
}

func (o outcome) String() string {
	switch {
	case o.err != 0:
		return fmt.Sprint(o.err)
	case len(o.parts) > 0:
		return fmt.Sprint(o.parts)
	case o.stat == stat{}:
		return cmp.Or(o.path, "done")
	}
	return fmt.Sprintf("%s%s%v czxid %#x mzxid %#x pzxid %#x versions %d %d owner %#x", o.path, o.data, o.names,
		o.stat.czxid, o.stat.mzxid, o.stat.pzxid, o.stat.version, o.stat.cversion, o.stat.owner)
}

// exchange is a wish and what came of it.
type exchange struct {
	wish
	outcome

	client       string
	session      int64
	connection   int
	stale        bool          // sent over a connection that its session had left before
	began, ended time.Duration // since the history began; ended is 0 without an answer
	zxid         int64         // that the answer names, or the newest that a client has seen which asks for a session
}

// history is what clients of an ensemble have asked for and heard. What one client has done is in order.
type history struct {
	exchanges []exchange
	deposed   bool // a leader was paused or cut off: it may have gone on answering
	calm      bool // nothing has happened to servers

	mu          sync.Mutex // guards all above, and below
	began       time.Time
	connections int
}

func (h *history) elapsed() time.Duration { return time.Since(h.began) + 1 }

func (h *history) add(e exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.exchanges = append(h.exchanges, e)
}

func (e exchange) isWrite() bool { return slices.Contains([]int32{15, 2, 5, 14, opClose}, e.op) }
func (e exchange) isRead() bool  { return slices.Contains([]int32{3, 4, 12}, e.op) }

func (w wish) String() string {
	switch w.op {
	case 15:
		return fmt.Sprintf("create %s %q flags %d", w.path, w.data, w.flags)
	case 5:
		return fmt.Sprintf("setData %s %q version %d", w.path, w.data, w.version)
	case 14:
		return fmt.Sprintf("multi %v", w.parts)
	}
	names := map[int32]string{2: "delete", 3: "exists", 4: "getData", 9: "sync", 12: "getChildren", 13: "check", opClose: "closeSession", opAttach: "attach"}
	return fmt.Sprintf("%s %s version %d", names[w.op], w.path, w.version)
}

func (e exchange) String() string {
	text := fmt.Sprintf("%8v %s (%#x, connection %d) %v", e.began.Round(time.Millisecond), e.client, e.session, e.connection, e.wish)
	if e.ended == 0 {
		return text + ": no answer"
	}
	return fmt.Sprintf("%s: at %v, zxid %#x: %v", text, e.ended.Round(time.Millisecond), e.zxid, e.outcome)
}

func (h *history) String() string {
	var b strings.Builder
	for _, e := range slices.SortedStableFunc(slices.Values(h.exchanges), func(a, b exchange) int { return int(a.began - b.began) }) {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// cluster is three servers and an observer, in this process or in others.
type cluster interface {
	dial(ctx context.Context, server int) (net.Conn, error)

	// begin has a fault begin, tells whether a leader may go on that is none, and returns what ends the fault.
	begin(f trouble) (deposes bool, end func() error, err error)

	// slow has a server hear others late, and others it.
	slow(server int, d time.Duration)

	// settle waits until all servers follow one leader.
	settle(ctx context.Context) error
}

// servers is how many there are in a history. The last one is an observer.
const servers = 4

// trouble is a fault at a server.
type trouble struct {
	kind      int // one of the numbers below
	server    int
	at, lasts time.Duration
}

const (
	killServer = iota
	killLeader
	pauseServer
	isolateServer
	isolateLeader
	troubles
)

// playHistory has three clients do what a seed decides, on servers that meet faults, and returns what they have heard.
func playHistory(ctx context.Context, c cluster, seed uint64) (*history, error) {
	h := &history{began: time.Now(), calm: true}
	random := rand.New(rand.NewPCG(seed, 0))
	root := fmt.Sprintf("/h%d", seed)
	setup := &player{h: h, c: c, name: "setup", random: random}
	if err := setup.ask(ctx, wish{op: 15, path: root}, wish{op: 15, path: root + "/q"}, wish{op: opClose}); err != nil {
		return h, err
	}
	players := make([]*player, 3)
	errs := make(chan error, len(players)+1)
	for i := range players {
		p := &player{h: h, c: c, name: string(rune('a' + i)), random: rand.New(rand.NewPCG(seed, uint64(i+1))), root: root}
		players[i] = p
		go func() { errs <- p.play(ctx) }()
	}
	var faults []trouble
	for range random.IntN(3) {
		faults = append(faults, trouble{
			kind: random.IntN(troubles), server: random.IntN(servers),
			at: time.Duration(random.IntN(1500)) * time.Millisecond, lasts: time.Duration(200+random.IntN(2500)) * time.Millisecond,
		})
	}
	if slow := random.IntN(2 * servers); slow < servers {
		c.slow(slow, 60*time.Millisecond)
		defer c.slow(slow, 0)
	}
	go func() { errs <- h.disturb(ctx, c, faults) }()
	for range cap(errs) {
		if err := <-errs; err != nil {
			return h, err
		}
	}
	if err := c.settle(ctx); err != nil {
		return h, err
	}
	for _, p := range slices.Concat(players, []*player{{h: h, c: c, name: "last", random: random, root: root}}) {
		if err := p.finish(ctx); err != nil {
			return h, err
		}
	}
	return h, nil
}

// disturb has faults happen one after the other.
func (h *history) disturb(ctx context.Context, c cluster, faults []trouble) error {
	for _, f := range faults {
		time.Sleep(f.at)
		deposes, end, err := c.begin(f)
		if err != nil {
			return fmt.Errorf("%+v: %w", f, err)
		}
		h.mu.Lock()
		h.calm, h.deposed = false, h.deposed || deposes
		h.mu.Unlock()
		time.Sleep(f.lasts)
		if err := end(); err != nil {
			return fmt.Errorf("end of %+v: %w", f, err)
		}
		if err := c.settle(ctx); err != nil { // ZooKeeper 3.8.0 loses transactions if the next one is killed before
			return fmt.Errorf("after %+v: %w", f, err)
		}
	}
	return nil
}

// player is a client of a history.
type player struct {
	h      *history
	c      cluster
	name   string
	random *rand.Rand
	root   string

	raw, old   *rawClient // old is a connection that the session has left
	connection int
	oldNumber  int
	session    int64
	password   []byte
	zxid       int64
	writes     int
}

func (p *player) play(ctx context.Context) error {
	for range 14 {
		time.Sleep(time.Duration(p.random.IntN(350)) * time.Millisecond)
		if err := p.act(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) act(ctx context.Context) error {
	switch n := p.random.IntN(30); {
	case n == 0:
		return p.ask(ctx, wish{op: opClose}, p.wish(true))
	case n < 3:
		p.hangUp()
	case n < 5 && p.raw != nil: // the session moves, and its first connection tries to write
		p.old, p.oldNumber, p.raw = p.raw, p.connection, nil
		if err := p.attach(ctx); err != nil {
			return err
		}
		p.askStale(p.wish(true))
	}
	wishes := make([]wish, 1+p.random.IntN(3))
	for i := range wishes {
		wishes[i] = p.wish(p.random.IntN(2) == 0)
	}
	return p.ask(ctx, wishes...)
}

// node is one of few paths, so that clients meet.
func (p *player) node() string {
	return p.root + []string{"/a", "/a", "/b", "/b", "/a/c", "/q"}[p.random.IntN(6)]
}

func (p *player) content() string {
	p.writes++
	return fmt.Sprintf("%s%d", p.name, p.writes)
}

func (p *player) wish(writes bool) wish {
	if !writes {
		return wish{op: []int32{3, 4, 4, 12, 9}[p.random.IntN(5)], path: p.node()}
	}
	if p.random.IntN(5) == 0 {
		return wish{op: 14, parts: []wish{p.write(true), p.write(true)}}
	}
	return p.write(false)
}

func (p *player) write(isPart bool) wish {
	version := []int32{-1, -1, 0, 1}[p.random.IntN(4)]
	switch n := p.random.IntN(8); {
	case n < 2:
		return wish{op: 15, path: p.node(), data: p.content(), flags: p.random.Int32N(2)}
	case n < 4:
		return wish{op: 15, path: p.root + "/q/s-", data: p.content(), flags: 2 + p.random.Int32N(2)}
	case n < 6:
		return wish{op: 5, path: p.node(), data: p.content(), version: version}
	case n < 7 && isPart:
		return wish{op: 13, path: p.node(), version: version}
	}
	return wish{op: 2, path: p.node(), version: version}
}

// impatient is a connection whose owner waits no longer than this for anything.
type impatient struct {
	net.Conn

	wait time.Duration
}

func (c impatient) SetDeadline(time.Time) error { return c.Conn.SetDeadline(time.Now().Add(c.wait)) }

func (c impatient) SetReadDeadline(time.Time) error {
	return c.Conn.SetReadDeadline(time.Now().Add(c.wait))
}

func (p *player) hangUp() {
	if p.raw != nil {
		p.raw.nc.Close()
		p.raw = nil
	}
}

// attach connects to one server after the other until one takes the client.
func (p *player) attach(ctx context.Context) error {
	for tries := 0; p.raw == nil; tries++ {
		if tries > 60 {
			return fmt.Errorf("client %s finds no server in %d tries", p.name, tries)
		}
		if tries > 0 {
			time.Sleep(time.Duration(50+p.random.IntN(200)) * time.Millisecond)
		}
		p.try(ctx, p.random.IntN(servers))
	}
	return nil
}

func (p *player) try(ctx context.Context, server int) {
	p.h.mu.Lock()
	p.h.connections++
	p.connection = p.h.connections
	p.h.mu.Unlock()
	e := exchange{client: p.name, session: p.session, connection: p.connection, wish: wish{op: opAttach}, zxid: p.zxid, began: p.h.elapsed()}
	defer func() { p.h.add(e) }()
	dialing, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	nc, err := p.c.dial(dialing, server)
	if err != nil {
		return
	}
	raw, err := handshake(impatient{nc, 1500 * time.Millisecond}, connection{
		timeoutMs: 1000 + p.random.Int32N(3)*1000, session: p.session, password: p.password, lastZxid: p.zxid,
	})
	if err != nil {
		nc.Close()
		return
	}
	e.ended = p.h.elapsed()
	if raw.session == 0 {
		e.err = -112
		p.session, p.password, p.zxid = 0, nil, 0
		nc.Close()
		return
	}
	p.raw, p.session, p.password = raw, raw.session, raw.password
	e.session = raw.session
}

// ask sends requests without waiting in between, and receives what is answered.
func (p *player) ask(ctx context.Context, wishes ...wish) error {
	if err := p.attach(ctx); err != nil {
		return err
	}
	sent := p.exchange(p.raw, p.connection, false, wishes)
	for _, e := range sent {
		if e.ended == 0 || e.op == opClose || e.err == -112 || e.err == -118 {
			p.hangUp()
		}
		if e.ended != 0 {
			p.zxid = max(p.zxid, e.zxid)
		}
		if e.ended != 0 && (e.op == opClose || e.err == -112) {
			p.session, p.password, p.zxid = 0, nil, 0
		}
		p.h.add(e)
	}
	return nil
}

// askStale writes over the connection that the session has left.
func (p *player) askStale(w wish) {
	for _, e := range p.exchange(p.old, p.oldNumber, true, []wish{w}) {
		p.h.add(e)
	}
	p.old.nc.Close()
	p.old = nil
}

func (p *player) exchange(raw *rawClient, number int, stale bool, wishes []wish) []exchange {
	var sent []exchange
	var xids []int32
	for _, w := range wishes {
		e := exchange{client: p.name, session: p.session, connection: number, stale: stale, wish: w, began: p.h.elapsed()}
		xid, err := raw.send(w.op, w.encode())
		sent, xids = append(sent, e), append(xids, xid)
		if err != nil {
			break
		}
	}
	for i := range sent {
		reply, err := raw.receive()
		if err != nil || reply.xid != xids[i] {
			return sent
		}
		sent[i].ended, sent[i].zxid, sent[i].err = p.h.elapsed(), reply.zxid, reply.err
		if reply.err == 0 {
			sent[i].outcome = decodeOutcome(sent[i].op, &reply.fields)
		}
	}
	return sent
}

func (w wish) encode() body {
	switch w.op {
	case 15, 1:
		return createBody(w.path, w.data, w.flags)
	case 2, 13:
		return body{}.str(w.path).int(w.version)
	case 3, 4, 12:
		return body{}.str(w.path).flag(false)
	case 5:
		return body{}.str(w.path).str(w.data).int(w.version)
	case 9:
		return body{}.str(w.path)
	case 14:
		var list []any
		for _, part := range w.parts {
			op := int(part.op)
			if op == 15 {
				op = 1 // 3.8.0 fails on create2 in a multi
			}
			list = append(list, op, part.encode())
		}
		return multiOf(list...)
	}
	return body{}
}

func decodeOutcome(op int32, r *reader) (o outcome) {
	switch op {
	case 15:
		o.path, o.stat = r.str(), r.stat()
	case 3, 5:
		o.stat = r.stat()
	case 4:
		o.data, o.stat = r.str(), r.stat()
	case 12:
		o.names, o.stat = r.strs(), r.stat()
		slices.Sort(o.names)
	case 14:
		o.parts = decodeParts(r)
	}
	o.stat.ctime, o.stat.mtime = 0, 0
	if r.err != nil {
		o.err = -5
	}
	return o
}

func decodeParts(r *reader) (parts []outcome) {
	for r.err == nil {
		op, done, _ := r.int(), r.flag(), r.int()
		if done {
			break
		}
		var part outcome
		switch op {
		case 1:
			part.path = r.str()
		case 5:
			part.stat = r.stat()
			part.stat.ctime, part.stat.mtime = 0, 0
		case -1:
			part.err = r.int()
		}
		parts = append(parts, part)
	}
	return parts
}

// finish closes the client's session. The last client reads all there is.
func (p *player) finish(ctx context.Context) error {
	for p.session != 0 { // a connection may be over, and a session too: that has to be heard
		if err := p.ask(ctx, p.wish(true), wish{op: opClose}); err != nil {
			return err
		}
	}
	if p.name != "last" {
		return nil
	}
	if err := p.ask(ctx, wish{op: 15, path: p.root + "/end"}, wish{op: 9, path: p.root}); err != nil {
		return err
	}
	for _, path := range []string{"", "/a", "/b", "/a/c", "/q"} {
		if err := p.ask(ctx, wish{op: 4, path: p.root + path}, wish{op: 12, path: p.root + path}); err != nil {
			return err
		}
	}
	return p.ask(ctx, wish{op: opClose})
}
