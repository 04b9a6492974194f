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
// and no goroutine is left.
func (f *Framework) Follow(ctx context.Context, path string, opts ...ReadOption) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		cfg, err := newReadConfig(opts, ofFollow, "Follow")
		if err != nil {
			yield(Node{Path: path}, followError(path, err))
			return
		}
		follow(ctx, f, path, yield, Node{Path: path}, func(gone bool, into **Watch) (Node, error) {
			return f.readNode(ctx, path, cfg.given.chooses(decompressed, undecompressed, f.compressed), gone, into)
		})
	}
}

// FollowChildren yields the names of a znode's children and then each new list. It has the
// contract of [Framework.Follow].
func (f *Framework) FollowChildren(ctx context.Context, path string) iter.Seq2[Folder, error] {
	return func(yield func(Folder, error) bool) {
		follow(ctx, f, path, yield, Folder{Path: path}, func(gone bool, into **Watch) (Folder, error) {
			return f.readFolder(ctx, path, gone, into)
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

// readNode reads the data of a znode, and sets a watch.
func (f *Framework) readNode(ctx context.Context, path string, decompress, gone bool, into **Watch) (Node, error) {
	node, stat := Node{Path: path, History: f.History()}, new(Stat)
	err := f.readWatched(ctx, path, gone, into, func() (err error) {
		// As it is stored, or the watch would go with an error of the data.
		node.Data, err = f.Get(ctx, path, Undecompressed(), StoringStatIn(stat), Watched(into))
		if err == nil {
			node.Stat = stat
		}
		return err
	})
	if err == nil && decompress {
		node.Data, err = f.cfg.decompress(path, node.Data)
	}
	return node, err
}

// readFolder reads the names of a znode's children, and sets a watch.
func (f *Framework) readFolder(ctx context.Context, path string, gone bool, into **Watch) (Folder, error) {
	folder, stat := Folder{Path: path, History: f.History()}, new(Stat)
	err := f.readWatched(ctx, path, gone, into, func() (err error) {
		folder.Names, err = f.Children(ctx, path, StoringStatIn(stat), Watched(into))
		if err == nil {
			slices.Sort(folder.Names)
			folder.Stat = stat
		}
		return err
	})
	return folder, err
}

// readWatched makes a read that sets a watch. If there is no znode, it watches for one. It looks for the znode first if that
// is gone, as far as is known.
func (f *Framework) readWatched(ctx context.Context, path string, gone bool, into **Watch, read func() error) error {
	for {
		if !gone {
			if err := read(); !errors.Is(err, ErrNoNode) {
				return err
			}
		}
		there, err := f.Exists(ctx, path, Watched(into))
		if err != nil || there == nil {
			return err
		}
		(*into).Cancel() // the znode was created in between: watch that instead
		*into, gone = nil, false
	}
}

// followPause is how long follow waits after an error that the retry policy has given up on.
const followPause = time.Second

// follow is the loop of Follow and FollowChildren: read, yield what is new, wait.
func follow[T followed[T]](ctx context.Context, f *Framework, path string, yield func(T, error) bool,
	last T, read func(gone bool, into **Watch) (T, error),
) {
	if ctx == nil {
		yield(last, followError(path, errNilContext))
		return
	}
	var watch *Watch
	defer func() { watch.Cancel() }()
	gone := false // the newest event was a deletion
	known := picture[T]{last: last}
	for {
		watch.Cancel()
		watch = nil
		state, err := read(gone, &watch)
		isRead := err == nil || errors.Is(err, ErrCompression)
		switch {
		case ctx.Err() != nil:
			yield(known.last, followError(path, interrupted(ctx)))
			return
		case isRead && f.History() != state.history():
			// The reply may be of either history: read again.
		case isRead:
			if known.learn(state, err) && !yield(known.last, followError(path, err)) {
				return
			}
			gone = f.awaitChange(ctx, watch)
		default:
			known.doubtful = true
			// The loop decides first; only then does an error end the sequence.
			if !yield(known.last, followError(path, err)) || !Retryable(err) && !refusedForNow(err) {
				return
			}
			_ = f.pause(ctx, followPause) // the next read says why it has ended
		}
	}
}

// picture is what follow knows of a znode.
type picture[T followed[T]] struct {
	last     T     // the newest state whose data can be used
	newest   *T    // nil before the first
	unread   error // why the data of the newest cannot be used
	doubtful bool  // an error was yielded since
}

// learn takes a state, with an error if its data cannot be used, and reports whether it is news. After an
// error even an unchanged state is: it says that the error is over.
func (p *picture[T]) learn(state T, err error) bool {
	isSame := p.newest != nil && state.isSame(*p.newest) && (err == nil) == (p.unread == nil)
	if isSame && err != nil {
		isSame = state.history() == (*p.newest).history() // in another one the data may be other data
	}
	isNews := !isSame || p.doubtful
	if err == nil {
		p.last = state
	}
	p.newest, p.unread, p.doubtful = &state, err, false
	return isNews
}

// awaitChange waits for the event of a watch, and reports whether the znode was deleted. If the connection has ended, it
// waits for another one: an outage is no error.
func (f *Framework) awaitChange(ctx context.Context, watch *Watch) (gone bool) {
	event, err := watch.Wait(ctx)
	if err == nil && event.Err != nil {
		_ = f.awaitConnection(ctx, 0) // the next read says why there is none
	}
	return event.Type == EventNodeDeleted
}
