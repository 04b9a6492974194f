package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// How long a fault waits at most for servers that catch up with the others, how often it asks them, and for
// how long one that catches up may come no closer.
const (
	syncTime  = 10 * time.Second
	syncEvery = 20 * time.Millisecond
	syncStall = time.Second
)

// awaitSync waits until no server is catching up with the others: all servers serve, and each follower has
// written to its disk all that was queued when it was seen to serve.
//
// ZooKeeper 3.8.0 loses acknowledged transactions when a follower ends too early (ZOOKEEPER-4643, -4646,
// -4785). The follower tells a new leader that it has what it was sent, and takes the leader's epoch, before it
// has written that to disk. If it is killed then, it comes back with a hole, and with an epoch by which it may
// lead and pass the hole on. No client can prevent this, so a campaign would cause losses
// that say nothing about the locks.
//
// A follower serves once everything is queued for its disk. It acknowledges later transactions when
// they are written, and it writes in the order of the queue. So once it has written what
// was queued then, any fault may hit it.
func awaitSync(ctx context.Context, e *ensemble.Ensemble) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	for {
		err := inSync(ctx, e)
		if err == nil {
			return nil
		}
		if errors.Is(err, errNoFigures) { // asking again would not help
			return fmt.Errorf("nemesis: servers in sync: %w", err)
		}
		select {
		case <-time.After(syncEvery): // another server leads by now, or none
		case <-ctx.Done():
			return fmt.Errorf("nemesis: servers in sync: %w", err)
		}
	}
}

// inSync waits as awaitSync does, but fails when the roles change before the end.
func inSync(ctx context.Context, e *ensemble.Ensemble) error {
	followers, err := e.Followers(ctx)
	if err != nil {
		return err
	}
	if len(followers) != len(e.Servers())-1 {
		return errors.New("not all of them run")
	}
	for _, s := range followers {
		if err := awaitWritten(ctx, s.Mntr); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	return nil
}

// errNoFigures is the error for servers that do not tell what they have written, as before ZooKeeper 3.6.
var errNoFigures = errors.New("no figures of what is written")

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
			return fmt.Errorf("%w: mntr has no %s or no %s", errNoFigures, queuedKey, writtenKey)
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
		case <-time.After(syncEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d transactions are written", context.Cause(ctx), written, due)
		}
	}
}

// unready tells in the record that the servers were not in sync before they were hurt, if they were not.
func (r *faultRecord) unready(err error) {
	const told = ", not all servers in sync before"
	if err != nil && !strings.Contains(r.Detail, told) {
		r.Detail += told
	}
}
