// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// folder is where items are put. The server numbers them, and a consumer takes them by their numbers.
//
// A folder that was copied to other servers, znode by znode, counts from the beginning again. Its items then have
// numbers that the server gives once more. An item that is put would come before older items, or could not be put.
// So before its first item create looks at the numbers.
type folder struct {
	client       *framework.Framework
	path, prefix string // of the items

	busy   chan struct{} // held during a look, by a request
	looked atomic.Int64  // the history of the last look, plus one; 0 before the first look
}

func newFolder(client *framework.Framework, path, prefix string) *folder {
	return &folder{client: client, path: path, prefix: prefix, busy: make(chan struct{}, 1)}
}

// mostLooks bounds how often a creation is repeated that finds its number taken.
const mostLooks = 10

// create calls fn, which creates items. It makes the folder if it is missing.
func (f *folder) create(ctx context.Context, fn func() error) error {
	for looks := 0; ; {
		if err := f.look(ctx); err != nil {
			return err
		}
		err := fn()
		switch {
		case !f.hasRefused(err):
			return err
		case errors.Is(err, framework.ErrNoNode):
			if err := ensure(ctx, f.client, f.path); err != nil {
				return err
			}
		default: // the number is taken
			if looks++; looks == mostLooks {
				return fmt.Errorf("the next number of %s is taken; a folder that has used up its numbers must be deleted once it is empty: %w", f.path, err)
			}
			f.looked.Store(0)
		}
	}
}

// hasRefused reports whether an item was not created, because the folder is missing or the number is taken.
func (f *folder) hasRefused(err error) bool {
	op, _ := errors.AsType[*framework.OpError](err)
	if op == nil || framework.OutcomeUnknown(err) || !errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrNodeExists) {
		return false
	}
	parent, _ := framework.SplitPath(op.Path)
	return parent == f.path
}

// look makes sure, once for each history of the servers, that the next number is greater than all numbers of items.
func (f *folder) look(ctx context.Context) error {
	history := f.client.History() + 1
	if f.looked.Load() == history {
		return nil
	}
	select {
	case f.busy <- struct{}{}:
		defer func() { <-f.busy }()
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
	for looks := 0; f.looked.Load() != history; looks++ {
		err := f.renumber(ctx)
		switch {
		case isOfElement(err): // nothing but a put is allowed, or the list is too long for every consumer
			f.client.Logger().Warn("it is not known whether new items of a queue come after all others", logPath, f.path, "error", err)
		case err != nil && (looks == mostLooks || !mayRepeat(err)):
			return err
		case err != nil:
			continue
		}
		f.looked.Store(history)
	}
	return nil
}

// mayRepeat reports whether another client was faster, or the list shows what a transaction has done.
func mayRepeat(err error) bool {
	return attempt.Overtaken(err) || errors.Is(err, framework.ErrNotEmpty) || framework.OutcomeUnknown(err) && framework.Retryable(err)
}

// reach is how many numbers are skipped. Items with greater numbers get new ones. A name is used again only after so
// many items, when a consumer that has read the item before no longer deletes the name.
const reach = 10_000

// renumber has the server count on from the greatest number of an item. Where that is too far, it gives the items new
// numbers in their order.
func (f *folder) renumber(ctx context.Context) error {
	var stat framework.Stat
	names, err := list(ctx, f.client, f.path, f.prefix, nil, framework.StoringStatIn(&stat))
	if err != nil {
		return err
	}
	// The server counts creations and deletions, and half of them without the children were creations.
	next := int32((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2) //nolint:gosec // counts that wrap around
	var far []string
	last := next - 1
	for _, name := range names {
		switch _, number := split(name); {
		case number < 0:
			return nil // servers before 3.6 have counted on from -2^31, which the Stat does not show
		case number < next:
		case number-next < reach:
			last = max(last, number)
		default:
			far = append(far, name)
		}
	}
	if last < next && len(far) == 0 {
		return nil
	}
	f.client.Logger().Warn("the folder of a queue counts from the beginning again, as in a copy: new items come after its items nevertheless",
		logPath, f.path, "next", next, "skipped", last+1-next, "renumbered", len(far))
	if err := f.skip(ctx, int(last+1-next)); err != nil {
		return err
	}
	slices.SortFunc(far, compareNumbers)
	return f.move(ctx, far)
}

// skip uses up n numbers.
func (f *folder) skip(ctx context.Context, n int) error {
	path := framework.JoinPath(f.path, "_number-"+chance.Of(ctx).UUID(f.path))
	pair := []framework.Op{framework.CreateOp(path, nil), framework.DeleteOp(path)}
	size := 2 * (len(f.client.FullPath(path)) + besidePut)
	for n > 0 {
		some := min(n, max(1, min(bytesAtOnce, f.client.MaxRequestSize()/2)/size))
		if _, err := f.client.Transact(ctx, slices.Repeat(pair, some)...); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// move gives items new numbers. An item that a consumer has locked stays, and so does one that cannot be read.
func (f *folder) move(ctx context.Context, names []string) error {
	var ops []framework.Op
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		_, err := f.client.Transact(ctx, ops...)
		ops, size = nil, 0
		return err
	}
	for _, name := range names {
		path, stat := framework.JoinPath(f.path, name), framework.Stat{}
		data, err := f.client.Get(ctx, path, framework.StoringStatIn(&stat), framework.Undecompressed())
		switch {
		case errors.Is(err, framework.ErrNoNode), isOfElement(err), stat.NumChildren > 0:
			continue
		case err != nil:
			return err
		}
		more := len(data) + 2*(len(f.client.FullPath(path))+besidePut)
		if len(ops) == 2*putsAtOnce || size+more > min(bytesAtOnce, f.client.MaxRequestSize()/2) {
			if err := flush(); err != nil {
				return err
			}
		}
		prefix, _ := split(name)
		size += more
		ops = append(ops, framework.DeleteOp(path, framework.WithVersion(stat.Version)), framework.CreateOp(framework.JoinPath(f.path, prefix),
			data, framework.WithMode(framework.PersistentSequential), framework.Uncompressed()))
	}
	return flush()
}
