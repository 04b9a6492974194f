// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"math"
	"strconv"
	"time"
)

// traffic counts what went through a connection, or through all. Server.mu guards it.
type traffic struct {
	received, sent int64
	latency        latency

	// Of the request of a connection that was answered last.
	lastOp     string        // see statName
	lastXid    int32         // of the last that its client gave a number, -1 for none
	lastZxid   int64         // of the last transaction by then
	lastAnswer time.Duration // when, on the server's clock
}

func newTraffic() traffic {
	return traffic{lastOp: "NA", lastXid: -1, lastZxid: -1}
}

// latency sums up how long requests took, in whole milliseconds, as ZooKeeper counts it.
type latency struct {
	count, total, least, most, last int64
}

func (l *latency) add(d time.Duration) {
	ms := d.Milliseconds()
	if l.count == 0 || ms < l.least {
		l.least = ms
	}
	l.most = max(l.most, ms)
	l.last = ms
	l.total += ms
	l.count++
}

// average has up to four decimals, and at least one.
func (l *latency) average() string {
	mean := math.Round(1e4*float64(l.total)/float64(max(l.count, 1))) / 1e4
	if mean == math.Trunc(mean) {
		return strconv.FormatFloat(mean, 'f', 1, 64)
	}
	return strconv.FormatFloat(mean, 'f', -1, 64)
}
