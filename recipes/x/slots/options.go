// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/locks"
)

// Option is a setting of Slots.
type Option func(*config) error

type config struct {
	prefer int
	delay  time.Duration
	lease  []locks.Option // of the numbers and of the turns
}

// Prefer makes a process take number n if it is free, such as the number that it had before it was started again.
func Prefer(n int) Option {
	return options.Checked(n >= 0, func(c *config) { c.prefer = n }, "Prefer(%d), expected 0 or more", n)
}

// WithDelay keeps a number from the next process for d after a process has lost it, and not after a release. It is
// for numbers in what processes write, such as ids with a time by clocks that differ by less than d. d counts by
// the clock of the leading server, from the moment at which a process first looks for a number and finds that
// the one before has lost this one. All processes need the option. A join makes one request more, and two for each
// lost number that it looks at. Default: no delay.
func WithDelay(d time.Duration) Option {
	return options.Checked(d > 0, func(c *config) { c.delay = d }, "WithDelay(%v), expected more than 0", d)
}

// WithErrorPolicy sets the error policy, which says when trouble with the connection loses a number. Default: the
// client's policy.
func WithErrorPolicy(p framework.ErrorPolicy) Option { return lease(locks.WithErrorPolicy(p)) }

// WithLabel names the process for operators, as [locks.WithLabel] does.
func WithLabel(label string) Option { return lease(locks.WithLabel(label)) }

func lease(o locks.Option) Option {
	return options.Plain(func(c *config) { c.lease = append(c.lease, o) })
}
