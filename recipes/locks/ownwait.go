package locks

import (
	"time"

	"github.com/gocurator/curator/framework"
)

// ownWait is how long an acquisition waits for a hold of its own process before it logs
// that: the caller may have meant to re-enter the lock.
const ownWait = 10 * time.Second

// warning returns a channel that gets a value when it is time to warn.
func (a *acquisition) warning() (due <-chan time.Time, stop func()) {
	if holder := a.companionAwaited(); holder == nil || holder.warned.Load() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(time.Until(a.began.Add(ownWait)), 0))
	return timer.C, func() { timer.Stop() }
}

// companionAwaited returns an acquisition of this process that holds the lock and that a
// waits for, or nil.
func (a *acquisition) companionAwaited() *member {
	for _, p := range a.awaited {
		if p.local != nil && p.local.granted.isSet() {
			return p.local
		}
	}
	return nil
}

// warn logs that this process waits for its own hold, once for each hold.
func (a *acquisition) warn() {
	holder := a.companionAwaited()
	if holder == nil || holder.warned.Swap(true) {
		return
	}
	_, _, label := parseIdentity(string(holder.data))
	a.l.client.Logger().Warn("waiting for a lock that this process holds itself: to re-enter it, "+
		"acquire it with the context of its lease",
		string(keyPath), a.l.path, "holder", framework.JoinPath(a.l.path, holder.name), "label", label,
		"waiting", time.Since(a.began).Round(time.Second), "held", holder.granted.ago().Round(time.Second))
}
