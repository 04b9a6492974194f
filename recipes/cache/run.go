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

// run follows the tree until the context or the client ends, and says which.
func (e *engine) run(ctx context.Context) error {
	defer e.telemetry.ended()
	defer e.release()
	e.prune()
	if err := e.arm(ctx); err != nil {
		return err
	}
	for {
		e.drain()
		if e.moved { // the server of the next connection may have persistent watches
			if err := e.arm(ctx); err != nil {
				return err
			}
		}
		e.progress.endEras(e.applied)
		e.endSweep() // before more is sent, which would make followers of what is read now wait for it
		e.issue(ctx)
		e.endSweep()
		var err error
		select {
		case <-e.inbox.wake:
		case <-e.fired.Wake():
		case <-e.landed():
			e.drain() // events that came before the replies
			err = e.land(ctx)
		case <-e.ended():
			err = e.arm(ctx)
		case <-e.paused:
			e.paused = nil
		case <-ctx.Done():
			err = ErrClosed
		}
		if err != nil {
			return err
		}
	}
}

// land applies the replies of the oldest batch. It fails when the cache is closed or the client has ended, and the batch with it.
func (e *engine) land(ctx context.Context) error {
	b := e.flights[0]
	e.flights = slices.Delete(e.flights, 0, 1)
	e.applied++
	switch {
	case b.err == nil:
		e.applyAll(b)
		return nil
	case attempt.Ended(e.client) != nil:
		return attempt.Ended(e.client)
	case ctx.Err() != nil:
		return ErrClosed
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
