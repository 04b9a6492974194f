// SPDX-License-Identifier: Apache-2.0

// Package logqueue keeps a slog.Handler from holding up the code that logs.
//
// A [Queue] takes records without blocking and writes them, in order, on a goroutine of
// its own. The goroutine exists only while there are records. A handler that blocks,
// panics or calls back into the code that logs costs log records and nothing else.
package logqueue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// limit bounds the records that wait. A record is a few hundred bytes, and a client logs a
// handful in a bad second: only a handler that has stopped lets the queue fill.
const limit = 1024

// Queue writes records to the handler that root returns.
type Queue struct {
	root func() slog.Handler // asked for every record, on the writing goroutine

	mu      sync.Mutex
	waiting []entry
	lost    int           // records dropped, or whose handler panicked, that no entry reports yet
	unsaid  int           // records lost whose report was lost, too
	idle    chan struct{} // closed when the writing goroutine has ended; nil while there is none
}

// entry is one record and the handler that it is for.
type entry struct {
	ctx    context.Context // of the call that logged; its values may be what the handler writes
	record slog.Record
	derive []func(slog.Handler) slog.Handler
	lost   int  // records lost before this one, or the number that it reports
	report bool // the record is the queue's own
}

// New returns a queue for the handler that root returns. Neither root nor the handler is
// called by the goroutine that logs.
func New(root func() slog.Handler) *Queue { return &Queue{root: root} }

// Handler returns a handler that puts records from level up into the queue.
func (q *Queue) Handler(level slog.Level) slog.Handler { return &handler{q: q, level: level} }

// Flush waits until all records have been written, or for as long as the limit says. A nil
// Queue has none.
func (q *Queue) Flush(limit time.Duration) {
	if q == nil {
		return
	}
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

func (q *Queue) push(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == limit {
		q.lost++ // the oldest say what began, so the newest goes
		return
	}
	e.lost, q.lost, q.unsaid = q.lost+q.unsaid, 0, 0
	q.waiting = append(q.waiting, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.write()
	}
}

// write writes until the queue is empty. A handler that ends the goroutine, as
// testing.T.FailNow does, loses one record and not the rest.
func (q *Queue) write() {
	exited := true
	defer func() {
		if exited {
			go q.write()
		}
	}()
	for {
		e, ok := q.next()
		if !ok {
			exited = false
			return
		}
		q.handle(e)
	}
}

// next takes the oldest entry, or makes the report of what was lost before it. When there
// is neither the goroutine must end.
func (q *Queue) next() (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost := &q.lost
	if len(q.waiting) > 0 {
		lost = &q.waiting[0].lost
	}
	switch {
	case *lost > 0:
		e := reportOf(*lost)
		*lost = 0
		return e, true
	case len(q.waiting) == 0:
		close(q.idle)
		q.idle, q.waiting = nil, nil
		return entry{}, false
	}
	e := q.waiting[0]
	q.waiting[0] = entry{} // the array may live on for long
	q.waiting = q.waiting[1:]
	return e, true
}

// handle calls the handler, which is not the client's own code and may do anything.
func (q *Queue) handle(e entry) {
	returned := false
	defer func() {
		_ = recover() // a panic costs the record; it is counted like any other loss
		if !returned {
			q.fail(e)
		}
	}()
	h := q.root()
	for _, derive := range e.derive {
		h = derive(h)
	}
	if h.Enabled(e.ctx, e.record.Level) {
		// As slog does itself: a handler has no other place to report its errors to.
		_ = h.Handle(e.ctx, e.record)
	}
	returned = true
}

// fail counts a record whose handler has not returned. A report that failed waits for the
// next record: repeated at once it would fail without end.
func (q *Queue) fail(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.report {
		q.unsaid += e.lost
		return
	}
	q.lost++
}

func reportOf(lost int) entry {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records lost: the logger's handler was too slow or panicked", 0)
	r.AddAttrs(slog.Int("records", lost))
	return entry{ctx: context.Background(), record: r, lost: lost, report: true}
}

// handler is the end of the queue that a slog.Logger sees.
type handler struct {
	q      *Queue
	level  slog.Level
	derive []func(slog.Handler) slog.Handler
}

// Enabled compares levels. The writing goroutine asks the handler whether it is enabled
// for a record, because its answer may block as well.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle queues the record and returns nil.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.q.push(entry{ctx: ctx, record: r.Clone(), derive: h.derive})
	return nil
}

// WithAttrs returns a handler whose records have these attributes, too.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup returns a handler whose attributes are in a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) with(derive func(slog.Handler) slog.Handler) slog.Handler {
	derived := *h
	derived.derive = slices.Concat(h.derive, []func(slog.Handler) slog.Handler{derive})
	return &derived
}
