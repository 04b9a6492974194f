package cache

import (
	"context"
	"errors"
	"slices"

	"github.com/gocurator/curator/framework"
)

// The window: few enough requests that others of the same client do not wait long behind
// them, and enough that the server always has the next one.
const (
	maxFlights  = 3
	maxVisits   = 64       // in one write
	maxExpected = 64 << 10 // bytes of data, as far as can be told
)

// batch is a number of nodes that are read in one write.
type batch struct {
	visits []visit
	reads  []framework.Read
	done   chan struct{}
	err    error // valid once done is closed
}

// visit is what is read of one node.
type visit struct {
	n    *node
	task task

	stat    *framework.Stat // of compare
	statErr error

	data     []byte
	dataStat framework.Stat
	absent   bool
	dataErr  error

	names    []string
	listStat framework.Stat
	listErr  error

	dataWatch, childWatch *framework.Watch
}

// issue sends as much of the queue as the window allows.
func (e *engine) issue(ctx context.Context) {
	for e.paused == nil && len(e.flights) < maxFlights {
		b := e.fill()
		if len(b.visits) == 0 {
			return
		}
		for i := range b.visits {
			b.reads = e.appendReads(b.reads, &b.visits[i])
		}
		e.flights = append(e.flights, b)
		e.sent++
		go func() {
			defer close(b.done)
			b.err = e.cache.client.Pipeline(ctx, b.reads...)
		}()
	}
}

// fill takes the next nodes off the queue.
func (e *engine) fill() *batch {
	limit := min(maxVisits, max(1, maxExpected/e.size))
	b := e.newBatch()
	for len(b.visits) < limit {
		n := e.queue.pop()
		if n == nil {
			break
		}
		n.jobs.flying, n.jobs.queued = n.jobs.queued, task{}
		b.visits = append(b.visits, visit{n: n, task: n.jobs.flying})
	}
	return b
}

// newBatch returns an empty batch, of which there are no more than flights.
func (e *engine) newBatch() *batch {
	b := new(batch)
	if last := len(e.spare) - 1; last >= 0 {
		b, e.spare = e.spare[last], e.spare[:last]
	}
	b.done = make(chan struct{})
	return b
}

// recycle keeps the memory of a batch that has been applied.
func (e *engine) recycle(b *batch) {
	clear(b.visits)
	clear(b.reads)
	e.spare = append(e.spare, &batch{visits: b.visits[:0], reads: b.reads[:0]})
}

// appendReads adds the requests for a visit. A one-shot watch is set by the read that it
// guards, or by an earlier one.
func (e *engine) appendReads(reads []framework.Read, v *visit) []framework.Read {
	n, w := v.n, &v.task.work
	if n.isTooLarge {
		e.spareTooLarge(v)
	}
	if e.cache.cfg.single {
		*w &^= list
	}
	armData := e.oneShot && n.armed.data() == nil
	if *w&compare != 0 && *w&readData == 0 && (armData || *w&list == 0) {
		var opts []framework.ExistsOption
		if armData {
			opts = append(opts, framework.Watched(&v.dataWatch))
		}
		reads = append(reads, framework.ReadStat(n.path, &v.stat, opts...).StoringErrorIn(&v.statErr))
	}
	if *w&readData != 0 {
		opts := []framework.GetOption{framework.StoringStatIn(&v.dataStat), framework.StoringAbsenceIn(&v.absent)}
		if e.cache.cfg.compressed {
			opts = append(opts, framework.Decompressed())
		}
		if armData {
			opts = append(opts, framework.Watched(&v.dataWatch))
		}
		reads = append(reads, framework.ReadData(n.path, &v.data, opts...).StoringErrorIn(&v.dataErr))
	}
	if *w&list != 0 {
		opts := []framework.ChildrenOption{framework.StoringStatIn(&v.listStat)}
		if e.oneShot && n.armed.children() == nil {
			opts = append(opts, framework.Watched(&v.childWatch))
		}
		reads = append(reads, framework.ReadChildren(n.path, &v.names, opts...).StoringErrorIn(&v.listErr))
	}
	return reads
}

// spareTooLarge takes out of a visit what would cost the connection again.
func (e *engine) spareTooLarge(v *visit) {
	large, w := e.tooLarge[v.n.path], &v.task.work
	if large.list {
		*w &^= list
	}
	if large.data && *w&readData != 0 {
		*w = *w&^readData | compare
	}
}

// landed is closed when the oldest batch has its replies.
func (e *engine) landed() <-chan struct{} {
	if len(e.flights) == 0 {
		return nil
	}
	return e.flights[0].done
}

// land applies the replies of the oldest batch. It fails when the client is closed.
func (e *engine) land() error {
	b := e.flights[0]
	e.flights = slices.Delete(e.flights, 0, 1)
	e.applied++
	switch {
	case b.err == nil:
		for i := range b.visits {
			v := &b.visits[i]
			if v.task.sweep != e.sweep {
				v.task.sweep = 0 // another one has taken over
			}
			if v.task.work != 0 {
				e.apply(v)
			}
			e.finish(v.n)
		}
		e.recycle(b)
		return nil
	case errors.Is(b.err, framework.ErrClosed), errors.Is(b.err, framework.ErrAuthFailed):
		return b.err
	}
	if framework.Retryable(b.err) || !e.blame(b) {
		e.paused = after(pause)
		e.cache.log().Warn("cache cannot read", logPath, e.cache.path, logError, b.err)
	}
	for i := range b.visits {
		v := &b.visits[i]
		if v.task.work != 0 {
			e.add(v.n, v.task)
		}
		e.finish(v.n)
	}
	return nil
}

// blame finds the read that no repetition can help, as its reply is too large, and takes it
// out of the work. It reports whether it has found one.
func (e *engine) blame(b *batch) bool {
	var failed *framework.OpError
	if !errors.As(b.err, &failed) {
		return false
	}
	for i := range b.visits {
		v := &b.visits[i]
		if v.n.path != failed.Path {
			continue
		}
		e.cache.log().Error("cache cannot keep a znode", logPath, v.n.path, logError, b.err)
		if !v.n.isTooLarge {
			v.n.isTooLarge = true
			e.tooLarge[v.n.path] = new(tooLarge)
		}
		if failed.Op == "children" {
			e.tooLarge[v.n.path].list = true
		} else {
			e.tooLarge[v.n.path].data = true
			e.remove(v.n)
		}
		e.spareTooLarge(v)
		return true
	}
	return false
}
