// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

var (
	// ErrNotStarted reports that a value is used before Start has returned.
	ErrNotStarted = errors.New("not started")

	// ErrClosed reports that a value was closed.
	ErrClosed = errors.New("closed")
)

const logPath = "curator.path" // a key of log records, see framework.WithLogger

// SharedValue is a value of bytes that every process sees. It shares its znode
// with Curator's class of that name.
//
// Layout: a persistent znode at path, below container nodes, whose data is the
// value.
//
// It is safe for concurrent use.
type SharedValue struct { //nolint:revive // Curator's name
	client  *framework.Framework
	path    string
	seed    []byte
	changes *listen.Set[VersionedValue]

	mu      sync.Mutex
	current VersionedValue
	stop    context.CancelFunc // nil before Start
	stopped chan struct{}      // closed when follow has returned
	closed  bool
}

// VersionedValue is a value with its version.
type VersionedValue struct {
	Value   []byte // must not be changed
	Version int32  // of the znode, the condition of TrySetValue
	Zxid    int64  // of the transaction that has set it; later values have a greater Zxid, until servers are restored

	history int64 // in which it was read, see framework.Framework.History; 0 if it was made by hand
}

// is reports whether two are the same value, set by the same transaction.
func (v VersionedValue) is(other VersionedValue) bool {
	return v.Zxid == other.Zxid && v.Version == other.Version && bytes.Equal(v.Value, other.Value)
}

// NewSharedValue returns the value at path. If the znode is missing at Start, Start creates
// it with the value seed. NewSharedValue checks its arguments and sends nothing.
func NewSharedValue(client *framework.Framework, path string, seed []byte) (*SharedValue, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("shared: %w", err)
	}
	return &SharedValue{
		client: client, path: path, seed: slices.Clone(seed),
		changes: listen.New[VersionedValue](attempt.LogPanics(client, path, "a listener of a shared value panicked")),
	}, nil
}

// Path returns the path of the znode.
func (v *SharedValue) Path() string { return v.path }

// Start creates the znode if it is missing, reads it, and follows it until Close. It blocks
// until it has the first value. After a failure Start may be called again; after a success
// it returns an error.
func (v *SharedValue) Start(ctx context.Context) error {
	return v.startChecked(ctx, func([]byte) error { return nil })
}

// startChecked is Start. It fails with the error of check, which gets the first
// value.
func (v *SharedValue) startChecked(ctx context.Context, check func([]byte) error) error {
	return attempt.Wrapf(v.start(ctx, check), "shared: start %s", v.path)
}

func (v *SharedValue) start(ctx context.Context, check func([]byte) error) error {
	if err := v.usable(true); err != nil {
		return err
	}
	current, err := v.createOrRead(ctx)
	if err == nil {
		err = check(current.Value)
	}
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.usableLocked(true); err != nil {
		return err // another goroutine was faster
	}
	v.current = current
	follow, stop := context.WithCancel(context.Background())
	v.stop, v.stopped = stop, make(chan struct{})
	go v.follow(follow)
	return nil
}

// createOrRead creates the znode if there is none, and reads it.
func (v *SharedValue) createOrRead(ctx context.Context) (VersionedValue, error) {
	for {
		_, err := v.client.Create(ctx, v.path, v.seed, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return VersionedValue{}, err
		}
		value, err := v.read(ctx)
		if !errors.Is(err, framework.ErrNoNode) { // deleted in between
			return value, err
		}
	}
}

// read reads the value. It names the history before the read: a value of a later history is then read once more
// before it is compared.
func (v *SharedValue) read(ctx context.Context) (VersionedValue, error) {
	history := v.client.History()
	var stat framework.Stat
	data, err := v.client.Get(ctx, v.path, framework.StoringStatIn(&stat))
	return versioned(data, &stat, history), err
}

func (v *SharedValue) usable(starts bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.usableLocked(starts)
}

// usableLocked returns why the value cannot be used, or started.
func (v *SharedValue) usableLocked(starts bool) error {
	switch {
	case v.closed:
		return ErrClosed
	case starts && v.stop != nil:
		return errors.New("started already")
	case !starts && v.stop == nil:
		return ErrNotStarted
	default:
		return nil
	}
}

func versioned(data []byte, stat *framework.Stat, history int64) VersionedValue {
	return VersionedValue{Value: data, Version: stat.Version, Zxid: stat.Mzxid, history: history}
}

// follow keeps the copy current until ctx or the client ends. When the znode is deleted the copy
// keeps the last value.
func (v *SharedValue) follow(ctx context.Context) {
	defer close(v.stopped)
	loop := attempt.Loop{Client: v.client, Path: v.path, Warning: "a shared value may be out of date"}
	_ = loop.Follow(ctx, func(node framework.Node) { // ended by Close or with the client, see Err
		if node.Exists() {
			v.learn(versioned(node.Data, node.Stat, node.History))
		}
	})
}

// learn takes a value that is newer than the copy.
func (v *SharedValue) learn(value VersionedValue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	have := v.current
	// A value that this process has written itself is here before its event.
	isNewer, isNews := value.Zxid > have.Zxid, true
	if value.history != have.history {
		isNewer, isNews = value.history > have.history, !bytes.Equal(value.Value, have.Value)
	}
	if isNewer {
		v.current = value
		if isNews {
			v.changes.Notify(value)
		}
	}
}

// Close stops following the znode, and does not delete it. It blocks until its goroutine has
// ended. The value is unknown from then on, see [SharedValue.Err]. Close may be called more than
// once. The error is always nil.
func (v *SharedValue) Close() error {
	v.mu.Lock()
	v.closed = true
	stop, stopped := v.stop, v.stopped
	v.mu.Unlock()
	if stop != nil {
		stop()
		<-stopped
	}
	return nil
}

// Value returns a copy of the newest value that this process knows, nil before
// Start and after Close. It sends nothing.
func (v *SharedValue) Value() []byte { return slices.Clone(v.VersionedValue().Value) }

// VersionedValue returns the newest value that this process knows, the zero value before
// Start and after Close.
func (v *SharedValue) VersionedValue() VersionedValue {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return VersionedValue{} // it would stay the same, however old it grows
	}
	return v.current
}

// Err returns nil while the value is followed. Otherwise it returns [ErrNotStarted],
// [ErrClosed], or why the client has ended, such as [framework.ErrClosed] or [framework.ErrAuthFailed].
func (v *SharedValue) Err() error {
	if err := v.usable(false); err != nil {
		return err
	}
	return attempt.Ended(v.client)
}

// OnChange calls fn with each newer value that this process learns of, in their order, on a
// goroutine of its own; see package listen.
func (v *SharedValue) OnChange(fn func(VersionedValue)) *listen.Registration {
	return v.changes.Add(fn)
}

// SetValue sets the value unconditionally, and so may overwrite a change of another process.
// After a lost reply it sets the value again. If [framework.OutcomeUnknown] is true for its
// error, the value may be set. SetValue creates no znode: once another client has deleted it,
// SetValue fails with [framework.ErrNoNode]. It needs a value that is started.
func (v *SharedValue) SetValue(ctx context.Context, data []byte) error {
	if err := v.usable(false); err != nil {
		return fmt.Errorf("shared: set %s: %w", v.path, err)
	}
	history := v.client.History()
	var stat framework.Stat
	if err := v.client.Set(ctx, v.path, data, framework.Idempotent(), framework.StoringStatIn(&stat)); err != nil {
		return fmt.Errorf("shared: set: %w", err)
	}
	v.learn(versioned(slices.Clone(data), &stat, history))
	return nil
}

// TrySetValue sets the value if previous is still the newest one, and reports whether it has
// set it. When it returns false, [SharedValue.VersionedValue] is the value that has replaced
// previous. It also returns false when the znode is deleted. If [framework.OutcomeUnknown] is true for
// its error, the value may be set, at most once. It needs a value that is started.
func (v *SharedValue) TrySetValue(ctx context.Context, previous VersionedValue, data []byte) (bool, error) {
	ok, err := v.trySet(ctx, previous, data)
	return ok, attempt.Wrapf(err, "shared: try to set %s", v.path)
}

// decides reports whether a value shows that the previous one is the newest or is not, without a read: it is at least as new, and
// both are of the history. In another history another value may have this version.
func (v VersionedValue) decides(previous VersionedValue, history int64) bool {
	return v.history == history && (previous.history == 0 || previous.history == history) && v.Zxid >= previous.Zxid
}

func (v *SharedValue) trySet(ctx context.Context, previous VersionedValue, data []byte) (bool, error) {
	switch err := v.usable(false); {
	case err != nil:
		return false, err
	case previous.Version == -1:
		return false, errors.New("version -1, which is no condition: set the value without one")
	}
	history := v.client.History()
	for isSent := false; ; isSent = true {
		known := v.VersionedValue()
		if isSent || !known.decides(previous, history) {
			now, err := v.read(ctx)
			if errors.Is(err, framework.ErrNoNode) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			v.learn(now)
			known = now
			if history = v.client.History(); history != now.history {
				continue
			}
		}
		if !known.is(previous) {
			return false, nil // there is nothing to ask
		}
		var stat framework.Stat
		overtaken, err := attempt.Replace(ctx, v.client, v.path, data, previous.Version, history, framework.StoringStatIn(&stat))
		if overtaken {
			continue // the caller looks at what was there instead
		}
		if err == nil {
			v.learn(versioned(slices.Clone(data), &stat, history))
		}
		return err == nil, err
	}
}
