// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// election is what a [LeaderLatch] and a [LeaderSelector] have in common: a queue, and the place of this candidate.
type election struct {
	client    *framework.Framework
	internals *locks.LockInternals

	mu    sync.Mutex
	lease *locks.Lease // of the leadership that is under way, nil while there is none
}

// newElection returns the election at path, whose candidates have nodes of this name.
func newElection(client *framework.Framework, path, name string, cfg config) (*election, error) {
	internals, err := locks.NewLockInternals(client, locks.QueueDriver(name), path, name, 1, cfg.lock...)
	if err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	return &election{client: client, internals: internals}, nil
}

// Path returns the path of the election.
func (e *election) Path() string { return e.internals.Path() }

func (e *election) leadership() *locks.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease
}

// HasLeadership reports whether this candidate leads now. It asks the clock, so it is right even in a process that was
// paused; it sends nothing. A [LeaderSelector] leads from before its function is called until it returns or the
// leadership is lost.
func (e *election) HasLeadership() bool { return e.leadership().Err() == nil }

// Participants returns the candidates in the order of the queue, the leader
// first; see [locks.LockInternals.Participants].
func (e *election) Participants(ctx context.Context) ([]locks.Participant, error) {
	return e.internals.Participants(ctx)
}

// Leader returns the candidate that leads, or false when there is none. It
// takes two round trips, however many candidates there are.
func (e *election) Leader(ctx context.Context) (locks.Participant, bool, error) {
	holders, err := e.internals.Holders(ctx)
	if err != nil || len(holders) == 0 {
		return locks.Participant{}, false, attempt.Wrapf(err, "leader")
	}
	return holders[0], true, nil
}

// Observe follows the leader of this election. The sequence yields the present
// leader, and then each later leader. A nil leader says that there is none. A newer
// leader is never followed by an older one; leaders that were gone before they could
// be read are left out. A leader is yielded again when its value changes, which is its Identity;
// see [LeaderLatch.Proclaim]. Of values in quick succession, the last one is yielded. An error is the
// last value.
//
// The sequence goes on over lost connections and sessions until ctx ends or the
// consumer leaves the loop. It watches the node of the leader only. A latch
// need not be started, nor a selector run.
func (e *election) Observe(ctx context.Context) iter.Seq2[*locks.Participant, error] {
	return func(yield func(*locks.Participant, error) bool) {
		if err := e.observe(ctx, yield); err != nil {
			yield(nil, fmt.Errorf("leader: observe %s: %w", e.Path(), err))
		}
	}
}

func (e *election) observe(ctx context.Context, yield func(*locks.Participant, error) bool) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	t, err := newTelemetry(e.client, e.Path())
	if err != nil {
		return err
	}
	o := observer{election: e, telemetry: t}
	return o.run(ctx, yield)
}
