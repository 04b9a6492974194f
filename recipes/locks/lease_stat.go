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

// Exclusive reports whether the lock has at most one owner at a time. It is false for a read
// lease, and for a permit of a semaphore unless the maximum is FixedLeases(1). Do not fence
// the tokens of leases that are not exclusive against each other: the older of two may still
// be valid.
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
