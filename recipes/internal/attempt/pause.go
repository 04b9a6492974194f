// SPDX-License-Identifier: Apache-2.0

package attempt

import "time"

// Between failed attempts there are pauses, each twice the one before.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Pause is how long to wait before the next attempt. The zero value is ready
// for use.
type Pause time.Duration

// Next returns the pause to make now. It doubles the one after it.
func (p *Pause) Next() time.Duration {
	d := min(max(time.Duration(*p), minPause), maxPause)
	*p = Pause(2 * d)
	return d
}

// Reset makes the next pause the shortest one.
func (p *Pause) Reset() { *p = 0 }
