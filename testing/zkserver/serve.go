// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"strconv"
	"time"
)

// request is a frame after the connect request: its header and what follows.
type request struct {
	xid int32
	op  OpCode
	in  decoder
}

// pending is a request on its way to an answer.
type pending struct {
	request

	c       *conn
	asked   Request
	fault   Fault
	arrived time.Time
	waits   bool // for the leader of an ensemble
}

// path returns the path of the request. A multi has the path of its first operation; a request about no path has
// "".
func (r request) path() string {
	in := r.in
	if r.op.is(pathless) {
		return ""
	}
	if r.op == OpMulti || r.op == OpMultiRead {
		if _, done := in.multiHeader(); done {
			return ""
		}
	}
	path := in.string()
	if in.bad {
		return ""
	}
	return path
}

// reads returns the paths of a multiRead, nil for other requests.
func (r request) reads() []string {
	if r.op != OpMultiRead {
		return nil
	}
	var paths []string
	for in := r.in; ; {
		_, done := in.multiHeader()
		path := in.string()
		in.bool() // whether to watch
		if done || in.bad {
			return paths
		}
		paths = append(paths, path)
	}
}

// call is one request being served, under Server.mu.
type call struct {
	s   *Server
	c   *conn
	op  OpCode
	in  decoder
	out *encoder
	who *caller // of a transaction of an ensemble; otherwise the client of c

	// Set by handlers that differ from the usual.
	wrote   bool // the request is a transaction: its reply carries the transaction's zxid even while reads are frozen
	outside bool // the request is answered outside the order of transactions: its reply carries zxid
	zxid    int64
	end     bool // the connection ends with the reply

	nullBody bool // an error has a body, of a null buffer
}

func (x *call) begin() *txn {
	x.wrote = true
	t := x.s.begin()
	t.who = x.caller()
	return t
}

func (x *call) caller() caller {
	if x.who != nil {
		return *x.who
	}
	return caller{session: x.c.session.id, ids: x.c.ids, checks: &x.s.checks}
}

// pingXid is the xid of every reply to a ping.
const pingXid = -2

// serve asks the hooks about a request and does what they say.
func (s *Server) serve(c *conn, r request) {
	arrived := time.Now()
	asked := Request{SessionID: c.sessionID(), Xid: r.xid, Op: r.op, Path: r.path(), Reads: r.reads()}
	c.awaits.Store(asked.SessionID)
	defer c.awaits.Store(0)
	if !s.arrive(c, asked) {
		return
	}
	f := Pass
	if c.session != nil { // else its connect request was not answered with a session
		f = s.ask(c, &asked)
	}
	if !c.holdBack(f) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.attached {
		return
	}
	s.received(c)
	if c.isStuck(r.op) {
		s.noteRequest(Stuck, c, asked)
		return
	}
	p := &pending{request: r, c: c, asked: asked, fault: f, arrived: arrived}
	if s.member != nil {
		s.member.take(p)
		return
	}
	s.answer(p)
}

// answer applies a request and answers it, as far as its fault lets it.
func (s *Server) answer(p *pending) {
	c, r := p.c, p.request
	switch f := p.fault; f.kind {
	case faultLoseRequest:
		s.cut(c)
	case faultNeverAnswer:
	case faultFail:
		s.touchBy(c, r.op)
		s.scratch.beginReply()
		s.reply(c, s.scratch.endReply(r.xid, s.tree.zxid, f.code))
	case faultLoseReply:
		c.seal()
		s.apply(c, r)
		s.cut(c)
	case faultApplyNeverAnswer, faultRespond, faultPass:
		s.deliver(p, s.apply(c, r))
	}
}

// deliver answers a request that has been applied, unless its fault keeps the answer back.
func (s *Server) deliver(p *pending, done outcome) {
	c := p.c
	switch p.fault.kind {
	case faultApplyNeverAnswer:
		return
	case faultRespond:
		s.reply(c, []byte(p.fault.frame))
	default:
		s.note(Event{Kind: Served, Conn: c.number, SessionID: c.claims, Request: p.asked, Err: int32(done.err)})
		s.reply(c, done.answer)
		s.answered(c, p.request, done.err, p.arrived)
	}
	if done.end {
		s.cut(c)
	}
}

// holdBack waits for as long as a fault holds a request back. It returns false if the connection ends first. A
// request that is held back has not arrived, so it keeps no session alive.
func (c *conn) holdBack(f Fault) bool {
	if f.delay == 0 && f.until == nil {
		return true
	}
	awaits := c.awaits.Swap(0)
	defer c.awaits.Store(awaits)
	return f.wait(c.ended)
}

// arrive reports whether a request arrives rather than getting lost on its way.
func (s *Server) arrive(c *conn, r Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.swallow(c, ToServer, r, "")
}

// ask asks the hooks about a request, sets its index, and logs their answer.
func (s *Server) ask(c *conn, r *Request) Fault {
	f := s.hooks.ask(r)
	if f != Pass {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(Event{Kind: Faulted, Conn: c.number, SessionID: c.claims, Request: *r, Fault: f})
	}
	return f
}

// outcome is the result of a request.
type outcome struct {
	answer []byte // the frame of the reply, valid until the next call
	err    code
	end    bool // the connection ends with the reply
}

// maxScratch is how much memory of an answer the server keeps to build the next one in.
const maxScratch = 1 << 20

func (s *Server) apply(c *conn, r request) outcome {
	x := s.newCall(c, r.op, r.in)
	err := codeUnimplemented
	admitted := c.isSASLAuthenticated(r.op)
	if admitted && s.member == nil { // else it was touched as it arrived
		s.touchBy(c, r.op)
	}
	switch serve := s.handlers[r.op]; {
	case !admitted:
		err = codeSASLRequired
		x.end, x.outside = true, true
	case s.cfg.keeper && (serve == nil || r.op.is(beyondKeeper)):
		s.cut(c)
	case serve == nil || !s.cfg.version.knows(r.op):
		x.end, x.outside, x.zxid = true, true, -1
	case s.readOnly && r.op.is(forLeader):
		err = codeNotReadOnly
	default:
		err = serve(x)
	}
	return x.outcome(r.xid, err)
}

// newCall begins the reply to a request.
func (s *Server) newCall(c *conn, op OpCode, in decoder) *call {
	x := &call{s: s, c: c, op: op, in: in, out: &s.scratch}
	if cap(x.out.b) > maxScratch {
		x.out.b = nil
	}
	x.out.beginReply()
	s.checks = maxChecks
	return x
}

// outcome ends the reply.
func (x *call) outcome(xid int32, err code) outcome {
	if x.op == OpPing {
		xid = pingXid
	}
	answer := x.out.endReply(xid, x.replyZxid(), err)
	if x.nullBody {
		x.out.buffer(nil)
		answer = x.out.sized()
	}
	return outcome{answer: answer, err: err, end: x.end}
}

// replyZxid is the zxid of the last transaction that the client's server has applied. For a client whose reads are
// frozen, that server lags behind but never goes back.
func (x *call) replyZxid() int64 {
	if x.outside {
		return x.zxid
	}
	zxid := x.s.tree.zxid
	if f := x.s.frozen(x.c); f != nil && !x.wrote {
		zxid = max(f.tree.zxid, x.c.lastZxid)
	}
	x.c.lastZxid = zxid
	return zxid
}

// reply queues a frame for the client of c and counts it.
func (s *Server) reply(c *conn, frame []byte) {
	if s.swallow(c, ToClient, Request{}, strconv.Itoa(len(frame))+" bytes") {
		return
	}
	s.traffic.sent++
	c.traffic.sent++
	c.send(frame)
}

func (s *Server) received(c *conn) {
	s.traffic.received++
	c.traffic.received++
}

// answered notes that the answer to a request has gone out, and how long that took. Credentials do not count.
func (s *Server) answered(c *conn, r request, err code, arrived time.Time) {
	if operations[r.op].stat == "" {
		return
	}
	took := time.Since(arrived)
	s.traffic.latency.add(took)
	t := &c.traffic
	t.latency.add(took)
	t.lastOp = statName(r.op, err)
	if r.xid >= 0 { // the others are what clients do for themselves
		t.lastXid = r.xid
	}
	t.lastZxid, t.lastAnswer = s.tree.zxid, s.clock()
}
