package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/listen"
)

// ErrUnsupported reports a request that the server's version of ZooKeeper does not
// have. The message names the server and, if known, its version.
var ErrUnsupported = errors.New("not supported by the server")

// EventResync tells the listeners of a [PersistentWatch] that they may have missed changes,
// because the connection was lost or the server's watch had to be set again. The watch is
// in place again: after a read that starts now, events follow without a gap. It is not an
// event of ZooKeeper.
const EventResync EventType = -100

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

	watchModes = 2
)

var opAddWatch = operation{wire.OpAddWatch, "add watch", false}

// PersistentWatch is a watch that survives events, lost connections and new sessions until
// it is cancelled. [Framework.AddWatch] sets it. Its methods are safe for concurrent use.
type PersistentWatch struct {
	watches   *watches
	root      chroot // of the view it was set by
	full      string
	path      string
	mode      WatchMode
	listeners *listen.Set[Event]
	done      chan struct{}

	// Guarded by watches.mu.
	ended bool
	err   error
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
// However many watches of a mode a client has on one path, its server has one, and none
// once the last of them is cancelled. If both modes are used on one path, one recursive
// watch at the server serves both; a child that the client may not read then does not count
// as a change of the list of children. AddWatch is retried as the policy says. It needs
// ZooKeeper 3.6 and fails with [ErrUnsupported] on an older server.
//
// An old server closes the connection on a request that it does not know, which would end
// the holds on it. So once per connection AddWatch first asks the server for its version,
// with the four-letter word srvr on a separate connection. If that word is disabled,
// AddWatch sends its request all the same, and remembers a server that does not know it.
func (f *Framework) AddWatch(ctx context.Context, path string, mode WatchMode, opts ...CallOption) (*PersistentWatch, error) {
	cfg, err := newCallConfig(opts)
	if err != nil {
		return nil, failed(opAddWatch, path, err)
	}
	if mode < 0 || mode >= watchModes {
		return nil, failed(opAddWatch, path, fmt.Errorf(
			"%w: watch mode %d, expected WatchPersistent or WatchPersistentRecursive", ErrInvalidOption, mode))
	}
	if err := ValidatePath(path); err != nil {
		return nil, failed(opAddWatch, path, err)
	}
	w := &PersistentWatch{
		watches: f.watches, root: f.root, full: f.root.full(path), path: path, mode: mode, done: make(chan struct{}),
		listeners: listen.New[Event](listen.OnPanic(func(recovered any, stack []byte) {
			f.cfg.log.Error("watch listener panicked", logPath, path, "panic", recovered, "stack", string(stack))
		})),
	}
	err = f.verb(ctx, opAddWatch, path, func() (plan, error) {
		return plan{common: cfg.common, attempt: func(ctx context.Context) error { return f.addWatch(ctx, w) }}, nil
	})
	if err != nil {
		w.Cancel() // even if the answer is still to come
		return nil, err
	}
	return w, nil
}

// addWatch makes one try.
func (f *Framework) addWatch(ctx context.Context, w *PersistentWatch) error {
	if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, nil); err != nil {
		return err
	}
	if f.watches.join(w) {
		return nil
	}
	return f.exchangeNewer(ctx, &call{
		operation: opAddWatch, path: w.path, body: addWatchBody(w.full, w.mode),
		begin: func() func(conduit.Reply, error) { return f.watches.beginPersistent(w) },
	})
}

func addWatchBody(full string, mode WatchMode) []byte {
	e := wire.NewEncoder(len(full) + 8)
	e.String(full)
	e.Int32(int32(mode))
	return e.Bytes()
}

// Path returns the path that was given to AddWatch.
func (w *PersistentWatch) Path() string { return w.path }

// OnEvent adds a listener that is called with every later event, in the server's order, one
// at a time and without loss; see package listen for the contract. It runs on a goroutine of
// its own, so it may block and use the client. Event.Path is a path of this client; an
// [EventResync] has the path of the watch.
func (w *PersistentWatch) OnEvent(fn func(Event)) *listen.Registration { return w.listeners.Add(fn) }

// Done is closed when the watch has ended for good: it was cancelled, the client
// was closed, or after a reconnect a server refused to set it again.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err returns the reason why the watch has ended. It is nil while the watch lives, and after
// Cancel.
func (w *PersistentWatch) Err() error {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return w.err
}

// Cancel ends the watch; the last one on a path also ends the server's. It does not block,
// may be called more than once, and is safe on a nil watch. Earlier events are still
// delivered to listeners that are not removed.
func (w *PersistentWatch) Cancel() {
	if w != nil {
		w.watches.cancelPersistent(w)
	}
}
