// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/internal/instruments"
	"github.com/gocurator/curator/recipes/locks"
)

// Once runs a job once per key across all replicas: the report of a night, the
// bill of an hour. A lock alone does not do that: with a lock N replicas run
// the job N times, one after the other. Once writes a marker for each key that
// is done, in the transaction that checks the lock.
//
// Layout: <path>/run/<key> is the folder of a [locks.InterProcessMutex], and
// <path>/done/<key> is the persistent marker, whose data is the term of the run
// in decimal digits. <path>/purge is the folder of the mutex under which one replica
// at a time deletes old markers. The nearest relative is kazoo's NonBlockingLease,
// which has a time and no key.
//
// It is safe for concurrent use.
type Once struct {
	client *framework.Framework
	path   string
	cfg    onceConfig
	runs   *instruments.Count

	mu        sync.Mutex
	nextPurge time.Time
	purge     *purge // that runs, or nil
}

// OnceOption is a setting of a [Once].
type OnceOption interface{ applyOnce(*onceConfig) error }

type onceOptionFunc func(*onceConfig) error

func (f onceOptionFunc) applyOnce(c *onceConfig) error { return f(c) }

type onceConfig struct {
	neverAgain bool
	retention  time.Duration
	lock       []locks.Option
}

// DefaultRetention is how long the marker of a key is kept, unless
// [WithRetention] says otherwise.
const DefaultRetention = 30 * 24 * time.Hour

// NeverAgain marks a key before the function runs, not after it. A run that fails, or
// whose process dies, is then never repeated: the function begins at most once per key.
// Without it the function is run again, by this replica or another, until a run
// succeeds. If the outcome of the marker's write is unknown, the marker may exist. Then
// the key counts as done, although the function has not begun.
func NeverAgain() OnceOption {
	return onceOptionFunc(options.Plain(func(c *onceConfig) { c.neverAgain = true }))
}

// WithRetention sets how long markers are kept, by the clock of the server:
// until then a key is known to be done. It is at least a minute and must be
// longer than replicas can disagree on which key is due. A run deletes the markers
// that are older in the background, once in a sixteenth of the retention; see
// [Once.Purge]. Default: [DefaultRetention].
func WithRetention(d time.Duration) OnceOption {
	return onceOptionFunc(options.Checked(d >= time.Minute, func(c *onceConfig) { c.retention = d },
		"retention %v, expected a minute or more", d))
}

// WithRunOptions passes settings on to the lock under which a job runs, as
// [WithLockOptions] does for an election.
func WithRunOptions(opts ...locks.Option) OnceOption {
	return onceOptionFunc(options.Plain(func(c *onceConfig) { c.lock = append(c.lock, opts...) }))
}

// NewOnce returns a Once whose keys are kept below path. It checks its
// arguments and sends nothing.
func NewOnce(client *framework.Framework, path string, opts ...OnceOption) (*Once, error) {
	o := &Once{client: client, path: path, cfg: onceConfig{
		retention: DefaultRetention, lock: []locks.Option{locks.WithRecipeName("once"), locks.WithoutReentry()},
	}}
	if err := options.Apply(opts, func(option OnceOption) error { return option.applyOnce(&o.cfg) }); err != nil {
		return nil, fmt.Errorf("leader: once %s: %w", path, err)
	}
	if err := framework.ValidatePath(path); err != nil { // of which the paths below may be valid
		return nil, fmt.Errorf("leader: once: %w", err)
	}
	if _, err := o.mutex("key"); err != nil {
		return nil, err
	}
	var err error
	if o.runs, err = newRuns(client, path); err != nil {
		return nil, fmt.Errorf("leader: once %s: %w", path, err)
	}
	return o, nil
}

func (o *Once) mutex(key string) (*locks.InterProcessMutex, error) {
	m, err := locks.NewInterProcessMutex(o.client, framework.JoinPath(o.path, "run/"+key), o.cfg.lock...)
	return m, attempt.Wrapf(err, "leader: once")
}

// folder is where the markers are.
func (o *Once) folder() string { return framework.JoinPath(o.path, "done") }

func (o *Once) marker(key string) string { return framework.JoinPath(o.folder(), key) }

// check refuses a key that cannot be the name of a znode.
func (o *Once) check(key string) error {
	if key == "" || strings.Contains(key, "/") {
		return fmt.Errorf("leader: once %s: key %q, expected a name without a slash, such as \"2006-01-02\"", o.path, key)
	}
	return attempt.Wrapf(framework.ValidatePath(o.marker(key)), "leader: once %s: key %q", o.path, key)
}

// Done reports whether a run of key has been marked.
func (o *Once) Done(ctx context.Context, key string) (bool, error) {
	if err := o.check(key); err != nil {
		return false, err
	}
	stat, err := o.client.Exists(ctx, o.marker(key))
	return stat != nil, err
}

// Do runs fn unless key is done, and reports whether fn has returned, with an error or not.
// While another replica runs the key, Do waits: then that run is done and Do
// returns false, or it has failed and Do runs fn. The context bounds the wait,
// and the context of fn is derived from it and from the lock. A Do of the same key within fn, with
// that context, fails with [locks.ErrReentered].
//
// When fn returns nil the key is marked as done, in a transaction that fails if
// the lock is no longer held. Do returns true and nil once the marker of this run is there, even if
// the lock is lost or cannot be released then. If that marker cannot be confirmed, Do
// returns true and an error. If [framework.OutcomeUnknown] is true for it, the run may have marked the
// key or not. Otherwise it has not, and another replica may run the key, or has run and marked it; the
// error matches [*locks.LostError] if the lock was lost.
//
// When fn returns an error, Do returns true and the error, and the key is free for
// another run, except under [NeverAgain].
//
// [NeverAgain] marks the key before fn runs. If the marker cannot be confirmed, fn does
// not run, and Do returns false and an error. An error beside true is of fn or of the
// lock, which may have been lost while fn ran. If [framework.OutcomeUnknown] is true for the
// error, the key may be marked, and then fn never runs.
//
// The marker does not end with ctx: Do waits for it for up to 30 s. Do does not wait
// for the purge of old markers that it may begin.
func (o *Once) Do(ctx context.Context, key string, fn func(context.Context) error) (ran bool, err error) {
	if ctx == nil {
		return false, fmt.Errorf("leader: once %s: %w", o.path, attempt.ErrNilContext)
	}
	if fn == nil {
		return false, fmt.Errorf("leader: once %s: function nil, expected what to run", o.path)
	}
	outcome := runFailed // also if fn panics
	defer func() { o.runs.Add(1, keyOutcome.String(outcome)) }()
	ran, err = o.do(ctx, key, fn)
	switch {
	case err == nil && ran:
		outcome = runMarked
	case err == nil:
		outcome = runSkipped
	}
	return ran, err
}

func (o *Once) do(ctx context.Context, key string, fn func(context.Context) error) (ran bool, err error) {
	if done, err := o.Done(ctx, key); done || err != nil {
		return false, err
	}
	mutex, err := o.mutex(key)
	if err != nil {
		return false, err
	}
	settled := false // the key is done, and no function has run without its lock
	err = mutex.Do(ctx, func(ctx context.Context) error {
		ran, settled, err = o.run(ctx, key, fn)
		return err
	})
	if ran {
		o.purgeSometimes()
	}
	if settled && err != nil {
		// What becomes of the lock afterwards changes nothing for the key.
		o.client.Logger().Warn("the lock of a run is not released", logPath, mutex.Path(), "error", err)
		err = nil
	}
	return ran, err
}

// run runs fn under the lock, with the marker before or after it. It reports whether the end of the
// lock changes nothing any more.
func (o *Once) run(ctx context.Context, key string, fn func(context.Context) error) (ran, settled bool, err error) {
	// The holder before has marked the key before it let go. This client
	// has seen it let go, so it sees the marker as well.
	if done, err := o.Done(ctx, key); done || err != nil {
		return false, done, err
	}
	if o.cfg.neverAgain {
		if ours, err := o.mark(ctx, key); !ours || err != nil {
			return false, err == nil, err
		}
		return true, false, fn(ctx)
	}
	if err := fn(ctx); err != nil {
		return true, false, err
	}
	// Another run may have marked the key if the lock was lost. Then this one has not succeeded.
	ours, err := o.mark(ctx, key)
	return true, ours, err
}

// markTimeout bounds how long a run that has succeeded waits for its marker.
const markTimeout = 30 * time.Second

// mark writes the marker of a key under the lock, and reports whether it is ours.
func (o *Once) mark(ctx context.Context, key string) (bool, error) {
	lease := locks.LeaseFrom(ctx)
	// A run that has succeeded must be marked even if its caller has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := o.client.Mkdirs(ctx, o.folder()); err != nil {
		return false, err
	}
	data := strconv.AppendInt(nil, lease.Token(), 10)
	var doubt error // of the first attempt; what refuses a later one does not settle it
	for {
		_, err := lease.Transact(ctx, framework.CreateOp(o.marker(key), data))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, framework.ErrNodeExists) && !o.cfg.neverAgain:
			return true, nil // by an earlier attempt of this run, which still had the lock, or by hand
		case errors.Is(err, framework.ErrNodeExists):
			ours, err := o.isOurs(ctx, key, data)
			if err != nil && doubt != nil {
				err = fmt.Errorf("%w (and its outcome cannot be read: %w)", doubt, err)
			}
			return ours, err
		case !framework.OutcomeUnknown(err) && doubt != nil:
			return false, attempt.Then(doubt, err)
		case !framework.OutcomeUnknown(err):
			return false, err
		}
		doubt = cmp.Or(doubt, err)
		// The marker may be there or still on its way. Ask; and if it is not there
		// write it again, which the first one would make fail.
		ours, readErr := o.isOurs(ctx, key, data)
		switch {
		case readErr == nil:
			return ours, nil
		case !errors.Is(readErr, framework.ErrNoNode):
			return false, fmt.Errorf("%w (and its outcome cannot be read: %w)", err, readErr)
		}
	}
}

// isOurs reports whether the marker of a key has been written by this run.
func (o *Once) isOurs(ctx context.Context, key string, data []byte) (bool, error) {
	if err := o.client.Sync(ctx, o.marker(key)); err != nil {
		return false, err
	}
	have, err := o.client.Get(ctx, o.marker(key), framework.Undecompressed())
	return err == nil && string(attempt.Plain(o.client, o.marker(key), have)) == string(data), err
}
