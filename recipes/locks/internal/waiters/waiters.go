// SPDX-License-Identifier: Apache-2.0

// Package waiters is the folder of a condition: who waits, and who has been signalled. Of the
// condition's lock it knows the path of a node that exists while the lock is held.
//
// The folder has a node for each waiter. Its data is the number of signals that waiters have
// not taken yet. That many waiters, from the first on, have been signalled. A signal adds one
// to the number. A waiter that has the lock again subtracts one and deletes its node together.
// A waiter that vanishes in any other way does not change the number, and so leaves its signal
// to the next.
package waiters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

// What the nodes of waiters are named, before the number, and how many of them one transaction
// signals at most.
const (
	Name  = "wait-"
	Batch = 100
)

// message is written to a waiter's node, to fire the watch on it.
const message = "__SIGNAL__"

// pause is how long a waiter pauses between two looks that fail.
const pause = 20 * time.Millisecond

// Order says which names are of waiters, and in which order they stand.
type Order interface {
	// Contends reports whether a name is of a waiter.
	Contends(name string) bool

	// Compare is negative if a stands before b, as for slices.SortFunc.
	Compare(a, b string) int
}

// Folder is the folder of a condition, as one client sees it.
type Folder struct {
	Client *framework.Framework
	Path   string
	Order  Order  // of the waiters
	Data   []byte // of the nodes of this client's waiters
}

// content is the waiters in their order, and how many of them, from the first on, have been
// signalled.
type content struct {
	waiters []string
	signals int
	version int32 // of the number
}

// read makes the reads that come first, and returns the content of the folder. It is empty if
// a node is missing.
func (f Folder) read(ctx context.Context, first ...framework.Read) (content, error) {
	var names []string
	var data []byte
	var stat framework.Stat
	err := f.Client.Pipeline(ctx, append(first,
		framework.ReadChildren(f.Path, &names),
		framework.ReadData(f.Path, &data, framework.StoringStatIn(&stat)))...)
	if errors.Is(err, framework.ErrNoNode) {
		return content{}, nil
	}
	if err != nil {
		return content{}, err
	}
	signals, err := f.parse(data)
	names = slices.DeleteFunc(names, func(name string) bool { return !f.Order.Contends(name) })
	slices.SortFunc(names, f.Order.Compare)
	return content{names, signals, stat.Version}, err
}

// parse reads the number of signals.
func (f Folder) parse(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(data), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("condition %s: data %.20q, expected a number of signals", f.Path, data)
	}
	return int(n), nil
}

// Signals reads the number of signals.
func (f Folder) Signals(ctx context.Context) (int, error) {
	data, err := f.Client.Get(ctx, f.Path)
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return f.parse(data)
}

// change sets the number of signals, together with other operations, if the lock is still
// held and the number is unchanged since it was read.
func (f Folder) change(ctx context.Context, lock string, was content, signals int, more ...framework.Op) error {
	_, err := f.Client.Transact(ctx, append([]framework.Op{
		framework.CheckOp(lock, framework.AnyVersion),
		framework.SetDataOp(f.Path, strconv.AppendInt(nil, int64(signals), 10), framework.WithVersion(was.version)),
	}, more...)...)
	var failed *framework.OpError
	// The check of the lock's node has failed.
	if errors.Is(err, framework.ErrNoNode) && errors.As(err, &failed) && failed.Path == lock {
		return &framework.LostError{Reason: framework.ReasonNodeDeleted}
	}
	return err
}

// untilKnown repeats a change whose outcome is unknown, or that another lease of the same hold
// has forestalled.
func (f Folder) untilKnown(ctx context.Context, change func(ctx context.Context) error) error {
	return retry.Do(ctx, f.Client.RetryPolicy(), func(ctx context.Context) error {
		err := change(ctx)
		if framework.OutcomeUnknown(err) || errors.Is(err, framework.ErrBadVersion) {
			return err
		}
		return backoff.Permanent(err)
	})
}

// Signal wakes the next n waiters, under the lock with this node.
func (f Folder) Signal(ctx context.Context, lock string, n int) error {
	for n > 0 {
		var told int
		err := f.untilKnown(ctx, func(ctx context.Context) (err error) {
			told, err = f.tell(ctx, lock, min(n, Batch))
			return err
		})
		if err != nil || told == 0 {
			return err
		}
		n -= told
	}
	return nil
}

// tell signals the next n waiters in one transaction, and returns how many there were.
func (f Folder) tell(ctx context.Context, lock string, n int) (told int, err error) {
	for {
		now, err := f.read(ctx)
		if err != nil {
			return 0, err
		}
		signalled := min(now.signals, len(now.waiters))
		next := now.waiters[signalled:min(signalled+n, len(now.waiters))]
		if len(next) == 0 { // no waiter without a signal
			return 0, nil
		}
		touch := make([]framework.Op, len(next)) // fires the watches of the waiters
		for i, name := range next {
			touch[i] = framework.SetDataOp(framework.JoinPath(f.Path, name), []byte(message))
		}
		// A missing node means that one of the waiters has just left: look again.
		err = f.change(ctx, lock, now, signalled+len(next), touch...)
		if !errors.Is(err, framework.ErrNoNode) {
			return len(next), err
		}
	}
}

// Waiter is a node in the folder. Each waiter ends with Take or Leave.
type Waiter struct {
	folder  Folder
	session *framework.Session
	path    string // of its node
	name    string
	own     *framework.Watch // on its node; nil before the first look and once it has fired
	now     content          // as of the last look; empty while the waiter sleeps, and when its node is gone
	doubt   error            // of a try to take the signal whose outcome is unknown
}

// Join creates the node of a waiter, under the lock with the other node. If there are more
// signals than waiters before it, the rest was for waiters that have gone, and Join removes it.
func (f Folder) Join(ctx context.Context, session *framework.Session, lock string) (*Waiter, error) {
	path, err := f.Client.Create(ctx, framework.JoinPath(f.Path, Name), f.Data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.EphemeralSequential), framework.InSession(session))
	if err != nil {
		return nil, err
	}
	w := &Waiter{folder: f, session: session, path: path}
	_, w.name = framework.SplitPath(path)
	err = w.settling(ctx, func(ctx context.Context) error {
		place := w.place()
		if place < 0 || w.now.signals <= place {
			return nil
		}
		err := f.change(ctx, lock, w.now, place)
		if err == nil {
			w.now.signals = place
		}
		return err
	})
	if err != nil {
		return nil, w.Leave(ctx, err)
	}
	return w, nil
}

// place returns the waiter's place by the last look, negative if its node was gone.
func (w *Waiter) place() int { return slices.Index(w.now.waiters, w.name) }

// settling looks and then calls fn to change what it has seen. It repeats both until the
// outcome is known and no other change has come between.
func (w *Waiter) settling(ctx context.Context, fn func(ctx context.Context) error) error {
	return w.folder.untilKnown(ctx, func(ctx context.Context) error {
		if err := w.look(ctx); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// look watches the waiter's node unless it is watched, and then reads the folder. So it finds
// every earlier signal for this waiter, and every later one wakes it.
func (w *Waiter) look(ctx context.Context) (err error) {
	var watch []framework.Read
	if w.own == nil {
		watch = []framework.Read{framework.ReadData(w.path, nil, framework.Watched(&w.own))}
	}
	w.now, err = w.folder.read(ctx, watch...)
	return err
}

// Wait returns nil when the waiter has been signalled, or may have been because its node or
// its session is gone. An outage does not end it: the node keeps its place.
func (w *Waiter) Wait(ctx context.Context) error {
	for {
		place := w.place()
		if place < w.now.signals || w.session.Err() != nil {
			w.now = content{}
			return nil //nolint:nilerr // the end of the session may have hidden a signal
		}
		err := w.sleep(ctx, place)
		if err == nil {
			err = w.look(ctx)
		}
		for framework.Retryable(err) && w.session.Err() == nil {
			attempt.Sleep(ctx, pause)
			if err = w.folder.Client.BlockUntilConnected(ctx); err == nil {
				err = w.look(ctx)
			}
		}
		if err != nil && w.session.Err() == nil {
			return err
		}
	}
}

// sleep waits until the waiter's node or the one before it changes. A waiter that leaves may
// pass on its own signal, or one that was passed to it.
func (w *Waiter) sleep(ctx context.Context, place int) error {
	var before <-chan struct{}
	if place > 0 {
		var watch *framework.Watch
		_, err := w.folder.Client.Get(ctx, framework.JoinPath(w.folder.Path, w.now.waiters[place-1]), framework.Watched(&watch), framework.Undecompressed())
		if errors.Is(err, framework.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		defer watch.Cancel()
		before = watch.Fired()
	}
	w.now = content{} // or each of many waiters would keep the names of all
	select {
	case <-w.own.Fired():
		w.own = nil
	case <-before:
	case <-w.session.Done():
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
	return nil
}

// Take removes the waiter's node and its signal, if there is one. held returns the node of the
// lock, or why the lock is not held.
func (w *Waiter) Take(ctx context.Context, held func() (lock string, err error)) error {
	err := w.settling(ctx, func(ctx context.Context) error {
		lock, err := held()
		place := w.place()
		switch {
		case err != nil:
			return err
		case place < 0: // the node went with its session, or by a try whose reply was lost
			w.doubt = nil
			return nil
		case place >= w.now.signals: // a wake-up without a signal: there is none to take
			err = w.folder.Client.Delete(ctx, w.path, framework.Guaranteed())
		default:
			err = w.folder.change(ctx, lock, w.now, w.now.signals-1, framework.DeleteOp(w.path))
			if framework.OutcomeUnknown(err) {
				w.doubt = err
			}
		}
		if errors.Is(err, framework.ErrNoNode) {
			return nil
		}
		return err
	})
	if err == nil {
		w.own.Cancel()
	}
	return err
}

// Leave deletes the node after a failure, and returns the failure. It also returns the error of
// a try to take the signal whose outcome is unknown.
func (w *Waiter) Leave(ctx context.Context, cause error) error {
	defer w.own.Cancel()
	err := attempt.TakeBack(ctx, w.folder.Client, w.path, cause)
	if w.doubt != nil {
		return fmt.Errorf("%w; %w", err, w.doubt)
	}
	return err
}
