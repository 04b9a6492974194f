package locks

import (
	"sync/atomic"
	"time"
)

// epoch is what moments count from.
var epoch = time.Now()

// moment is a time that may be unset. It is safe for concurrent use.
type moment struct{ at atomic.Int64 } // nanoseconds since epoch, or 0 while it is unset

func (m *moment) set() { m.at.Store(max(int64(time.Since(epoch)), 1)) }

func (m *moment) clear() { m.at.Store(0) }

func (m *moment) isSet() bool { return m.at.Load() != 0 }

// ago returns how long ago the moment was, or 0 if it is not set.
func (m *moment) ago() time.Duration {
	if at := m.at.Load(); at != 0 {
		return time.Since(epoch) - time.Duration(at)
	}
	return 0
}

func (m *moment) within(d time.Duration) bool { return m.isSet() && m.ago() <= d }
