// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
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

// land applies the replies of the oldest batch. It fails when the client has ended.
func (e *engine) land() error {
	b := e.flights[0]
	e.flights = slices.Delete(e.flights, 0, 1)
	e.applied++
	switch {
	case b.err == nil:
		e.applyAll(b)
		return nil
	case attempt.Ended(e.client) != nil:
		return attempt.Ended(e.client)
	}
	// Without the read to blame the next try may succeed at once.
	if framework.Retryable(b.err) || !e.blame(b) {
		e.paused = time.After(pause)
		e.log.Warn("cache cannot read", logPath, e.path, logError, b.err)
	}
	e.repeat(b)
	return nil
}

func (e *engine) applyAll(b *batch) {
	e.tally = tally{}
	for i := range b.visits {
		v := &b.visits[i]
		if !e.progress.isOfSweep(v.task) {
			v.task.sweep = 0 // a newer sweep has taken over
		}
		if v.task.work != 0 {
			e.apply(v)
		}
		e.finish(v.n)
	}
	if e.tally.all > 0 {
		// What changes together is mostly visited together.
		e.eager = 2*e.tally.changed > e.tally.all
	}
	e.recycle(b)
}

// repeat adds the work of a batch that failed again.
func (e *engine) repeat(b *batch) {
	for i := range b.visits {
		v := &b.visits[i]
		v.task.work = e.oversized.without(v.task.work, v.n.path)
		if v.task.work != 0 {
			e.add(v.n, v.task)
		}
		e.finish(v.n)
	}
}

// blame finds the read whose reply is too large, so that no other try can help, and takes it
// out of the work. It reports whether it has taken one out.
func (e *engine) blame(b *batch) bool {
	var failed *framework.OpError
	if !errors.As(b.err, &failed) {
		return false
	}
	for i := range b.visits {
		n := b.visits[i].n
		if n.path != failed.Path {
			continue
		}
		isList := failed.Op == "children"
		if !e.oversized.add(n.path, isList) {
			return false
		}
		e.log.Error("cache cannot keep a znode", logPath, n.path, logError, b.err)
		if isList {
			e.picture.unlisted.Store(&n.path)
		} else {
			e.picture.remove(n.path)
		}
		return true
	}
	return false
}
