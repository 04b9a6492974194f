// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/gocurator/curator/recipes/x/slots"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// generator makes ids with the number of a slot. It is for one goroutine.
type generator struct {
	slot  *slots.Slot
	last  int64 // the time of the last id, in milliseconds
	count int64 // of ids with that time
}

// next returns an id, or an error if the slot has ended. A clock that is set back does not set it back.
func (g *generator) next() (int64, error) {
	now := max(time.Since(epoch).Milliseconds(), g.last)
	if g.count++; now > g.last {
		g.count = 0
	}
	if g.count == 1<<12 { // the ids of this millisecond are used up
		now, g.count = now+1, 0
	}
	g.last = now
	// Asked last: it was valid when the time was read.
	return now<<22 | int64(g.slot.Number())<<12 | g.count, g.slot.Err()
}
