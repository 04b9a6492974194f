// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// syncStall is for how long a server that catches up may come no closer.
const syncStall = time.Second

// AwaitSync waits until no server is catching up with another. All servers then serve, and each follower has written
// everything to its disk that was queued when AwaitSync saw it serve. A test that kills servers one after the other
// calls it before each, or ZooKeeper itself may lose what it has acknowledged. It waits until the context ends.
// ZooKeeper before 3.6 does not report what it has written; there AwaitSync returns when all servers serve. A
// standalone server is always in sync.
//
// ZooKeeper 3.8.0 loses acknowledged transactions when a follower ends too early (ZOOKEEPER-4643, -4646, -4785). A
// follower confirms transactions to a new leader, and takes the leader's epoch, before it has written these
// transactions to disk. If it is killed then, it comes back with a hole, and with an epoch by which it may lead and
// pass the hole on. No client can prevent this.
func (e *Ensemble) AwaitSync(ctx context.Context) error {
	// A follower serves once everything is queued for its disk. It acknowledges later transactions when they are written, and
	// it writes in the order of the queue. So once it has written what was queued then, it may be killed.
	for {
		err := e.inSync(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval): // another server leads by now, or none
		case <-ctx.Done():
			return fmt.Errorf("ensemble: servers in sync: %w", err)
		}
	}
}

// inSync waits as AwaitSync does, but fails when the roles change before the end.
func (e *Ensemble) inSync(ctx context.Context) error {
	followers, err := e.Followers(ctx)
	if err != nil {
		return err
	}
	if len(followers) != e.voters()-1 {
		return errors.New("not all of them run")
	}
	for _, s := range followers {
		if err := awaitWritten(ctx, s.Mntr); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	return nil
}

// awaitWritten waits until the server that tells these figures has written what it has queued by now. When the
// connection to a leader breaks while a follower catches up, its sync thread ends, and what was in its queue is
// never written: the server then lags behind its own count for good. So a lag that no longer shrinks is no backlog.
func awaitWritten(ctx context.Context, figures func(context.Context) (map[string]string, error)) error {
	due := -1                               // not known yet
	least, fell := math.MaxInt, time.Time{} // the lag, and when it fell to that
	for {
		now, err := figures(ctx)
		if err != nil {
			return err
		}
		const queuedKey, writtenKey = "zk_sync_processor_request_queued", "zk_cnt_sync_processor_queue_and_flush_time_ms"
		if now[queuedKey] == "" || now[writtenKey] == "" {
			return nil // ZooKeeper before 3.6
		}
		queued, err1 := strconv.Atoi(now[queuedKey]) // since the server was started
		written, err2 := strconv.Atoi(now[writtenKey])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if due < 0 {
			due = queued
		}
		if lag := queued - written; lag < least {
			least, fell = lag, time.Now()
		}
		if written >= due || time.Since(fell) >= syncStall {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d transactions are written", context.Cause(ctx), written, due)
		}
	}
}
