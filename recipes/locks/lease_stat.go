package locks

import (
	"time"

	"github.com/gocurator/curator/framework"
)

// Since returns when the hold began, by the clock of this process. Leases of one owner that
// re-entered have the same time. [Participant] has the time of the node's creation, by the
// server's clock, which is when the wait began.
func (l *Lease) Since() time.Time { return l.hold.since }

// Session returns the session that the hold belongs to. Until its Deadline the session is
// certain to live; see [framework.Session].
func (l *Lease) Session() *framework.Session { return l.hold.session }

// Exclusive reports whether no other owner can hold the lock at the same time. It is false
// for a read lease, and for a permit of a semaphore unless its maximum is a fixed 1. The
// tokens of leases that are not exclusive must not be fenced against each other: the older
// of two may be just as valid.
//
// A [LockInternals] counts as exclusive if its maxLeases is 1.
func (l *Lease) Exclusive() bool {
	_, shared := l.hold.l.driver.(sharedDriver)
	return !shared && l.hold.l.maxLeases == MaxLeases(FixedLeases(1))
}

// sharedDriver is the driver of a lock that several owners may hold at once although its
// maximum is 1.
type sharedDriver interface{ isShared() }

func (readDriver) isShared() {}
