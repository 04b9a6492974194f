// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"fmt"
	"time"
)

// WithMaxHold ends each hold of the lock that lasts for d, as a loss. The reason in its [LostError] is
// [framework.ReasonMaxHold]. First the contexts of its leases end, and then the client deletes the
// node. The log and curator.lock.lost tell. So a holder that hangs does not keep the lock for as
// long as its session lives.
//
// A holder that goes on without regard to its context works without the lock, beside the next
// holder. Give the resource the token, or set [WithLockDelay]. A lease that re-enters does not
// prolong the hold. Each hold of a row of [WithLocalHandoff] counts for itself. Default: no bound.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithMaxHold(%v), expected more than 0", d)
		}
		c.add(feature{name: "longest hold", ofHolds: true, attach: func(l *lock) error {
			l.observers = append(l.observers, longestHold{longest: d})
			return nil
		}})
		return nil
	})
}

// longestHold ends the holds that have lasted for as long as they may.
type longestHold struct {
	ignores

	longest time.Duration
}

func (o longestHold) granted(_ context.Context, h *hold) {
	h.limit = o.longest // the hold has not begun
}
