// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	// purgeBatch is how many markers are looked at with one write, and deleted in one
	// transaction. The replies fit the smallest limit that a client may have.
	purgeBatch = 100

	// purgeRetry is the least time between a purge that was interrupted and the next one.
	purgeRetry = time.Minute
)

// purge is one purge of this replica.
type purge struct {
	done chan struct{}
	err  error // is set when done is closed
}

// Purge deletes the markers that are older than the retention, and the folders of their
// locks where no server does that. [Once.Do] begins a purge now and then without waiting
// for it. A process that does one run and then ends calls Purge, or its markers may never
// be deleted.
//
// Purge joins the purge that this Once has begun, and returns nil if another replica is
// purging. The end of ctx ends the wait; the purge goes on until the client is closed.
// Markers that have children or cannot be read stay, and the log names one of them.
func (o *Once) Purge(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("leader: purge %s: %w", o.path, attempt.ErrNilContext)
	}
	p := o.beginPurge()
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("leader: purge %s: %w", o.path, attempt.Interrupted(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("leader: purge %s: %w", o.path, p.err)
	}
	return nil
}

// purgeSometimes begins a purge if there was none for a while.
func (o *Once) purgeSometimes() {
	o.mu.Lock()
	due := !time.Now().Before(o.nextPurge)
	o.mu.Unlock()
	if due {
		o.beginPurge()
	}
}

// beginPurge begins a purge in the background, unless one runs, and returns it. It ends
// with the client.
func (o *Once) beginPurge() *purge {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.purge != nil {
		return o.purge
	}
	p := &purge{done: make(chan struct{})}
	o.purge = p
	go func() {
		defer close(p.done)
		p.err = attempt.Guard(o.client, func() error { return o.purgeAll(context.Background()) })
		pause := o.cfg.retention / 16
		if p.err != nil && !errors.Is(p.err, framework.ErrNoAuth) {
			pause = min(pause, purgeRetry) // an interrupted purge may succeed now
		}
		if p.err != nil && attempt.Ended(o.client) == nil {
			o.client.Logger().Warn("old markers stay until the next purge", logPath, o.path, "error", p.err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.purge, o.nextPurge = nil, time.Now().Add(pause)
	}()
	return p
}

// purgeAll purges under a lock of its own. So an old marker cannot be deleted and written
// again before this deletion, because every deletion needs the lock.
func (o *Once) purgeAll(ctx context.Context) error {
	mutex, err := locks.NewInterProcessMutex(o.client, framework.JoinPath(o.path, "purge"), locks.WithRecipeName("once"))
	if err != nil {
		return err
	}
	lease, err := mutex.TryAcquire(ctx)
	if errors.Is(err, locks.ErrNotAcquired) {
		return nil // another replica does it
	}
	if err != nil {
		return err
	}
	err = o.purgeUnder(ctx, lease)
	return errors.Join(err, lease.Release(ctx))
}

func (o *Once) purgeUnder(ctx context.Context, lease *locks.Lease) error {
	// The age of markers is taken from the lock's node: only the server's clock counts.
	newest, err := o.client.Exists(ctx, lease.Path())
	if err != nil {
		return err
	}
	if newest == nil {
		return fmt.Errorf("the node of the lock is gone: %w", framework.ErrNoNode)
	}
	oldest := newest.Ctime - o.cfg.retention.Milliseconds()
	if err := o.deleteOlder(ctx, lease, o.folder(), oldest); err != nil {
		return err
	}
	// Servers delete the folders of locks, unless these are no containers.
	return o.deleteOlder(ctx, lease, framework.JoinPath(o.path, "run"), oldest)
}

// deleteOlder deletes the children of a folder that were created before a time of the
// server's clock, in milliseconds, and that have no children.
func (o *Once) deleteOlder(ctx context.Context, lease *locks.Lease, folder string, oldest int64) error {
	// However long the list has become, it must be read to become shorter.
	names, err := o.client.Children(ctx, folder, framework.WithReplyLimit(math.MaxInt32))
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	count, example := 0, ""
	for batch := range slices.Chunk(names, purgeBatch) {
		old, kept, err := o.findOlder(ctx, folder, batch, oldest)
		if err == nil {
			err = o.deleteUnder(ctx, lease, old)
		}
		if err != nil {
			return err
		}
		if len(kept) > 0 {
			count, example = count+len(kept), kept[0]
		}
	}
	if count > 0 && folder == o.folder() {
		o.client.Logger().Warn("markers stay, as they have children or cannot be read", logPath, example, "markers", count)
	}
	return nil
}

// findOlder returns the children that must be deleted, and those that are kept although they may be as old.
func (o *Once) findOlder(ctx context.Context, folder string, names []string, oldest int64) (old, kept []string, err error) {
	stats, reads, failures := make([]*framework.Stat, len(names)), make([]framework.Read, len(names)), make([]error, len(names))
	for i, name := range names {
		reads[i] = framework.ReadStat(framework.JoinPath(folder, name), &stats[i]).StoringErrorIn(&failures[i])
	}
	if err := o.client.Pipeline(ctx, reads...); err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		path := framework.JoinPath(folder, name)
		switch {
		case errors.Is(failures[i], framework.ErrNoAuth): // servers may ask for READ, so its age is unknown
			kept = append(kept, path)
		case failures[i] != nil:
			return nil, nil, failures[i]
		case stats[i] == nil || stats[i].Ctime >= oldest: // it has gone, or is not old yet
		case stats[i].NumChildren > 0: // an application has put something there
			kept = append(kept, path)
		default:
			old = append(old, path)
		}
	}
	return old, kept, nil
}

// deleteUnder deletes znodes in one transaction with a check of the lock. Markers that
// have gone or have got a child since the look are left out.
func (o *Once) deleteUnder(ctx context.Context, lease *locks.Lease, paths []string) error {
	for len(paths) > 0 {
		ops := make([]framework.Op, len(paths))
		for i, path := range paths {
			ops[i] = framework.DeleteOp(path)
		}
		_, err := lease.Transact(ctx, ops...)
		if err == nil {
			return nil
		}
		if half := len(paths) / 2; half > 0 && errors.Is(err, framework.ErrTooLarge) {
			if err := o.deleteUnder(ctx, lease, slices.Clone(paths[:half])); err != nil {
				return err
			}
			paths = paths[half:]
			continue
		}
		var failed *framework.OpError
		if !errors.As(err, &failed) || !errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrNotEmpty) {
			return err
		}
		at := slices.Index(paths, failed.Path)
		if at < 0 {
			return err // the lock is lost
		}
		paths = slices.Delete(paths, at, at+1)
	}
	return nil
}
