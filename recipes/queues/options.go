// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Option is a setting of a [DistributedQueue] and the queues like it.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	lockPath   string // "" if consumers take no locks
	errorMode  ErrorMode
	maxItems   int // 0 for any number
	background bool
	minItems   int // to consume before the list is renewed

	lateRemoval bool
	maxAttempts int // 0 for any number
	deadLetters string
}

func newConfig(opts []Option) (config, error) {
	var c config
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	switch {
	case err != nil:
		return c, err
	case c.lateRemoval && c.lockPath != "":
		return c, errors.New("WithLateRemoval and WithLockPath, expected one of them: locked items are removed late")
	case c.errorMode != Requeue && c.lockPath == "" && !c.lateRemoval:
		return c, errors.New("WithErrorMode without WithLockPath, and without a lock an item is deleted before it is consumed")
	case c.maxAttempts > 0 && c.lockPath == "":
		return c, errors.New("WithMaxAttempts without WithLockPath, expected both: without locks, consumers that die are not counted")
	case c.maxAttempts > 0 && c.errorMode == Delete:
		return c, errors.New("WithMaxAttempts and WithErrorMode(Delete), expected one of them: a deleted item has one attempt")
	}
	return c, nil
}

// WithLockPath makes consumers lock an item while they consume it, and delete
// it afterwards. The item of a consumer that dies is consumed by another one.
// Its lock is an ephemeral znode <lockPath>/<name of the item>. All consumers of
// a queue must use the same path, and each queue a path of its own, outside of the
// queue's. Default: no locks, and an item is deleted before it is consumed.
func WithLockPath(lockPath string) Option {
	err := framework.ValidatePath(lockPath)
	return optionFunc(options.Checked(err == nil, func(c *config) { c.lockPath = lockPath }, "lock path: %w", err))
}

// WithLateRemoval removes an item from the queue when it was consumed, not before, and locks
// nothing. Several consumers may be given the same item at once: the first one removes it. With
// [Item.Transact] its results exist once nevertheless. It is for a single consumer, such as a
// consumer that package leader elects, or for short work. Default: an item is deleted before it is
// consumed.
//
// The folder of the queue must not be deleted and created again while an item is consumed.
func WithLateRemoval() Option {
	return optionFunc(options.Plain(func(c *config) { c.lateRemoval = true }))
}

// WithMaxAttempts moves an item to a dead letter folder when the n-th consumer has failed. It also
// does so when n consumers had the item and none has finished it; see [Item.Attempt]. The removal
// and the new znode are one transaction. It needs [WithLockPath], and [Requeue] as the error mode.
// Default: any number.
//
// Layout: <deadLetterPath>/queue-<10 digits>, persistent, with one item in Curator's envelope, and
// after it {"attempts":[n],"error":"..."}. The priority, time or id stays in the name. So a queue of
// the same kind at that path consumes the dead letters, and [Item.LastError] has the error, up to a
// kilobyte of it. The folder is created when it is needed. It must be outside of the queue's path
// and the lock path.
//
// An item that is within 4 KB of [framework.WithMaxRequestSize] may be too large to be moved. It then
// stays in the queue, and the log says so.
func WithMaxAttempts(n int, deadLetterPath string) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("at most %d attempts, expected 1 or more", n)
		}
		if err := framework.ValidatePath(deadLetterPath); err != nil {
			return fmt.Errorf("dead letter path: %w", err)
		}
		c.maxAttempts, c.deadLetters = n, deadLetterPath
		return nil
	})
}

// ErrorMode says what becomes of an item whose consumer has failed. It is
// Curator's ErrorMode.
type ErrorMode int

const (
	// Requeue puts the item back with its priority, time or id, behind equal items. It is the default.
	Requeue ErrorMode = iota

	// Delete deletes the item.
	Delete
)

// WithErrorMode sets what becomes of an item whose consumer has failed. It needs
// [WithLockPath] or [WithLateRemoval]. Default: [Requeue].
func WithErrorMode(mode ErrorMode) Option {
	return optionFunc(options.Checked(mode == Requeue || mode == Delete, func(c *config) { c.errorMode = mode },
		"error mode %d, expected Requeue or Delete", mode))
}

// WithMaxItems makes a Put wait while the queue has so many znodes or more. The
// bound is not exact: producers that find room at the same time all use it.
// Default: any number.
func WithMaxItems(n int) Option {
	return optionFunc(options.Checked(n >= 1, func(c *config) { c.maxItems = n }, "at most %d items, expected 1 or more", n))
}

// WithPutInBackground makes Put return before the item is in the queue, which
// FlushPuts waits for. Items arrive in the order of the calls. Those that wait
// for each other's requests share a transaction. It is Curator's
// putInBackground, which is its default; here it is not.
//
// The end of Put's context does not end its write. The write takes as long as the retry policy
// allows, and with [WithMaxItems] until there is room. A write that fails is logged and not made
// again, and FlushPuts returns its error. Items that are not written are lost with the process: call
// FlushPuts before it ends, and before the client is closed.
func WithPutInBackground() Option {
	return optionFunc(options.Plain(func(c *config) { c.background = true }))
}

// WithMinItemsBeforeRefresh sets how many items a consumer of a priority queue or a delay queue
// takes from one list before it looks for a newer one. A greater number costs less: a list has the
// names of all items. But an item that should come first may have to wait for that many items.
// Default: 0.
func WithMinItemsBeforeRefresh(n int) Option {
	return optionFunc(options.Checked(n >= 0, func(c *config) { c.minItems = n }, "a refresh after %d items, expected 0 or more", n))
}
