// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"sync/atomic"
	"time"
)

// epoch is the zero of every atomicTime.
var epoch = time.Now()

// atomicTime is a time that may be unset. It is safe for concurrent use.
type atomicTime struct{ at atomic.Int64 } // nanoseconds since epoch, or 0 while it is unset

func (m *atomicTime) set() { m.at.Store(max(int64(time.Since(epoch)), 1)) }

func (m *atomicTime) clear() { m.at.Store(0) }

func (m *atomicTime) isSet() bool { return m.at.Load() != 0 }

// ago returns how long ago the moment was, or 0 if it is not set.
func (m *atomicTime) ago() time.Duration {
	if at := m.at.Load(); at != 0 {
		return time.Since(epoch) - time.Duration(at)
	}
	return 0
}

func (m *atomicTime) within(d time.Duration) bool { return m.isSet() && m.ago() <= d }
