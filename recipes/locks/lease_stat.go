package locks

import (
	"time"

	"github.com/gocurator/curator/framework"
)

// Since returns when the hold began: the time of the grant by the clock of this process.
// A lease that re-entered has the time of its owner's first. The server's time of the
// node's creation, which is when the wait began, is in [Participant].
func (l *Lease) Since() time.Time { return l.hold.since }

// Session returns the session that the hold belongs to. Its Deadline is how long the
// client is certain that the session lives; see [framework.Session].
func (l *Lease) Session() *framework.Session { return l.hold.session }

// Exclusive reports whether no other owner can hold the lock at the same time. It is
// false for a read lease, and for a permit of a semaphore with another maximum than a
// fixed 1. The holder with the older token is then as valid as the one with
// the newer, so the tokens are not for one receiver that refuses older ones.
//
// A lock with a driver of its own counts as exclusive when it was made for one lease.
func (l *Lease) Exclusive() bool {
	_, shared := l.hold.l.driver.(sharedDriver)
	return !shared && l.hold.l.maxLeases == MaxLeases(FixedLeases(1))
}

// sharedDriver is the driver of a lock that several hold at once although its number of
// leases is one.
type sharedDriver interface{ isShared() }

func (readDriver) isShared() {}
