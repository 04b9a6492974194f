package locks

import (
	"log/slog"
	"time"

	"github.com/gocurator/curator/framework"
)

// ownWait is how long an acquisition waits for a hold of its own process before it logs
// that: the caller may have meant to re-enter the lock.
const ownWait = 10 * time.Second

// warning returns a channel that gets a value when the wait for this hold, which began at
// that time, should be logged. The member may be nil: then there is nothing to log.
func (m *member) warning(began time.Time) (due <-chan time.Time, stop func()) {
	if m == nil || m.warned.Load() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(time.Until(began.Add(ownWait)), 0))
	return timer.C, func() { timer.Stop() }
}

// warn logs that this process waits for its own hold of the lock at path, once for each hold.
func (m *member) warn(logger *slog.Logger, path string, began time.Time) {
	if m.warned.Swap(true) {
		return
	}
	_, _, label := parseIdentity(m.place.Data)
	logger.Warn("waiting for a lock that this process holds itself: to re-enter it, "+
		"acquire it with the context of its lease",
		string(keyPath), path, "holder", framework.JoinPath(path, m.place.Name()), "label", label,
		"waiting", time.Since(began).Round(time.Second), "held", m.granted.ago().Round(time.Second))
}
