// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// CountDownLatch opens once a number of events has been counted, and then
// stays open. It is the latch of that name in menagerie and in package
// java.util.concurrent.
//
// Layout: <path>/count is a persistent znode whose version is the number of events
// that were counted: each event writes it once, without a condition. So processes
// that count at the same time do not collide. <path>/ready is a persistent znode,
// created when the last event has been counted.
//
// It is safe for concurrent use.
type CountDownLatch struct {
	client    *framework.Framework
	path      string
	total     int32
	telemetry telemetry
}

// NewCountDownLatch returns the latch at path, which opens after this number of
// events. All processes must pass the same number. It checks its arguments and sends
// nothing.
func NewCountDownLatch(client *framework.Framework, path string, total int) (*CountDownLatch, error) {
	if err := validate(client, path); err != nil {
		return nil, err
	}
	if total < 1 || total > math.MaxInt32 {
		return nil, fmt.Errorf("barriers: %s: a count of %d, expected 1 to %d", path, total, math.MaxInt32)
	}
	measured, err := newTelemetry(client, "countdown_latch", path)
	if err != nil {
		return nil, fmt.Errorf("barriers: %s: %w", path, err)
	}
	return &CountDownLatch{client, path, int32(total), measured}, nil
}

// Path returns the path of the latch.
func (l *CountDownLatch) Path() string { return l.path }

func (l *CountDownLatch) count() string { return framework.JoinPath(l.path, "count") }
func (l *CountDownLatch) ready() string { return framework.JoinPath(l.path, readyName) }

// Count returns how many events are left.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	stat, err := l.client.Exists(ctx, l.count())
	if err != nil {
		return 0, fmt.Errorf("barriers: count: %w", err)
	}
	return l.left(stat), nil
}

// left returns how many events are left, by the znode that counts them.
func (l *CountDownLatch) left(stat *framework.Stat) int {
	if stat == nil {
		return int(l.total)
	}
	if stat.Version < 0 {
		return 0 // there were more events than a version can count
	}
	return max(int(l.total)-int(stat.Version), 0)
}

// CountDown counts one event, and opens the latch if it is the last. When the latch
// is open it has no effect. Each call counts, so after a lost reply it is not
// repeated: then [framework.OutcomeUnknown] is true for the error, and the event may
// be counted.
//
// An error that matches [ErrCounted] is about the opening alone. Do not count the
// event again: the processes in [CountDownLatch.Await] open the latch within a
// session timeout.
//
// The version of a znode counts 2^31 - 1 events. CountDown returns an error for
// further events. The latch is open by then, and stays open.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	var stat framework.Stat
	err := l.client.Set(ctx, l.count(), nil, framework.StoringStatIn(&stat))
	for errors.Is(err, framework.ErrNoNode) {
		_, err = l.client.Create(ctx, l.count(), nil, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
		if err == nil || errors.Is(err, framework.ErrNodeExists) || framework.OutcomeUnknown(err) { // a creation counts no event
			err = l.client.Set(ctx, l.count(), nil, framework.StoringStatIn(&stat))
		}
	}
	if err != nil {
		return fmt.Errorf("barriers: count down: %w", err)
	}
	if err := l.overflow(stat.Version); err != nil {
		return err
	}
	if l.left(&stat) > 0 {
		return nil
	}
	return attempt.Wrapf(l.open(ctx), "barriers: count down: %w", ErrCounted)
}

// overflow returns an error if a version is not a number of events any more.
func (l *CountDownLatch) overflow(version int32) error {
	if version >= 0 {
		return nil
	}
	return fmt.Errorf("barriers: count down: %s was counted more than %d times, delete it before it is used again", l.path, math.MaxInt32)
}

// open opens the latch, unless it is open.
func (l *CountDownLatch) open(ctx context.Context) error {
	_, err := l.client.Create(ctx, l.ready(), nil, framework.Idempotent())
	if errors.Is(err, framework.ErrNodeExists) {
		return nil
	}
	return err
}

// Await blocks until the latch is open, or ctx ends. It gets one event, however many
// are counted. It also looks once per session timeout, because a process that has
// counted the last event may have died before it could open the latch.
func (l *CountDownLatch) Await(ctx context.Context) error {
	return l.telemetry.measure(ctx, func() error {
		for {
			opened, err := l.awaitOnce(ctx)
			if err != nil {
				return fmt.Errorf("barriers: await: %w", err)
			}
			if opened {
				return nil
			}
		}
	})
}

// awaitOnce reports whether the latch is open, or waits until that may be so.
func (l *CountDownLatch) awaitOnce(ctx context.Context) (opened bool, err error) {
	var watch *framework.Watch
	defer func() { watch.Cancel() }()
	ready, err := l.client.Exists(ctx, l.ready(), framework.Watched(&watch))
	if err != nil || ready != nil {
		return err == nil, err
	}
	counted, err := l.client.Exists(ctx, l.count())
	if err != nil {
		return false, err
	}
	if l.left(counted) == 0 {
		return true, l.open(ctx)
	}
	again := time.NewTimer(l.client.Session().Timeout())
	defer again.Stop()
	select {
	case <-watch.Fired():
		return watch.Event().Type == framework.EventNodeCreated, nil
	case <-again.C:
		return false, nil
	case <-ctx.Done():
		return false, attempt.Interrupted(ctx)
	}
}
