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
		var reads []framework.Read
		for i := range b.visits {
			reads = append(reads, e.reads(&b.visits[i])...)
		}
		e.flights = append(e.flights, b)
		go func() {
			defer close(b.done)
			b.err = e.cache.client.Pipeline(ctx, reads...)
		}()
	}
}

// fill takes the next nodes off the queue.
func (e *engine) fill() *batch {
	limit := min(maxVisits, max(1, maxExpected/e.size))
	b := &batch{visits: make([]visit, 0, min(limit, e.queue.len())), done: make(chan struct{})}
	for len(b.visits) < limit {
		n := e.queue.pop()
		if n == nil {
			break
		}
		n.flying, n.queued = n.queued, task{}
		b.visits = append(b.visits, visit{n: n, task: n.flying})
	}
	return b
}

// reads returns the requests for a visit. A one-shot watch is set by the read that it
// guards, or by an earlier one.
func (e *engine) reads(v *visit) []framework.Read {
	n, w := v.n, &v.task.work
	if n.tooLarge.list {
		*w &^= list
	}
	if n.tooLarge.data && *w&readData != 0 {
		*w = *w&^readData | compare
	}
	if e.cache.cfg.single {
		*w &^= list
	}
	armData := e.oneShot && n.data == nil
	var reads []framework.Read
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
		if e.oneShot && n.children == nil {
			opts = append(opts, framework.Watched(&v.childWatch))
		}
		reads = append(reads, framework.ReadChildren(n.path, &v.names, opts...).StoringErrorIn(&v.listErr))
	}
	return reads
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
		if failed.Op == "children" {
			v.n.tooLarge.list = true
			v.task.work &^= list
			return true
		}
		v.n.tooLarge.data = true
		e.remove(v.n)
		v.task.work = v.task.work&^readData | compare // which tells what to remember
		return true
	}
	return false
}
