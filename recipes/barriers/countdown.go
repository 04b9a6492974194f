package barriers

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// CountDownLatch opens once a number of events has been counted, and then
// stays open. It is the latch of that name in menagerie and in package
// java.util.concurrent.
//
// Layout: <path>/count is a persistent znode with the number that is left, in
// decimal digits, and <path>/ready a persistent znode that is created in the
// transaction in which that number becomes zero.
//
// It is safe for concurrent use.
type CountDownLatch struct {
	client *framework.Framework
	path   string
	total  int
}

// NewCountDownLatch returns the latch at path, which opens after so many
// events. All processes must say the same number. It checks its arguments and
// sends nothing.
func NewCountDownLatch(client *framework.Framework, path string, total int) (*CountDownLatch, error) {
	if err := validate(client, path); err != nil {
		return nil, err
	}
	if total < 1 {
		return nil, fmt.Errorf("barriers: %s: a count of %d, expected 1 or more", path, total)
	}
	return &CountDownLatch{client, path, total}, nil
}

// Path returns the path of the latch.
func (l *CountDownLatch) Path() string { return l.path }

func (l *CountDownLatch) count() string { return framework.JoinPath(l.path, "count") }
func (l *CountDownLatch) ready() string { return framework.JoinPath(l.path, readyName) }

// Count returns how many events are left.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	n, _, err := l.read(ctx)
	if err != nil {
		return 0, fmt.Errorf("barriers: count: %w", err)
	}
	return n, nil
}

// read returns the number that is left and its znode's version, or -1 if there
// is none yet.
func (l *CountDownLatch) read(ctx context.Context) (left int, version int32, err error) {
	var stat framework.Stat
	data, err := l.client.Get(ctx, l.count(), framework.StoringStatIn(&stat))
	if errors.Is(err, framework.ErrNoNode) {
		return l.total, -1, nil
	}
	if err != nil {
		return 0, 0, err
	}
	left, err = strconv.Atoi(string(data))
	if err != nil || left < 0 || left > l.total {
		return 0, 0, fmt.Errorf("%s is %.40q, expected a number from 0 to %d", l.count(), data, l.total)
	}
	return left, stat.Version, nil
}

// CountDown counts one event, and opens the latch if it is the last. When the
// latch is open it does nothing. After a lost reply it is not repeated: then
// [framework.OutcomeUnknown] is true for the error.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	for {
		left, version, err := l.read(ctx)
		if err == nil && left > 0 {
			err = l.write(ctx, left-1, version)
		}
		switch {
		case err == nil:
			return nil
		case !attempt.Overtaken(err):
			return fmt.Errorf("barriers: count down: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("barriers: count down: %w", attempt.Interrupted(ctx))
		}
	}
}

// write sets the number that is left. With the last event it opens the latch.
func (l *CountDownLatch) write(ctx context.Context, left int, version int32) error {
	data := strconv.AppendInt(nil, int64(left), 10)
	ops := make([]framework.Op, 0, 2)
	if version < 0 {
		if err := l.client.Mkdirs(ctx, l.path); err != nil {
			return err
		}
		ops = append(ops, framework.CreateOp(l.count(), data))
	} else {
		ops = append(ops, framework.SetDataOp(l.count(), data, framework.WithVersion(version)))
	}
	if left == 0 {
		ops = append(ops, framework.CreateOp(l.ready(), nil))
	}
	_, err := l.client.Transact(ctx, ops...)
	return err
}

// Await blocks until the latch is open, or ctx ends. It gets one event, however
// many are counted.
func (l *CountDownLatch) Await(ctx context.Context) error {
	for {
		var watch *framework.Watch
		stat, err := l.client.Exists(ctx, l.ready(), framework.Watched(&watch))
		if err == nil && stat == nil {
			var event framework.Event
			if event, err = watch.Wait(ctx); err == nil && event.Type != zk.EventNodeCreated {
				watch.Cancel()
				continue
			}
		}
		watch.Cancel()
		if err != nil {
			return fmt.Errorf("barriers: await: %w", err)
		}
		return nil
	}
}
