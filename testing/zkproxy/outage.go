// SPDX-License-Identifier: Apache-2.0

package zkproxy

import "encoding/binary"

// Pause says whether frames, and ends of connections, are held up in both directions, as by a server whose process is stopped. Nothing is
// lost: after the pause everything goes on in its order. Connections are accepted during the pause.
func (p *Proxy) Pause(on bool) {
	p.commandf(func() {
		switch {
		case on && p.paused == nil:
			p.paused = make(chan struct{})
		case !on && p.paused != nil:
			close(p.paused)
			p.paused = nil
		}
	}, "Pause %t", on)
}

// awaitResume waits for the end of a pause. It returns false when the link is over before that.
func (s *stream) awaitResume() bool {
	p := s.link.proxy
	for {
		p.mu.Lock()
		paused := p.paused
		p.mu.Unlock()
		if paused == nil {
			return true
		}
		select {
		case <-paused:
		case <-s.link.ctx.Done():
			return false
		}
	}
}

// CutNext closes each of the next n connections right after its handshake. Together with [Proxy.Cut] it disconnects clients several
// times in a row, before they have recovered. CutNext(0) takes back what is left.
func (p *Proxy) CutNext(n int) {
	p.commandf(func() { p.toCut = max(0, n) }, "CutNext %d", n)
}

// isToBeCut reports whether the link must be closed after a frame, with mu held.
func (l *link) isToBeCut(f Frame) bool {
	if f.Kind != Handshake || f.Direction != ToClient || l.proxy.toCut == 0 {
		return false
	}
	l.proxy.toCut--
	return true
}

// CutOff makes the server look like a server in a partition that its followers have not noticed yet, until
// [Proxy.Heal]. It is a [Proxy.Blackhole] in both directions, but the proxy answers pings. The server hears nothing and
// expires the sessions; their clients are led to believe that they are alive. The first request on a connection that is
// not a ping gets no answer, and nothing after it does.
func (p *Proxy) CutOff() {
	p.commandf(func() { p.blackhole, p.cutOff = Both, true }, "CutOff")
}

// pong returns the answer to a frame that was swallowed if it is a ping that must be answered, with mu held.
func (l *link) pong(f Frame) (pong Frame, answered bool) {
	if !l.proxy.cutOff || f.Direction != ToServer {
		return Frame{}, false
	}
	if f.Kind != Ping || l.mute {
		l.mute = true
		return Frame{}, false
	}
	l.proxy.journal.add(Answered, f, "CutOff")
	ping := int32(xidPing)
	body := binary.BigEndian.AppendUint32(nil, uint32(ping))
	body = binary.BigEndian.AppendUint64(body, uint64(l.zxid))
	body = binary.BigEndian.AppendUint32(body, 0)
	return Frame{Conn: f.Conn, Direction: ToClient, Kind: Ping, Xid: xidPing, Zxid: l.zxid, Body: body}, true
}
