// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// queueLength is how many frames may be on their way in one direction of a connection, that is, read and delayed or held up by an
// interceptor.
const queueLength = 1024

// stream is one direction of a link. One goroutine reads frames into the queue, another carries them to the other side, so that
// frames can be delayed without delaying each other.
type stream struct {
	link      *link
	direction Direction
	from, to  net.Conn
	queue     chan piece
	replies   *stream // of the stream of requests: the other one
}

// piece is a frame, or the error that ended the reading.
type piece struct {
	frame Frame
	err   error
	read  time.Time
}

// carry carries what was read. It resets the link if an interceptor ends the goroutine.
func (s *stream) carry() {
	exited := true
	defer func() {
		if exited {
			s.link.reset("an interceptor has ended its goroutine")
		}
	}()
	s.carryAll()
	exited = false
}

// carryAll takes up what was read, piece by piece, until the link is over.
func (s *stream) carryAll() {
	for p := range s.queue {
		if !s.sleep(time.Until(p.read.Add(s.delay()))) {
			return
		}
		if !s.awaitResume() {
			return
		}
		if p.err != nil {
			s.finish(p.err)
			return
		}
		if !s.handle(p.frame) {
			return
		}
	}
}

func (s *stream) delay() time.Duration {
	s.link.proxy.mu.Lock()
	defer s.link.proxy.mu.Unlock()
	return s.link.proxy.delay
}

// sleep returns true after d, and false when the link is over.
func (s *stream) sleep(d time.Duration) bool {
	if d <= 0 {
		return s.link.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.link.ctx.Done():
		return false
	}
}

// handle does with a frame what the interceptors want. It returns false when the link is over.
func (s *stream) handle(f Frame) bool {
	f, cut := s.link.identify(f)
	if cut {
		return s.withhold(f)
	}
	if f.Kind == Raw {
		return s.forward(f, false)
	}
	p := s.link.proxy
	switch verdict := p.judge(f); verdict {
	default:
		return s.substitute(f, verdict)
	case Pass:
		return s.forward(f, false)
	case Drop:
		p.record(Dropped, f, "")
		return true
	case CutBefore:
		s.link.reset("CutBefore " + f.String())
		return false
	case CutAfter:
		return s.cutAfter(f)
	case Duplicate:
		p.record(Duplicated, f, "")
		if !s.forward(f, false) {
			return false
		}
		return s.forward(f, false)
	case Stall:
		return s.stall(f) && s.forward(f, false)
	}
}

// forward sends a frame on, unless the direction is a black hole; cut reports whether its reply must be withheld.
func (s *stream) forward(f Frame, cut bool) bool {
	p := s.link.proxy
	p.mu.Lock()
	if s.link.swallow(s.direction, f, "") {
		pong, answered := s.link.pong(f)
		p.mu.Unlock()
		return !answered || s.replies.write(pong)
	}
	if s.direction == ToServer && f.Kind != Raw {
		s.link.called(f, cut)
	}
	if s.direction == ToClient {
		s.link.zxid = max(s.link.zxid, f.Zxid)
	}
	last := s.link.isToBeCut(f)
	p.journal.add(Forwarded, f, "")
	p.mu.Unlock()
	if !s.write(f) {
		return false
	}
	if last {
		s.link.end(Ended, "CutNext", closeConn)
	}
	return !last
}

// substitute sends what a verdict says instead of a frame.
func (s *stream) substitute(f Frame, verdict Verdict) bool {
	switch body := verdict.(type) {
	case Answer:
		if s.direction == ToServer {
			return s.answer(f, body)
		}
		return s.replace(f, Replace(body))
	case Replace:
		return s.replace(f, body)
	default:
		panic(fmt.Sprintf("zkproxy: unreachable: verdict %T", verdict))
	}
}

// answer sends the client a body instead of the server's reply to a request.
func (s *stream) answer(f Frame, body Answer) bool {
	s.link.proxy.record(Answered, f, "")
	if s.link.swallows(ToClient, "answer to "+f.String()) {
		return true
	}
	return s.replies.write(Frame{Conn: f.Conn, Direction: ToClient, Kind: Reply, Body: body})
}

// replace forwards another body instead of f's, which is a request like any other if it has a header.
func (s *stream) replace(f Frame, body Replace) bool {
	s.link.proxy.record(Replaced, f, "")
	other, err := parseFrame(f.Conn, f.Direction, f.Kind == Handshake, body)
	if err != nil {
		other.Kind = f.Kind
	}
	other.Index = f.Index
	return s.forward(other, false)
}

func (s *stream) cutAfter(f Frame) bool {
	if s.direction == ToServer {
		return s.forward(f, true)
	}
	if !s.forward(f, false) {
		return false
	}
	if !s.link.swallows(s.direction, "end of stream") {
		s.link.end(Ended, "CutAfter "+f.String(), closeConn)
	}
	return true // if there is more to come, the end of the link will be found there
}

// withhold keeps back the reply that an earlier CutAfter waits for.
func (s *stream) withhold(f Frame) bool {
	p := s.link.proxy
	p.mu.Lock()
	swallowed := s.link.swallow(s.direction, f, "")
	if !swallowed {
		p.journal.add(Withheld, f, "")
	}
	p.mu.Unlock()
	if !swallowed {
		s.link.reset("CutAfter the request")
	}
	return swallowed
}

// stall waits for Heal. It returns false when the link is over before that.
func (s *stream) stall(f Frame) bool {
	p := s.link.proxy
	p.mu.Lock()
	healed := p.healed
	p.journal.add(Stalled, f, "")
	p.mu.Unlock()
	select {
	case <-healed:
		return true
	case <-s.link.ctx.Done():
		return false
	}
}

// write sends a frame with its length, all at once or, under a rate, in pieces.
func (s *stream) write(f Frame) bool {
	if s.direction == ToClient { // the other stream may have an answer
		s.link.writing <- struct{}{} // no mutex: a wait for one stops the fake clock of testing/synctest
		defer func() { <-s.link.writing }()
	}
	b := f.Body
	if f.Kind != Raw {
		b = binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(f.Body)), uint32(len(f.Body)))
		b = append(b, f.Body...)
	}
	for len(b) > 0 {
		n, ok := s.pace(f, len(b))
		if !ok {
			return false
		}
		if n == 0 {
			return true // the rest of the frame is swallowed
		}
		if _, err := s.to.Write(b[:n]); err != nil {
			s.fail(Both&^s.direction, err)
			return false
		}
		b = b[n:]
	}
	return true
}

// pace waits until the next part of a frame may be sent and returns its length, 0 if a black hole has opened during the wait.
func (s *stream) pace(f Frame, left int) (n int, ok bool) {
	p := s.link.proxy
	p.mu.Lock()
	rate := p.rate
	p.mu.Unlock()
	if rate == 0 {
		return left, true
	}
	n = min(left, max(1, rate/50))
	if !s.sleep(time.Duration(n) * time.Second / time.Duration(rate)) {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.cutOff && f.Kind == Ping; !answer && s.link.swallow(s.direction, f, "in part") {
		n = 0
	}
	return n, true
}

// finish tells the other side how the reading ended.
func (s *stream) finish(err error) {
	if !errors.Is(err, io.EOF) {
		s.fail(s.direction, err)
		return
	}
	if s.link.swallows(s.direction, "end of stream") {
		return // the link stays as it is until Heal
	}
	p := s.link.proxy
	p.mu.Lock()
	s.link.open &^= s.direction
	last := s.link.open == 0
	p.journal.add(HalfShut, Frame{Conn: s.link.number, Direction: s.direction}, "")
	p.mu.Unlock()
	if last {
		s.link.end(Ended, "", closeConn)
		return
	}
	if err := endSending(s.to); err != nil {
		s.fail(Both&^s.direction, err)
	}
}

// fail resets the link for an error whose news would travel in the given direction.
func (s *stream) fail(d Direction, err error) {
	if s.link.ctx.Err() != nil {
		return // the error is that the link is over
	}
	if s.link.swallows(d, err.Error()) {
		return
	}
	if errors.Is(err, errGarbage) {
		s.link.proxy.record(Garbage, Frame{Conn: s.link.number, Direction: s.direction}, err.Error())
	}
	s.link.reset(err.Error())
}
