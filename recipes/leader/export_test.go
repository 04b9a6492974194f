// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"
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
