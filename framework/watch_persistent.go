// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/watching"
	"github.com/gocurator/curator/listen"
)

// EventResync tells the listeners of a [PersistentWatch] that they may have missed changes,
// because the connection was lost or the server's watch had to be set again. The watch is
// in place again: after a read that starts now, events follow without a gap. It is not an
// event of ZooKeeper.
const EventResync EventType = watching.Resync

// WatchMode is the kind of a [PersistentWatch], with Curator's names and the protocol's
// values.
type WatchMode int32

const (
	// WatchPersistent reports what one-shot watches on data and children would report.
	WatchPersistent WatchMode = 0

	// WatchPersistentRecursive reports creation, deletion and change of data of the znode
	// and of all znodes below it. It does not report EventNodeChildrenChanged, because the
	// children have events of their own.
	WatchPersistentRecursive WatchMode = 1
)

// PersistentWatch is a watch that survives events, lost connections and new sessions until
// it is cancelled. [Framework.AddWatch] sets it. Its methods are safe for concurrent use.
type PersistentWatch struct {
	one       *watching.Persistent
	path      string
	listeners *listen.Set[Event]
}

// AddWatch sets a watch on a path, whether or not there is a znode, and returns when the
// server has it. Add a listener first, then read: events report every change that the read
// does not show.
//
//	watch, err := client.AddWatch(ctx, "/config", framework.WatchPersistentRecursive)
//	if err != nil {
//		return err
//	}
//	defer watch.Cancel()
//	watch.OnEvent(func(e framework.Event) { ... }) // read again on EventResync
//
// However many watches of a mode a client has on one path, its server has one, and none once
// the last of them is cancelled. If both modes are used on one path, one recursive watch at
// the server serves both. A child that the client may not read then does not count as a
// change of the list of children. AddWatch is retried as the policy says. It needs ZooKeeper
// 3.6 and fails with [ErrUnsupported] on an older server.
//
// An old server closes the connection on a request that it does not know, which would end
// the holds on it. So once per connection AddWatch first asks the server for its version,
// with the four-letter word srvr on a separate connection. If that word is disabled, or no
// answer comes within a sixth of the session timeout, AddWatch sends its request all the
// same. It remembers a server that does not know the request until that server reports
// another version.
func (f *Framework) AddWatch(ctx context.Context, path string, mode WatchMode, opts ...CallOption) (*PersistentWatch, error) {
	cfg, err := newCommon(opts)
	if err != nil {
		return nil, failed(opAddWatch, path, err)
	}
	if mode != WatchPersistent && mode != WatchPersistentRecursive {
		return nil, failed(opAddWatch, path, fmt.Errorf(
			"%w: watch mode %d, expected WatchPersistent or WatchPersistentRecursive", ErrInvalidOption, mode))
	}
	if err := ValidatePath(path); err != nil {
		return nil, failed(opAddWatch, path, err)
	}
	full := f.root.full(path)
	w := f.newPersistentWatch(full, path, mode)
	attempt := func(ctx context.Context) error { return f.addWatch(ctx, w, full, mode) }
	if err := f.run(ctx, opAddWatch, path, plan{common: cfg, attempt: attempt}, nil); err != nil {
		w.Cancel() // even if the answer is still to come
		return nil, err
	}
	return w, nil
}

func (f *Framework) newPersistentWatch(full, path string, mode WatchMode) *PersistentWatch {
	w := &PersistentWatch{
		path: path,
		listeners: listen.New[Event](listen.OnPanic(func(recovered any, stack []byte) {
			f.cfg.Logger.Error("watch listener panicked", logPath, path, "panic", recovered, "stack", string(stack))
		})),
	}
	root := f.root
	w.one = f.watches.NewPersistent(full, watching.Mode(mode), func(e watching.Event) {
		e.Path = root.own(e.Path)
		w.listeners.Notify(Event(e))
	})
	return w
}

// addWatch makes one try.
func (f *Framework) addWatch(ctx context.Context, w *PersistentWatch, full string, mode WatchMode) error {
	if err := f.awaitConnection(ctx, f.cfg.ConnectTimeout); err != nil {
		return err
	}
	// A watch that the server has already costs no request.
	if f.watches.Join(w.one) {
		return nil
	}
	return f.exchange(ctx, &call{
		operation: opAddWatch, path: w.path, body: watching.AddWatchBody(full, watching.Mode(mode)),
		follower: persistentRequest{f.watches, w.one},
	})
}

// persistentRequest is a request that sets a persistent watch.
type persistentRequest struct {
	watches *watching.Registry
	one     *watching.Persistent
}

func (r persistentRequest) begin() func(conduit.Reply, error) {
	return r.watches.BeginPersistent(r.one)
}

// deliver does nothing: AddWatch cancels a watch that could not be set.
func (persistentRequest) deliver(bool) {}

// OnEvent adds a listener that is called with every later event, in the server's order, one
// at a time and without loss; see package listen for the contract. It runs on a goroutine of
// its own, so it may block and use the client. Event.Path is a path of this client; an
// [EventResync] has the path of the watch.
func (w *PersistentWatch) OnEvent(fn func(Event)) *listen.Registration { return w.listeners.Add(fn) }

// Done is closed when the watch has ended for good. That is so when it was cancelled, when
// the client has ended ([ErrClosed], [ErrAuthFailed]), or when a server refused to set it
// again. A server that is only too busy is asked again.
func (w *PersistentWatch) Done() <-chan struct{} { return w.one.Done() }

// Err returns the reason why the watch has ended. It is nil while the watch lives, and after
// Cancel.
func (w *PersistentWatch) Err() error {
	err := w.one.Err()
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrAuthFailed) {
		return err // no request has failed
	}
	return &OpError{opAddWatch.name, w.path, err}
}

// Cancel ends the watch; the last one on a path also ends the server's. It does not block,
// may be called more than once, and is safe on a nil watch. Earlier events are still
// delivered to listeners that are not removed.
func (w *PersistentWatch) Cancel() {
	if w != nil {
		w.one.Cancel()
	}
}

// Flush blocks until the server has the watch, and all earlier events have been delivered to
// the listeners. If a [Framework.Sync] has returned before, these include the events of all
// changes committed before the Sync began, or an [EventResync] instead of them. Flush fails
// with the cause of the context if the context ends first. On a watch that has ended it only
// waits for the listeners. A listener of the watch must not call it.
func (w *PersistentWatch) Flush(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("framework: flush the watch on %s: %w", w.path, errNilContext)
	}
	if err := w.awaitArmed(ctx); err != nil {
		return fmt.Errorf("framework: flush the watch on %s: %w", w.path, err)
	}
	if err := w.listeners.Flush(ctx); err != nil {
		return fmt.Errorf("framework: flush the watch on %s: %w", w.path, err)
	}
	return nil
}

// awaitArmed waits until the server has the watch: on a new connection, other requests may
// go out before it is set again.
func (w *PersistentWatch) awaitArmed(ctx context.Context) error {
	resynced := make(chan struct{}, 1)
	registration := w.listeners.Add(func(e Event) {
		if e.Type != EventResync {
			return
		}
		select {
		case resynced <- struct{}{}:
		default:
		}
	})
	defer registration.Remove()
	// After the listener: set again in between, the watch would resync unheard.
	for !w.one.IsArmed() {
		select {
		case <-resynced:
		case <-w.Done(): // nothing more will come
			return nil
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
	return nil
}
