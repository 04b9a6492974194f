package locks

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

const (
	// signalMessage is written to a waiter's node, to fire the watch on it.
	signalMessage = "__SIGNAL__"

	// signalBatch is the number of waiters that one transaction signals at most.
	signalBatch = 100
)

// waiting is the content of a condition's folder: the waiters, and how many of them, from
// the first on, have been signalled.
//
// A signal adds one to the number. A waiter that has the lock again subtracts one and
// deletes its node together. A waiter that vanishes in any other way does not change the
// number, and so leaves its signal to the next.
type waiting struct {
	waiters []string
	signals int
	version int32 // of the number
}

// read makes the reads that come first, and returns the content of the folder. The error
// matches [framework.ErrNoNode] when there is no folder, and so no waiter.
func (c *Condition) read(ctx context.Context, first ...framework.Read) (waiting, error) {
	var children []string
	var data []byte
	var stat framework.Stat
	err := c.client.Pipeline(ctx, append(first,
		framework.ReadChildren(c.path, &children),
		framework.ReadData(c.path, &data, framework.StoringStatIn(&stat)))...)
	if err != nil {
		return waiting{}, err
	}
	signals, err := c.parse(data)
	return waiting{c.queue.sorted(children), signals, stat.Version}, err
}

// parse reads the number of signals.
func (c *Condition) parse(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(data), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("condition %s: data %.20q, expected a number of signals", c.path, data)
	}
	return int(n), nil
}

// signalCount is the number of signals as the maximum of the waiters' queue, so that
// Participants shows a signalled waiter as one that holds.
type signalCount struct{ c *Condition }

// MaxLeases reads the number.
func (s signalCount) MaxLeases(ctx context.Context) (int, <-chan struct{}, error) {
	data, err := s.c.client.Get(ctx, s.c.path)
	if errors.Is(err, framework.ErrNoNode) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	n, err := s.c.parse(data)
	return n, nil, err
}

// change sets the number of signals, together with other operations, if the lock is still
// held and the number is unchanged since it was read.
func (c *Condition) change(ctx context.Context, lock string, was waiting, signals int, more ...framework.Op) error {
	_, err := c.client.Transact(ctx, append([]framework.Op{
		framework.CheckOp(lock),
		framework.SetDataOp(c.path, strconv.AppendInt(nil, int64(signals), 10), framework.WithVersion(was.version)),
	}, more...)...)
	var failed *framework.OpError
	// The check of the lock's node has failed.
	if errors.Is(err, framework.ErrNoNode) && errors.As(err, &failed) && failed.Path == lock {
		return &LostError{Reason: framework.ReasonNodeDeleted}
	}
	return err
}

// signal wakes the next n waiters.
func (c *Condition) signal(ctx context.Context, lease *Lease, n int) error {
	lock, err := c.node(lease)
	for err == nil && n > 0 {
		var told int
		if told, err = c.tell(ctx, lock, min(n, signalBatch)); told == 0 {
			break
		}
		n -= told
	}
	if err != nil {
		return fmt.Errorf("locks: signal %s: %w", c.path, err)
	}
	return nil
}

// tell signals the next n waiters and returns how many there were. It repeats a try with an
// unknown outcome.
func (c *Condition) tell(ctx context.Context, lock string, n int) (told int, err error) {
	err = retry.Do(ctx, c.client.RetryPolicy(), func(ctx context.Context) (err error) {
		told, err = c.tellOnce(ctx, lock, n)
		if framework.OutcomeUnknown(err) || errors.Is(err, framework.ErrBadVersion) {
			return err // a bad version comes from another lease of the same hold
		}
		return permanent(err)
	})
	return told, err
}

// tellOnce signals the next n waiters in one transaction.
func (c *Condition) tellOnce(ctx context.Context, lock string, n int) (told int, err error) {
	for {
		now, err := c.read(ctx)
		if err != nil {
			return 0, absent(err)
		}
		signalled := min(now.signals, len(now.waiters))
		next := now.waiters[signalled:min(signalled+n, len(now.waiters))]
		if len(next) == 0 { // no waiter without a signal
			return 0, nil
		}
		// A missing node means that one of the waiters has just left: look again.
		err = c.change(ctx, lock, now, signalled+len(next), c.touch(next)...)
		if !errors.Is(err, framework.ErrNoNode) {
			return len(next), err
		}
	}
}

// touch returns the operations that fire the watches of the waiters.
func (c *Condition) touch(waiters []string) []framework.Op {
	ops := make([]framework.Op, len(waiters))
	for i, name := range waiters {
		ops[i] = framework.SetDataOp(framework.JoinPath(c.path, name), []byte(signalMessage))
	}
	return ops
}
