package locks

import (
	"sync/atomic"
	"time"
)

// moment is a time that may be unset. It is safe for concurrent use.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set() { now := time.Now(); m.at.Store(&now) }

func (m *moment) clear() { m.at.Store(nil) }

func (m *moment) isSet() bool { return m.at.Load() != nil }

// ago returns how long ago the moment was, or 0 if it is not set.
func (m *moment) ago() time.Duration {
	if at := m.at.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

func (m *moment) within(d time.Duration) bool { return m.isSet() && m.ago() <= d }
