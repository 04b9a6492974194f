// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Cut resets all connections, on both sides. When it returns, the sockets are closed. New connections are accepted.
func (p *Proxy) Cut() {
	p.commandf(func() {}, "Cut")
	p.resetAll("cut", func(*link) bool { return true })
}

// Refuse says whether new connections are reset as soon as they are accepted. Those that exist go on.
func (p *Proxy) Refuse(on bool) {
	p.commandf(func() { p.refusing = on }, "Refuse %t", on)
}

// Blackhole makes the given direction silent, on connections that exist and on new ones, until [Proxy.Heal]; directions
// add up over calls. As with a paused server or a partition, connecting and writing still work, and nothing arrives.
// The other side does not even learn of the end of a connection. Everything that is sent during that time is lost.
//
// A frame that is being written when Blackhole is called may still arrive. Interceptors still see frames before they are swallowed.
func (p *Proxy) Blackhole(dir Direction) {
	p.commandf(func() { p.blackhole |= dir }, "Blackhole %v", dir)
}

// Heal ends [Proxy.Blackhole], [Proxy.CutOff] and every [Stall]. Connections that lost bytes in the black hole are
// reset, since a stream with a hole is of no use. All other connections go on. Frames that were stalled are forwarded.
// Heal leaves Refuse, Pause, CutNext, Delay, Rate and interceptors alone.
func (p *Proxy) Heal() {
	p.commandf(func() {
		p.blackhole, p.cutOff = 0, false
		close(p.healed)
		p.healed = make(chan struct{})
	}, "Heal")
	p.resetAll("healed after loss", func(l *link) bool { return l.lost != 0 })
}

// Delay sets how much later each frame arrives, in each direction; 0 is the default. Frames stay in order and do not wait for each other,
// as on a long line. It holds for frames that are taken up from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.commandf(func() { p.delay = d }, "Delay %v", d)
}

// Rate limits each direction of each connection to this number of bytes per second, in pieces of at most a fiftieth of
// a second. 0, the default, is no limit. It holds for the next piece.
func (p *Proxy) Rate(bytesPerSecond int) {
	p.commandf(func() { p.rate = max(0, bytesPerSecond) }, "Rate %d", bytesPerSecond)
}

// Intercept calls judge for every frame from now on, except [Raw] ones, until the returned function is called. If there
// are several interceptors, the oldest is asked first, and the first verdict that is not [Pass] holds. After remove has
// returned no new call of judge begins. A call that is under way may still go on. The package documentation says from
// where judge is called.
//
// An interceptor that ends its goroutine, as testing.T.FailNow does, resets the connection. Intercept panics if judge is nil.
func (p *Proxy) Intercept(judge func(Frame) Verdict) (remove func()) {
	if judge == nil {
		panic("zkproxy: Intercept of a nil function, expected a func(Frame) Verdict")
	}
	i := &interceptor{judge: judge}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interceptors = append(p.interceptors, i)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.interceptors = slices.DeleteFunc(p.interceptors, func(other *interceptor) bool { return other == i })
	}
}

// Nth returns an interceptor that gives the k-th request of an opcode its verdict, from 1, and passes everything else. It counts over all
// connections, so the requests that matter should come from one. It panics if k is less than 1.
func Nth(k int, op int32, v Verdict) func(Frame) Verdict {
	return nth(k, op, ToServer, v)
}

// NthReply is Nth for replies.
func NthReply(k int, op int32, v Verdict) func(Frame) Verdict {
	return nth(k, op, ToClient, v)
}

func nth(k int, op int32, d Direction, v Verdict) func(Frame) Verdict {
	if k < 1 {
		panic(fmt.Sprintf("zkproxy: the frame with number %d, expected 1 for the first", k))
	}
	var seen atomic.Int64
	return func(f Frame) Verdict {
		if f.Direction != d || f.Op != op || f.Kind != Request && f.Kind != Reply || seen.Add(1) != int64(k) {
			return Pass
		}
		return v
	}
}
