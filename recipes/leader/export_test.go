// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"

	"github.com/gocurator/curator/recipes/locks"
)

// PurgeOlderThan purges with another retention, which may be negative.
func (o *Once) PurgeOlderThan(ctx context.Context, retention time.Duration) error {
	o.cfg.retention = retention
	return o.Purge(ctx)
}

// NothingRetained makes every marker old.
func NothingRetained() OnceOption {
	return onceOptionFunc(func(c *onceConfig) error {
		c.retention = -time.Hour
		return nil
	})
}

// NotDue makes the next purge a matter of the far future.
func (o *Once) NotDue() *Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nextPurge = time.Now().Add(1000 * time.Hour)
	return o
}

// ObserveAfter observes as an observer does that has reported a leader with this
// term.
func (l *LeaderLatch) ObserveAfter(ctx context.Context, term int64, yield func(*locks.Participant, error) bool) error {
	o := observer{election: l.election, history: l.client.History(), began: true, leads: identity{token: term}, newest: term}
	return o.run(ctx, yield)
}

// ObserveAgain observes as an observer does that is about to see the leader of this term
// again, has reported a newer one, and has had its server catch up for that.
func (l *LeaderLatch) ObserveAgain(ctx context.Context, term, newest int64, yield func(*locks.Participant, error) bool) error {
	leader, _, err := l.Leader(ctx)
	if err != nil {
		return err
	}
	o := observer{
		election: l.election, history: l.client.History(),
		began: true, leads: identity{leader.Path, term, leader.Identity}, newest: newest, synced: true,
	}
	return o.run(ctx, yield)
}

// RequeueAfterItsLastTerm requeues a Run that has found no reason to stand again, and has
// not returned yet.
func (s *LeaderSelector) RequeueAfterItsLastTerm() (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	s.again()
	return s.Requeue(), nil
}
