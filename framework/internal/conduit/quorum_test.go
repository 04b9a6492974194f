// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuorumsDeadline: what a committed write confirms is not its own time but
// that of what the leader has certainly heard before it.
func TestQuorumsDeadline(t *testing.T) {
	const (
		timeout = 100 * time.Second // ends after 99
		tick    = 20 * time.Second
	)
	seconds := func(l *leaseClock) float64 {
		if l.quorumDeadline().IsZero() {
			return 0
		}
		return l.quorumDeadline().Sub(at(0)).Seconds()
	}
	renew := func(l *leaseClock, sent float64) { l.renew(at(sent), at(sent)) }
	for name, test := range map[string]func(l *leaseClock){
		"nothing but writes confirms": func(l *leaseClock) {
			renew(l, 50)
			require.Zero(t, seconds(l))
		},
		"a handshake reaches the leader at once": func(l *leaseClock) {
			l.confirm(at(1), tick)
			require.InDelta(t, 99, seconds(l), 0)
		},
		"a write does not confirm itself": func(l *leaseClock) {
			l.confirm(at(60), tick)
			renew(l, 60)
			require.InDelta(t, 99, seconds(l), 0)
		},
		"the newest request that is a tick older counts": func(l *leaseClock) {
			for _, sent := range []float64{30, 40, 50} {
				renew(l, sent)
			}
			l.confirm(at(60), tick)
			require.InDelta(t, 139, seconds(l), 0)
			l.confirm(at(69.9), tick)
			require.InDelta(t, 139, seconds(l), 0)
			l.confirm(at(70), tick)
			require.InDelta(t, 149, seconds(l), 0)
		},
		"a request that has waited for its answer is as young as that": func(l *leaseClock) {
			l.renew(at(30), at(50))
			l.confirm(at(60), tick)
			require.InDelta(t, 99, seconds(l), 0, "both may have come to the server together")
			l.confirm(at(70), tick)
			require.InDelta(t, 129, seconds(l), 0)
		},
		"requests close together count as the oldest of them": func(l *leaseClock) {
			for sent := 30.0; sent < 36; sent++ {
				renew(l, sent)
			}
			l.confirm(at(60), tick)
			require.InDelta(t, 129, seconds(l), 0)
		},
		"requests of another connection do not count": func(l *leaseClock) {
			renew(l, 30)
			l.open(1, timeout, at(40), at(41))
			l.confirm(at(45), tick)
			require.InDelta(t, 139, seconds(l), 0, "the handshake of this one does")
		},
		"another session begins anew": func(l *leaseClock) {
			l.confirm(at(1), tick)
			l.open(2, timeout, at(40), at(41))
			require.Zero(t, seconds(l))
		},
		"a shorter timeout holds at once": func(l *leaseClock) {
			l.confirm(at(1), tick)
			l.open(1, timeout/10, at(40), at(41))
			require.InDelta(t, 49.9, seconds(l), 0)
		},
		"only the newest are remembered": func(l *leaseClock) {
			for sent := 10.0; sent < 10_000; sent += 10 {
				renew(l, sent)
			}
			require.LessOrEqual(t, cap(l.touches), 2*maxTouches)
			l.confirm(at(9990), tick)
			require.InDelta(t, 9970+99, seconds(l), 0)
		},
	} {
		t.Run(name, func(*testing.T) {
			var l leaseClock
			l.open(1, timeout, at(0), at(0))
			test(&l)
		})
	}
}
