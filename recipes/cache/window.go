// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"time"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// The window has so few requests that other requests of the client do not wait long behind
// them, and so many that the server always has the next one.
const (
	maxFlights  = 3
	maxVisits   = 64       // in one write
	maxExpected = 64 << 10 // bytes of data, as far as can be told

	// littleData is the size in bytes up to which data is read instead of compared by its Stat.
	// Such data is not much longer than a Stat, and many such reads share a request.
	littleData = 256
)

// pause is how long the engine waits after reads that the client's retry policy gave up.
const pause = time.Second

// window is the batches of reads that are under way, and what the replies so far say about the next one.
type window struct {
	flights []*batch // in the order in which they were sent, and are applied
	spare   []*batch
	sent    int // batches
	applied int // of these
	size    int // of the data of a znode, as a moving average in bytes
	tally   tally
	eager   bool // most of what was compared last has changed
	paused  <-chan time.Time
}

// tally counts the comparisons of one batch.
type tally struct{ all, changed int }

// issue sends as much of the queue as the window allows.
func (e *engine) issue(ctx context.Context) {
	for e.paused == nil && len(e.flights) < maxFlights {
		b := e.fill()
		if len(b.visits) == 0 {
			e.spare = append(e.spare, b)
			return
		}
		// Only now: visits do not move any more, and the reads point into them.
		for i := range b.visits {
			b.reads = b.visits[i].appendReads(b.reads, e.oneShot)
		}
		b.done = make(chan struct{})
		e.flights = append(e.flights, b)
		e.sent++
		go func() {
			defer close(b.done)
			b.err = attempt.Guard(e.client, func() error { return e.client.Pipeline(ctx, b.reads...) })
		}()
	}
}

// fill takes the next nodes off the queue and the walks.
func (e *engine) fill() *batch {
	limit := min(maxVisits, max(1, maxExpected/e.size))
	b := e.newBatch()
	for len(b.visits) < limit {
		e.explore() // one for each that leaves the queue: neither waits for the end of the other
		if n := e.queue.pop(); n != nil {
			b.visits = append(b.visits, visit{n: n, task: e.take(n)})
		} else if len(e.walks) == 0 {
			break
		}
	}
	return b
}

// newBatch returns an empty batch. There are no more of them than flights.
func (e *engine) newBatch() *batch {
	last := len(e.spare) - 1
	if last < 0 {
		return new(batch)
	}
	b := e.spare[last]
	e.spare = e.spare[:last]
	return b
}

// recycle keeps the memory of a batch that has been applied.
func (e *engine) recycle(b *batch) {
	clear(b.visits) // or what they refer to stays in memory
	clear(b.reads)
	e.spare = append(e.spare, &batch{visits: b.visits[:0], reads: b.reads[:0]})
}

// landed is closed when the oldest batch has its replies.
func (e *engine) landed() <-chan struct{} {
	if len(e.flights) == 0 {
		return nil
	}
	return e.flights[0].done
}
