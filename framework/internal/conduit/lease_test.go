// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// at is a moment of the tests' clock.
func at(seconds float64) time.Time {
	return time.Time{}.Add(time.Hour + time.Duration(seconds*float64(time.Second)))
}

func TestLeaseClock(t *testing.T) {
	const timeout = 100 * time.Second // ends after 99: a hundredth is kept back
	type step struct {
		open     bool // else renew
		session  int64
		timeout  time.Duration
		sent     float64
		now      float64
		fresh    bool
		deadline float64
		over     bool
	}
	for name, steps := range map[string][]step{
		"a new session": {
			{open: true, session: 1, timeout: timeout, sent: 1, now: 5, fresh: true, deadline: 100},
		},
		"replies move the deadline to the newest send time": {
			{open: true, session: 1, timeout: timeout, sent: 1, now: 5, fresh: true, deadline: 100},
			{sent: 11, now: 20, deadline: 110},
			{sent: 9, now: 21, deadline: 110},
		},
		"a late reply never revives": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{sent: 98, now: 99, deadline: 99, over: true},
			{sent: 98, now: 98.5, deadline: 99, over: true}, // not even on a clock that is read late
		},
		"a reconnect within the lease resumes it": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{open: true, session: 1, timeout: timeout, sent: 50, now: 51, deadline: 149},
		},
		"a reconnect after the lease opens a fresh one": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{open: true, session: 1, timeout: timeout, sent: 98, now: 99, fresh: true, deadline: 197},
		},
		"another session is fresh": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{open: true, session: 2, timeout: timeout, sent: 10, now: 11, fresh: true, deadline: 109},
		},
		"a longer timeout counts from the handshake": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{open: true, session: 1, timeout: 2 * timeout, sent: 10, now: 11, deadline: 208},
		},
		"a shorter timeout takes back what the longer one promised": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{open: true, session: 1, timeout: timeout / 10, sent: 10, now: 11, deadline: 19.9},
			{sent: 12, now: 13, deadline: 21.9},
		},
		"the answer to a request that was sent after the deadline opens another": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{sent: 98, now: 120, deadline: 99, over: true},
			{sent: 99, now: 121, fresh: true, deadline: 198},
			{sent: 98.5, now: 122, deadline: 198},
			{sent: 100, now: 123, deadline: 199},
		},
		"an answer that took longer than the timeout opens none": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 0, fresh: true, deadline: 99},
			{sent: 100, now: 199, deadline: 99, over: true},
		},
		"a handshake that took longer than the timeout": {
			{open: true, session: 1, timeout: timeout, sent: 0, now: 100, fresh: true, deadline: 99, over: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l leaseClock
			for i, s := range steps {
				if s.open {
					require.Equal(t, s.fresh, l.open(s.session, s.timeout, at(s.sent), at(s.now)), "step %d: fresh", i)
				} else {
					require.Equal(t, s.fresh, l.renew(at(s.sent), at(s.now)), "step %d: fresh", i)
				}
				deadline, over := l.check(at(s.now))
				require.Equal(t, at(s.deadline), deadline, "step %d: deadline", i)
				require.Equal(t, s.over, over, "step %d: over", i)
			}
		})
	}
}

// TestLeaseNeverOutlivesTheServersView drives the clock with any sequence of
// handshakes and replies, and compares it with what the server is bound to: the
// timeout of its newest handshake, counted from a request that it has received.
func TestLeaseNeverOutlivesTheServersView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l leaseClock
		var timeout time.Duration
		var promised time.Time // when a server could expire the session at the earliest
		now := 0.0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			sent := now + rapid.Float64Range(0, 50).Draw(t, "pause")
			now = sent + rapid.Float64Range(0, 50).Draw(t, "delay")
			before, wasOver := l.check(at(now))
			opens := timeout == 0 || rapid.IntRange(0, 4).Draw(t, "open") == 0
			if opens {
				timeout = time.Duration(rapid.IntRange(1, 100).Draw(t, "timeout")) * time.Second
				session := rapid.Int64Range(1, 2).Draw(t, "session")
				promised = at(sent).Add(timeout)
				l.open(session, timeout, at(sent), at(now))
			} else {
				if end := at(sent).Add(timeout); end.After(promised) {
					promised = end
				}
				l.renew(at(sent), at(now))
			}
			deadline, over := l.check(at(now))
			if deadline.After(promised) {
				t.Fatalf("deadline %v after %v, when the server may expire the session", deadline, promised)
			}
			if wasOver && !over && !opens && at(sent).Before(before) {
				t.Fatalf("revived by the reply to a request that was sent before the deadline")
			}
		}
	})
}
