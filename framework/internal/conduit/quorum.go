// SPDX-License-Identifier: Apache-2.0

package conduit

import "time"

// touchSpacing is the part of the session timeout by which the touches that are
// remembered lie apart, and maxTouches how many of them there are: together two
// session timeouts.
const (
	touchSpacing = 16
	maxTouches   = 32
)

// touch is a request that the server of the current connection has acknowledged.
type touch struct {
	sent  time.Time
	acked time.Time

	// atLeader means that the leader knew of the request before it was acknowledged. A
	// handshake is such a request: the server asks the leader whether the session is valid.
	atLeader bool
}

// A server that has lost its leader goes on acknowledging pings, and so does a leader that
// has lost its followers, while the other servers may already let the session expire.
// Neither can commit a write.
//
// A server reports the sessions it has heard from to its leader every half tick, and its
// writes follow those reports on the same channel. So when a write is acknowledged, the
// leader knows of every request of the same connection that was acknowledged at least one
// tick before the write was sent. The leader keeps the session for the timeout from then
// on. It is not enough that the request was sent a tick before: if the line was
// interrupted, both may have reached the server together. A new leader starts to count
// later still.
//
// This trusts a leader to ask its followers twice a tick. It does not cover a leader that
// stalls for longer, and is then cut off in the milliseconds between a commit and the
// answer to its next ping. A lock's fencing token covers that.

// confirm moves the quorum's deadline after the acknowledgement of a committed
// write.
func (l *leaseClock) confirm(sent time.Time, tick time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.touches) - 1; i >= 0; i-- {
		t := l.touches[i]
		if !t.atLeader && sent.Sub(t.acked) < tick {
			continue // its server may not have reported it to the leader in time
		}
		if end := l.end(t.sent); end.After(l.quorum) {
			l.quorum = end
		}
		return
	}
}

// quorumDeadline returns until when the quorum is certain to keep the session. It
// is not later than the deadline of check.
func (l *leaseClock) quorumDeadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quorum
}

// begin forgets the touches of the previous connection, because its server may be cut
// off; callers hold mu.
func (l *leaseClock) begin(session int64, sent time.Time) {
	l.touches = append(l.touches[:0], touch{sent: sent, atLeader: true})
	if l.session != session {
		l.quorum = time.Time{}
	}
}

// remember adds a touch unless the newest is hardly older; callers hold mu.
func (l *leaseClock) remember(sent, acked time.Time) {
	n := len(l.touches)
	if sent.Sub(l.touches[n-1].sent) < l.timeout/touchSpacing {
		return
	}
	if n == maxTouches {
		n = copy(l.touches, l.touches[1:])
	}
	l.touches = append(l.touches[:n], touch{sent: sent, acked: acked})
}
