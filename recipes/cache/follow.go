// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// feed is where the engine hears of changes.
type feed struct {
	watch    *framework.PersistentWatch
	listener *listen.Registration
	oneShot  bool // there are no persistent watches
	moved    bool // the connection of one-shot watches was lost
	asked    int  // batches that were sent before a server last refused persistent watches
	fired    framework.WatchQueue
}

// release leaves no request under way, no watch, and no call of a listener.
func (e *engine) release() {
	for _, b := range e.flights {
		<-b.done // their context has ended, or the client is closed
		for i := range b.visits {
			b.visits[i].cancelWatches()
		}
	}
	e.unwatch()
	for _, n := range e.nodes {
		n.armed.cancel()
	}
}

// unwatch removes the persistent watch, if there is one.
func (e *engine) unwatch() {
	if e.watch == nil {
		return
	}
	e.inbox.feedFrom(nil)
	e.watch.Cancel()
	e.listener.Remove()
	<-e.listener.Done()
	e.watch = nil
}

// ended is closed when a new connection's server has refused the persistent watch.
func (e *engine) ended() <-chan struct{} {
	if e.watch == nil {
		return nil
	}
	return e.watch.Done()
}

// arm sets the persistent watch, or finds that the server has none, and begins a sweep. A server that
// has none after all leaves one-shot watches as they are.
func (e *engine) arm(ctx context.Context) error {
	e.moved = false
	if !e.oneShot {
		e.progress.block() // no caller of Fresh may pass before the sweep
	}
	e.unwatch()
	mode := framework.WatchPersistentRecursive
	if e.limits.depth == 0 {
		mode = framework.WatchPersistent
	}
	var watch *framework.PersistentWatch
	loop := attempt.Loop{Client: e.client, Path: e.path, Warning: "cache cannot watch yet", Longest: pause}
	err := loop.Do(ctx, func(ctx context.Context) (err error) {
		watch, err = e.client.AddWatch(ctx, e.path, mode)
		if err != nil && !framework.Retryable(err) && !errors.Is(err, framework.ErrNotStarted) {
			return backoff.Permanent(err)
		}
		return err
	})
	switch {
	case err == nil:
		e.watch = watch
		// Before the first read: each change after a read then has an event.
		e.listener = watch.OnEvent(e.inbox.addEvent)
		e.inbox.feedFrom(watch)
		e.disarm()
	case ctx.Err() != nil:
		return ErrClosed
	case attempt.Ended(e.client) != nil:
		return attempt.Ended(e.client)
	case e.oneShot:
		e.asked = e.sent
		e.watchesEnded(e.fired.Take(), true) // the rest of those that the lost connection had
		return nil
	default:
		e.log.Info("cache uses one-shot watches", logPath, e.path, logError, err)
		e.oneShot, e.asked = true, e.sent
	}
	e.beginSweep()
	return nil
}

// disarm ends the one-shot watches, once there is a persistent one.
func (e *engine) disarm() {
	if !e.oneShot {
		return
	}
	e.oneShot = false
	for path, n := range e.nodes {
		n.armed.cancel()
		if !n.busy() {
			delete(e.nodes, path)
		}
	}
}

// drain turns news into work.
func (e *engine) drain() {
	messages := e.inbox.take()
	// Watches after messages: a watch that ended before a message was added is dealt with
	// before that message.
	fired := e.fired.Take()
	// The history after both: a caller of Fresh in this history must not pass before the sweep.
	if e.client.History() != e.next {
		e.beginSweep() // what is compared from now on may be of another history
	}
	e.watchesEnded(fired, false)
	for _, m := range messages {
		switch {
		case m.reached != nil:
			e.holdIfUnwatched()
			e.progress.ask(m.reached, e.sent)
		case m.resync:
			e.paused = nil // the connection is back
			e.beginSweep()
		default:
			e.changed(m.path)
		}
	}
	e.follow()
}

// follow asks to be told when all is read that the cache has heard of so far.
func (e *engine) follow() {
	if e.reading == nil && e.inbox.beginReading() {
		e.reading = make(chan struct{})
		e.progress.ask(e.reading, e.sent)
	}
}

// changed deals with an event of a path. A recursive watch reports what the cache does not keep,
// too.
func (e *engine) changed(path string) {
	if e.limits.keeps(path) && e.mayRead(path) {
		e.add(e.node(path), task{work: readData, era: e.progress.era})
	}
	// The list of a folder that was too large may be shorter now.
	if parent, _ := framework.SplitPath(path); e.oversized.hasList(parent) {
		e.add(e.node(parent), task{work: compare, era: e.progress.era})
	}
}

// holdIfUnwatched makes callers of Fresh wait for the sweep that arm will begin, if the watch
// has ended.
func (e *engine) holdIfUnwatched() {
	if attempt.IsClosed(e.ended()) {
		e.progress.block()
	}
}

// watchesEnded deals with the ends of one-shot watches. If their connection was lost, the server of the next one
// may have been asked for persistent watches.
func (e *engine) watchesEnded(watches []*framework.Watch, asked bool) {
	if len(watches) > 0 {
		e.inbox.heard()
	}
	for _, w := range watches {
		e.watchEnded(w, asked)
	}
}

func (e *engine) watchEnded(w *framework.Watch, asked bool) {
	event := w.Event()
	e.moved = e.moved || e.oneShot && !asked && event.Type == framework.EventNotWatching
	n := e.nodes[event.Path]
	if n == nil {
		return // the list of its parent finds the path again
	}
	era := e.progress.era
	switch ofData, ofChildren := n.armed.forget(w); {
	case ofData && event.Type == framework.EventNotWatching: // the connection was lost
		e.add(n, task{work: compare, era: era})
	case ofData && e.isListedOnly(n.path):
		e.add(n, task{work: compare, era: era})
	case ofData:
		e.add(n, task{work: readData, era: era})
	case ofChildren && event.Type != framework.EventNodeDeleted: // the watch on the data reports that
		e.add(n, task{work: list, era: era})
	}
}
