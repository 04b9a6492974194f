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
// have. The message names the server and, if it could be asked for, its version.
var ErrUnsupported = errors.New("not supported by the server")

// EventResync tells the listeners of a [PersistentWatch] that changes may have gone
// unseen, because the connection was lost or the server's watch had to be set anew.
// The watch is in place again: what is read from now on is followed by events
// without a gap. It is no event of ZooKeeper's.
const EventResync EventType = -100

// WatchMode is the kind of a [PersistentWatch], with Curator's names. The values
// are those of the protocol.
type WatchMode int32

const (
	// WatchPersistent sees what one-shot watches on data and children would see.
	WatchPersistent WatchMode = 0

	// WatchPersistentRecursive sees creation, deletion and change of data of the
	// znode and of all below it. It is not told of EventNodeChildrenChanged, as the
	// children tell of themselves.
	WatchPersistentRecursive WatchMode = 1

	watchModes = 2
)

var opAddWatch = operation{wire.OpAddWatch, "add watch", false}

// PersistentWatch is a watch that stays until it is cancelled, over events, lost
// connections and new sessions. It is made by [Framework.AddWatch]. Its methods are
// safe for concurrent use.
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

// AddWatch sets a watch on a path, whether or not there is a znode, and returns when
// the server has it. Add a listener, then read: what the read does not show, events
// will.
//
//	watch, err := client.AddWatch(ctx, "/config", framework.WatchPersistentRecursive)
//	if err != nil {
//		return err
//	}
//	defer watch.Cancel()
//	watch.OnEvent(func(e framework.Event) { ... }) // read again on EventResync
//
// However many watches of a mode a client has on one path, its server has one, and
// none when the last of them is cancelled. Where both modes meet on one path, the
// recursive watch serves both; a child that the client may not read is then no change
// of the list of children. AddWatch is retried as the policy says.
// It needs ZooKeeper 3.6 and fails with [ErrUnsupported] where the server is older.
//
// An old server closes the connection of a client that asks for what it does not
// know, and so ends what is held on it. Therefore the server is first asked for its
// version, once in a connection, with the four-letter word srvr on a connection of
// its own. Where that is switched off the request is made all the same; if it turns
// out to be unknown, this is remembered for that server.
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
		w.Cancel() // also when the answer is still to come
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

// Path returns the path as AddWatch was given it.
func (w *PersistentWatch) Path() string { return w.path }

// OnEvent adds a listener that is called with every event from now on, in the order
// of the server's, one at a time and without loss; see package listen for the
// contract. It runs on a goroutine of its own, so it may block and use the client.
// An event has its path as this client names paths. [EventResync] has that of the
// watch.
func (w *PersistentWatch) OnEvent(fn func(Event)) *listen.Registration { return w.listeners.Add(fn) }

// Done is closed when the watch has ended for good: it was cancelled, the client
// was closed, or after a reconnect a server refused to set it again.
func (w *PersistentWatch) Done() <-chan struct{} { return w.done }

// Err returns nil while the watch lives or when it was cancelled, and otherwise why
// it has ended.
func (w *PersistentWatch) Err() error {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return w.err
}

// Cancel gives the watch up, at the server too if it was the last one there. It
// does not block, may be called more than once, and is safe on a nil watch. Events
// that came before are still delivered to listeners that are not removed.
func (w *PersistentWatch) Cancel() {
	if w != nil {
		w.watches.cancelPersistent(w)
	}
}
