// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gocurator/curator/listen"
)

// Node is a znode as [Framework.Follow] has read it.
type Node struct {
	Path string
	Data []byte
	Stat *Stat // nil when there is no znode

	// History is [Framework.History] at the time of the read.
	History int64
}

// Exists reports whether there was a znode.
func (n Node) Exists() bool { return n.Stat != nil }

// Folder is the list of a znode's children as [Framework.FollowChildren] has read it.
type Folder struct {
	Path  string
	Names []string // sorted
	Stat  *Stat    // of the znode; nil when there is none

	// History is [Framework.History] at the time of the read.
	History int64
}

// Exists reports whether there was a znode.
func (f Folder) Exists() bool { return f.Stat != nil }

// Follow yields the current state of a znode and then each new state, including that the
// znode is missing, was created, or changed while the connection was lost.
//
//	for node, err := range client.Follow(ctx, "/config") {
//		if err != nil {
//			log.Print(err) // node is the last known state
//			continue
//		}
//		apply(node.Data)
//	}
//
// The states come in the server's order, and no state comes twice. If the servers may have
// begun again meanwhile, two states are the same only if their data and their Stats are equal;
// see [Framework.History]. A slow loop gets the newest state next, and skips the states in
// between. The loop must not change the data or the names.
//
// An error comes with the last known state, which may be out of date. After a [Retryable]
// error, a [ServerError] or [ErrCompression], the sequence continues. The next pair without an
// error is current, even if its state equals the previous one. Any other error ends the
// sequence: the end of the context, with its cause, [ErrClosed], [ErrAuthFailed], [ErrNoAuth],
// an invalid path or option. So a loop may return at the first error, or continue after each. A
// lost connection alone is no error: see [Framework.OnConnectionState].
//
// Follow takes the options [Decompressed] and [Undecompressed]. It sends nothing before the
// loop begins. When the loop ends, in whatever way, no watch
// and no goroutine is left. Follow uses a persistent watch, or one-shot watches if the
// server has no persistent ones.
func (f *Framework) Follow(ctx context.Context, path string, opts ...ReadOption) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		if _, err := newReadConfig(opts, ofFollow, "Follow"); err != nil {
			yield(Node{Path: path}, followError(path, err))
			return
		}
		follow(ctx, f, path, yield, Node{Path: path}, func(ctx context.Context, into **Watch) (Node, error) {
			return f.readNode(ctx, path, opts, into)
		})
	}
}

// FollowChildren yields the names of a znode's children and then each new list. It has the
// contract of [Framework.Follow].
func (f *Framework) FollowChildren(ctx context.Context, path string) iter.Seq2[Folder, error] {
	return func(yield func(Folder, error) bool) {
		follow(ctx, f, path, yield, Folder{Path: path}, func(ctx context.Context, into **Watch) (Folder, error) {
			return f.readFolder(ctx, path, into)
		})
	}
}

func followError(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("framework: follow %s: %w", path, err)
}

// followed is a state that follow compares with the one before.
type followed[T any] interface {
	isSame(other T) bool
	history() int64
}

func (n Node) history() int64 { return n.History }

// isSame reports whether two states are the same. What changes with the children does not count.
func (n Node) isSame(other Node) bool {
	return bytes.Equal(n.Data, other.Data) && isSameStat(n.Stat, other.Stat, func(s *Stat) {
		s.Pzxid, s.Cversion, s.NumChildren = 0, 0, 0
	})
}

func (f Folder) history() int64 { return f.History }

// isSame reports whether two states are the same. What changes with the data does not count. The
// names count, as no number of the Stat moves with each change and with no other: ZooKeeper's Pzxid
// stays after 2^31 creations, and ClickHouse Keeper's when a child is deleted. There, Cversion moves
// with a child's data.
func (f Folder) isSame(other Folder) bool {
	return slices.Equal(f.Names, other.Names) && isSameStat(f.Stat, other.Stat, func(s *Stat) {
		s.Mzxid, s.Mtime, s.Version, s.DataLength, s.Cversion = 0, 0, 0, 0, 0
	})
}

// isSameStat reports whether two Stats are the same, apart from the fields that without
// clears. A change of the access control list is not told either.
func isSameStat(a, b *Stat, without func(*Stat)) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	for _, s := range []*Stat{&x, &y} {
		without(s)
		s.Aversion = 0
	}
	return x == y
}

// readNode reads the data of a znode. When into is not nil it sets a one-shot watch first,
// which also sees the creation of a znode that is not there.
func (f *Framework) readNode(ctx context.Context, path string, opts []ReadOption, into **Watch) (Node, error) {
	node := Node{Path: path, History: f.History()}
	var stat Stat
	var absent bool
	opts = append([]ReadOption{StoringStatIn(&stat), StoringAbsenceIn(&absent)}, opts...)
	// An error of the data alone, or the watch of the Stat would go with it.
	var failure error
	reads := []Read{ReadData(path, &node.Data, opts...).StoringErrorIn(&failure)}
	if into != nil {
		var ignored *Stat
		reads = slices.Insert(reads, 0, ReadStat(path, &ignored, Watched(into)))
	}
	err := f.Pipeline(ctx, reads...)
	if err == nil {
		err = failure
	}
	if err != nil && !errors.Is(err, ErrCompression) {
		return Node{Path: path}, err
	}
	if !absent {
		node.Stat = &stat
	}
	return node, err
}

// readFolder reads the names of a znode's children. When into is not nil it sets a one-shot
// watch.
func (f *Framework) readFolder(ctx context.Context, path string, into **Watch) (Folder, error) {
	folder := Folder{Path: path, History: f.History()}
	var stat Stat
	opts := []ReadOption{StoringStatIn(&stat)}
	if into != nil {
		opts = append(opts, Watched(into))
	}
	for {
		names, err := f.Children(ctx, path, opts...)
		if err == nil {
			slices.Sort(names)
			folder.Names, folder.Stat = names, &stat
			return folder, nil
		}
		if !errors.Is(err, ErrNoNode) || into == nil {
			return folder, ignoring(err, ErrNoNode)
		}
		there, err := f.Exists(ctx, path, Watched(into))
		if err != nil || there == nil {
			return folder, err
		}
		(*into).Cancel() // the znode was created in between: watch its children instead
		*into = nil
	}
}

// followPause is how long follow waits after an error that the retry policy has given up on.
const followPause = time.Second

// follow is the loop of Follow and FollowChildren: read, yield what is new, wait.
func follow[T followed[T]](ctx context.Context, f *Framework, path string, yield func(T, error) bool,
	last T, read func(context.Context, **Watch) (T, error),
) {
	if ctx == nil {
		yield(last, followError(path, errNilContext))
		return
	}
	w := followWatch{f: f, path: path, wake: make(chan struct{}, 1)}
	defer w.release()
	var (
		known    bool
		at       T     // the known state
		unread   error // why its data cannot be used; otherwise it is last
		doubtful bool  // an error was yielded, so that the next state is news
	)
	for {
		state, err := followOnce(ctx, &w, read)
		switch {
		case ctx.Err() != nil:
			yield(last, followError(path, interrupted(ctx)))
			return
		case (err == nil || errors.Is(err, ErrCompression)) && f.History() != state.history():
			// The reply may be of either history: read again.
		case err == nil || errors.Is(err, ErrCompression):
			// After an error even an unchanged state is news: it says that the error is over.
			isNews := !known || doubtful || (err == nil) != (unread == nil) || !state.isSame(at) ||
				err != nil && state.history() != at.history() // the data may be other data
			if err == nil {
				last = state
			}
			known, at, unread, doubtful = true, state, err, false
			if isNews && !yield(last, followError(path, err)) {
				return
			}
			w.wait(ctx, nil)
		default:
			doubtful = true
			// The loop decides first; only then does an error end the sequence.
			if !yield(last, followError(path, err)) || !Retryable(err) && !refusedForNow(err) {
				return
			}
			w.wait(ctx, time.After(followPause))
		}
	}
}

// followOnce sets a watch if there is none, and then reads.
func followOnce[T any](ctx context.Context, w *followWatch, read func(context.Context, **Watch) (T, error)) (T, error) {
	if err := w.arm(ctx); err != nil {
		var none T
		return none, err
	}
	if w.persistent != nil {
		return read(ctx, nil) // the watch was set before, so the read needs none
	}
	w.oneShot.Cancel()
	w.oneShot = nil
	return read(ctx, &w.oneShot)
}

// followWatch wakes one loop: by a persistent watch, or by the one-shot watch of its last
// read.
type followWatch struct {
	f    *Framework
	path string
	wake chan struct{} // has room for one: events are only a reason to read again

	refused    bool // there are no persistent watches
	persistent *PersistentWatch
	listener   *listen.Registration
	oneShot    *Watch
}

// arm sets a persistent watch if there is none that lives.
func (w *followWatch) arm(ctx context.Context) error {
	if w.persistent != nil {
		select {
		case <-w.persistent.Done(): // the server of a new connection has refused it
			w.releasePersistent()
		default:
			return nil
		}
	}
	if w.refused {
		return nil
	}
	watch, err := w.f.AddWatch(ctx, w.path, WatchPersistent)
	switch {
	case err == nil:
	case Retryable(err):
		return err
	default:
		w.refused = true // if it is for another reason, the read finds it
		return nil
	}
	w.persistent = watch
	w.listener = watch.OnEvent(func(Event) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
	return nil
}

// wait blocks until there is a reason to read again: an event, the end of the watch or of
// the context, or the end of a pause.
func (w *followWatch) wait(ctx context.Context, pause <-chan time.Time) {
	var ended, fired <-chan struct{}
	switch {
	case w.persistent != nil:
		ended = w.persistent.Done()
	case w.oneShot != nil:
		fired = w.oneShot.Fired()
	}
	select {
	case <-w.wake:
	case <-ended:
	case <-fired:
	case <-pause:
	case <-ctx.Done():
	}
}

// release leaves nothing: no watch, and no listener in a call.
func (w *followWatch) release() {
	w.oneShot.Cancel()
	w.releasePersistent()
}

func (w *followWatch) releasePersistent() {
	if w.persistent == nil {
		return
	}
	w.persistent.Cancel()
	w.listener.Remove()
	<-w.listener.Done()
	w.persistent, w.listener = nil, nil
}
