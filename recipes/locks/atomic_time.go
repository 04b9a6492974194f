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

// within reports whether the moment is not longer ago than d.
func (m *atomicTime) within(d time.Duration) bool {
	at := m.at.Load()
	return at != 0 && time.Since(epoch)-time.Duration(at) <= d
}
