// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"sync"
	"time"
)

// safetyShare is the part of the session timeout by which a lease ends early:
// room for clocks that run at different rates and for a goroutine that is
// scheduled late.
const safetyShare = 100

// leaseClock knows until when the server is certain to keep the session.
//
// A server expires a session no earlier than the negotiated timeout after it received
// the session's last request. A request that has been acknowledged was received after it
// was sent. So the send time of the newest acknowledged request plus the timeout is a
// safe deadline, whatever happened since. Receipt of bytes, watch notifications and
// authentication replies prove nothing.
//
// Once the deadline has passed the lease is over for good, even if a late reply
// arrives: the server may already be closing the session. Only another handshake
// opens a new lease, or the acknowledgement of a request that was sent after the
// deadline on the same connection. All times come from [clock].
type leaseClock struct {
	mu       sync.Mutex
	session  int64
	timeout  time.Duration
	deadline time.Time
	over     bool

	touches []touch // of the current connection, oldest first
	quorum  time.Time
}

// open starts or renews the lease after a handshake that was sent at sent. It
// reports whether this is a new lease: the session is another one, or the lease
// of the old one was over.
//
// The deadline may move back: a server that grants a shorter timeout than before uses it
// from the handshake on.
func (l *leaseClock) open(session int64, timeout time.Duration, sent, now time.Time) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh = l.session != session || l.isOver(now)
	l.begin(session, sent)
	l.session, l.timeout = session, timeout
	l.deadline, l.over = l.end(sent), false
	// A shorter timeout binds the whole quorum.
	if l.quorum.After(l.deadline) {
		l.quorum = l.deadline
	}
	return fresh
}

// renew moves the deadline after a reply to a request that was sent at sent. It
// reports whether this has opened a new lease after the last one was over.
func (l *leaseClock) renew(sent, now time.Time) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end(sent)
	if l.isOver(now) {
		if l.session == 0 || sent.Before(l.deadline) || !now.Before(end) {
			return false
		}
		// The server kept the session at least that long, but holds on it have been ended.
		l.deadline, l.over = end, false
		l.touches = append(l.touches[:0], touch{sent: sent, acked: now})
		return true
	}
	// Replies may prove less than an earlier one: credit only moves forward.
	if end.After(l.deadline) {
		l.deadline = end
	}
	l.remember(sent, now)
	return false
}

// check returns the deadline and whether it has passed. Once it has, the lease
// stays over until the next open.
func (l *leaseClock) check(now time.Time) (deadline time.Time, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline, l.isOver(now)
}

// left returns the time until the deadline, 0 when the lease is over, and the timeout
// that the server has granted.
func (l *leaseClock) left(now time.Time) (left, granted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver(now) {
		return 0, l.timeout
	}
	return l.deadline.Sub(now), l.timeout
}

func (l *leaseClock) isOver(now time.Time) bool {
	if l.session == 0 || !now.Before(l.deadline) {
		l.over = true
	}
	return l.over
}

func (l *leaseClock) end(sent time.Time) time.Time {
	return sent.Add(l.timeout - l.timeout/safetyShare)
}
