// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ErrCorrupted says that the data of a counter's znode is not as long as its number.
var ErrCorrupted = errors.New("corrupted value")

const logPath = "curator.path" // a key of log records, see framework.WithLogger

// Value is the outcome of a change: the value before and after it.
type Value[T any] struct {
	Pre, Post T
	Stats     Stats
}

// Stats describes the tries of a change. It is Curator's AtomicStats.
type Stats struct {
	OptimisticTries int           // without the lock
	PromotedTries   int           // with the lock of WithPromotedToLock
	OptimisticTime  time.Duration // of the tries without the lock, with their pauses
	PromotedTime    time.Duration // of the acquisition and the tries with the lock
}

// DistributedAtomicValue is a value of bytes that many processes change
// together. It shares its znode with Curator's class of that name.
//
// Layout: a persistent znode at path, below container nodes, whose data is the
// value. A znode that does not exist has the value nil.
//
// It is safe for concurrent use.
type DistributedAtomicValue struct {
	path string
	cfg  config

	written atomic.Pointer[written] // by the last change that succeeded, nil if another one has taken it
	pause   atomic.Int64            // the longest pause after the next collision, in nanoseconds; 0 for minPause
}

// NewDistributedAtomicValue returns the value at path. It checks its arguments
// and sends nothing.
func NewDistributedAtomicValue(client *framework.Framework, path string, opts ...Option) (*DistributedAtomicValue, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("atomic: %w", err)
	}
	cfg, err := newConfig(client, opts)
	if err != nil {
		return nil, fmt.Errorf("atomic: %s: %w", path, err)
	}
	if cfg.lock != nil && client.FullPath(cfg.lock.Path()) == client.FullPath(path) {
		return nil, fmt.Errorf("atomic: %s: promoted to a lock at the same path, expected another", path)
	}
	return &DistributedAtomicValue{path: path, cfg: cfg}, nil
}

// Path returns the path of the znode.
func (v *DistributedAtomicValue) Path() string { return v.path }

// Get returns the value, nil if there is no znode. It may be older than another client's
// newest change. A change never begins with an outdated value.
func (v *DistributedAtomicValue) Get(ctx context.Context) ([]byte, error) {
	data, _, err := v.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("atomic: get: %w", err)
	}
	return data, nil
}

// ForceSet sets the value whatever it is. Another client's change may be lost
// with it. A write whose reply is lost is repeated. If [framework.OutcomeUnknown]
// is true for its error, the value may be set.
func (v *DistributedAtomicValue) ForceSet(ctx context.Context, data []byte) error {
	return attempt.Wrapf(v.force(ctx, data), "atomic: force set")
}

func (v *DistributedAtomicValue) force(ctx context.Context, data []byte) error {
	for {
		// Setting a value twice does no harm, so it is repeated when in doubt.
		err := v.cfg.client.Set(ctx, v.path, data, framework.Idempotent())
		if !errors.Is(err, framework.ErrNoNode) {
			return err
		}
		// A creation in doubt ends here: what ctx may have ended is not set again.
		if err = v.create(ctx, data); !errors.Is(err, framework.ErrNodeExists) {
			return err
		}
	}
}

// TrySet sets the value and returns the value that it replaces. Unlike ForceSet it loses no
// change of another client. If [framework.OutcomeUnknown] is true for its error, the value may
// be set; it is set at most once.
func (v *DistributedAtomicValue) TrySet(ctx context.Context, data []byte) (Value[[]byte], error) {
	return v.Update(ctx, func([]byte) ([]byte, error) { return data, nil })
}

// CompareAndSet sets the value if it is expected, byte for byte, and reports
// whether it was. A value that was never set is not expected by any call: see
// [DistributedAtomicValue.Initialize]. If [framework.OutcomeUnknown] is true for
// its error, the value may be set, though CompareAndSet returns false.
func (v *DistributedAtomicValue) CompareAndSet(ctx context.Context, expected, data []byte) (bool, error) {
	_, _, err := v.change(ctx, func(pre []byte, exists bool) ([]byte, error) {
		if !exists || !bytes.Equal(pre, expected) {
			return nil, errUnchanged
		}
		return data, nil
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, attempt.Wrapf(err, "atomic: compare and set")
}

// Initialize creates the znode with this value, and reports whether it did. It
// returns false if there is one already. If [framework.OutcomeUnknown] is true for
// its error, the znode may be from this call, though Initialize returns false.
func (v *DistributedAtomicValue) Initialize(ctx context.Context, data []byte) (bool, error) {
	err := v.create(ctx, data)
	if errors.Is(err, framework.ErrNodeExists) && !framework.OutcomeUnknown(err) {
		return false, nil
	}
	return err == nil, attempt.Wrapf(err, "atomic: initialize")
}

// Update replaces the value by the result of change, and returns both. It is the general form
// of all changes. It calls change again whenever another process was faster. If change refuses
// the value that the Update before this one has written, Update reads the value and calls
// change again. An error of change for a value that was read ends the Update and is returned.
// If [framework.OutcomeUnknown] is true for the error of Update, the change may have been
// made; it is made at most once.
func (v *DistributedAtomicValue) Update(ctx context.Context, change func(pre []byte) ([]byte, error)) (Value[[]byte], error) {
	if change == nil {
		return Value[[]byte]{}, fmt.Errorf("atomic: update %s: function nil, expected one that returns the next value", v.path)
	}
	value, _, err := v.change(ctx, func(pre []byte, _ bool) ([]byte, error) { return change(pre) })
	return value, attempt.Wrapf(err, "atomic: update")
}

// errUnchanged ends a change that finds another value than it expected.
var errUnchanged = errors.New("the value is another")

// next computes the value that follows pre.
type next func(pre []byte, exists bool) ([]byte, error)

// change makes tries until one succeeds, the later ones under the lock if there
// is one.
func (v *DistributedAtomicValue) change(ctx context.Context, next next) (value Value[[]byte], stats Stats, err error) {
	if ctx == nil {
		return value, stats, attempt.ErrNilContext
	}
	began := time.Now()
	value, err = v.tries(ctx, next, &stats.OptimisticTries, v.cfg.lock != nil)
	stats.OptimisticTime = time.Since(began)
	if errors.Is(err, errPromote) {
		promoted := time.Now()
		value, err = v.promoted(ctx, next, &stats.PromotedTries)
		stats.PromotedTime = time.Since(promoted)
	}
	value.Stats = stats
	return value, stats, err
}

// promoted makes tries under the lock. It returns the outcome of the tries: a release
// that fails does not turn a change that was made into an error.
func (v *DistributedAtomicValue) promoted(ctx context.Context, next next, tries *int) (value Value[[]byte], err error) {
	held := false
	lockErr := v.cfg.lock.Do(ctx, func(ctx context.Context) error {
		held = true
		value, err = v.tries(ctx, next, tries, false)
		v.written.Store(nil) // the next change must read, and so see the changes that wait for the lock
		return err
	})
	if !held {
		return value, lockErr
	}
	if err == nil && lockErr != nil {
		v.cfg.client.Logger().Warn("the lock of a change that was made is not released", logPath, v.path, "error", lockErr)
	}
	return value, err
}

// errPromote ends the tries that are made without the lock.
var errPromote = errors.New("promote to the lock")

const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// tries makes tries until one does not collide. It remembers how long the pauses had to be, so
// that the next change does not begin with pauses that are too short for the contention. Few
// of many clients then collide, and each makes several changes in a row.
func (v *DistributedAtomicValue) tries(ctx context.Context, next next, tries *int, promote bool) (Value[[]byte], error) {
	for pause := max(minPause, time.Duration(v.pause.Load())); ; pause = min(2*pause, maxPause) {
		if promote && *tries == v.cfg.optimistic {
			return Value[[]byte]{}, errPromote
		}
		*tries++
		value, err := v.try(ctx, next, promote)
		if !errors.Is(err, errCollision) {
			v.pause.Store(int64(pause - pause/8)) // contention may have ended
			return value, err
		}
		// Those that have collided must not meet again.
		if interrupted := attempt.Part(ctx, pause); interrupted != nil {
			return value, fmt.Errorf("%w: %w", interrupted, err)
		}
	}
}

// errCollision ends a try that was overtaken by another process.
var errCollision = errors.New("other processes were faster each time")

// try computes and writes once, from the value that it has just written or that it reads. If
// promote is true, it ends with errPromote where other changes wait for the lock.
func (v *DistributedAtomicValue) try(ctx context.Context, next next, promote bool) (value Value[[]byte], err error) {
	history := v.cfg.client.History()
	if last := v.written.Swap(nil); last.mayBeFollowed(history) {
		value.Pre = last.data
		// If next refuses this value, or another process was faster, the value that is read decides.
		if value.Post, err = next(value.Pre, true); err == nil {
			if err = v.replace(ctx, value.Post, last.version, history, last.inARow+1); !errors.Is(err, errCollision) {
				return value, err
			}
		}
	}
	var stat *framework.Stat
	if promote {
		value.Pre, stat, err = v.readUnlessQueued(ctx)
	} else {
		value.Pre, stat, err = v.read(ctx)
	}
	if err != nil {
		return value, err
	}
	if value.Post, err = next(value.Pre, stat != nil); err != nil {
		return value, err
	}
	if stat == nil {
		if err = v.create(ctx, value.Post); attempt.Overtaken(err) {
			err = errCollision
		}
		return value, err
	}
	return value, v.replace(ctx, value.Post, stat.Version, history, 1)
}

// replace writes data on condition of the version, which is known from the history, and keeps it
// for the change that may follow.
func (v *DistributedAtomicValue) replace(ctx context.Context, data []byte, version int32, history int64, inARow int) error {
	sent := time.Now()
	switch overtaken, err := attempt.Replace(ctx, v.cfg.client, v.path, data, version, history); {
	case overtaken:
		return errCollision
	case err != nil:
		return err
	}
	now := time.Now()
	v.written.Store(&written{data: bytes.Clone(data), version: version + 1, history: history, inARow: inARow, at: now, took: now.Sub(sent)})
	return nil
}

// read returns the value and the Stat of its znode, which is nil if there is none.
func (v *DistributedAtomicValue) read(ctx context.Context) ([]byte, *framework.Stat, error) {
	var stat framework.Stat
	data, err := v.cfg.client.Get(ctx, v.path, framework.StoringStatIn(&stat))
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil, nil
	}
	return data, &stat, err
}

// readUnlessQueued reads the value together with the queue of the lock, and returns errPromote
// if there is one. Changes in the queue have been overtaken often. A change that overtook them
// would be faster again, and they would wait without end.
func (v *DistributedAtomicValue) readUnlessQueued(ctx context.Context) ([]byte, *framework.Stat, error) {
	var (
		stat   framework.Stat
		queue  *framework.Stat
		data   []byte
		absent bool
	)
	err := v.cfg.client.Pipeline(ctx,
		framework.ReadData(v.path, &data, framework.StoringStatIn(&stat), framework.StoringAbsenceIn(&absent)),
		framework.ReadStat(v.cfg.lock.Path(), &queue))
	switch {
	case err != nil:
		return nil, nil, err
	case queue != nil && queue.NumChildren > 0:
		return nil, nil, errPromote
	case absent:
		return nil, nil, nil
	default:
		return data, &stat, nil
	}
}

func (v *DistributedAtomicValue) create(ctx context.Context, data []byte) error {
	return attempt.Conditional(func() error {
		_, err := v.cfg.client.Create(ctx, v.path, data, framework.CreatingParentContainersIfNeeded())
		return err
	})
}
