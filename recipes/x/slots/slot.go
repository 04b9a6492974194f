// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Slot is a number that this process holds, from Take to Release or its loss. It is the lease of a lock: its
// context ends with it, Err and the cause say why, and Token rises from holder to holder of one number.
type Slot struct {
	*locks.Lease

	number  int
	marker  string // "" without a delay
	release sync.Once
}

// Number returns the number. No other process has it while the slot is valid.
func (s *Slot) Number() int { return s.number }

// Release gives the number back, as [locks.Lease.Release] does. If the server does not confirm that, the number
// counts as lost; see [WithDelay].
func (s *Slot) Release(ctx context.Context) error {
	if s == nil || ctx == nil {
		return (*locks.Lease)(nil).Release(ctx)
	}
	var err error
	s.release.Do(func() {
		if s.marker == "" || s.Err() != nil {
			return
		}
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer stop()
		_, err = s.Transact(bounded, framework.DeleteOp(s.marker)) // first, or a number without a holder would count as lost
	})
	return errors.Join(err, s.Lease.Release(ctx))
}

// releaseTime bounds the first part of a release, as locks bounds the second.
const releaseTime = 10 * time.Second

// mark notes that the number is held, in place of the marker of a holder that has lost it.
func (s *Slot) mark(ctx context.Context, before *framework.Stat) error {
	var ops []framework.Op
	if before != nil {
		ops = append(ops, framework.DeleteOp(s.marker, framework.WithVersion(before.Version)))
	}
	_, err := s.Transact(ctx, append(ops, framework.CreateOp(s.marker, nil))...)
	if errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) {
		return errRival
	}
	return err
}

// Option is a setting of Slots.
type Option func(*config) error

type config struct {
	prefer int
	delay  time.Duration
	lease  []locks.Option // of the numbers and of the turns
}

// Prefer makes a process take number n if it is free, such as the number that it had before it was started again.
func Prefer(n int) Option {
	return func(c *config) error {
		if n < 0 {
			return fmt.Errorf("Prefer(%d), expected 0 or more", n)
		}
		c.prefer = n
		return nil
	}
}

// WithDelay keeps a number from the next process for d after a process has lost it, and not after a release. It is
// for numbers in what processes write, such as ids with a time by clocks that differ by less than d. d counts by
// the clock of the leading server, from the moment at which a process first looks for a number and finds that
// the one before has lost this one. All processes need the option. A join makes one request more, and two for each
// lost number that it looks at. Default: no delay.
func WithDelay(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithDelay(%v), expected more than 0", d)
		}
		c.delay = d
		return nil
	}
}

// WithErrorPolicy sets the error policy, which says when trouble with the connection loses a number. Default: the
// client's policy.
func WithErrorPolicy(p framework.ErrorPolicy) Option { return lease(locks.WithErrorPolicy(p)) }

// WithLabel names the process for operators, as [locks.WithLabel] does.
func WithLabel(label string) Option { return lease(locks.WithLabel(label)) }

func lease(o locks.Option) Option {
	return func(c *config) error {
		c.lease = append(c.lease, o)
		return nil
	}
}

func (s *Slots) markerOf(number int) string {
	return framework.JoinPath(s.path, markerName+strconv.Itoa(number))
}

// choose returns the number to take, none if no number is free, and the Stat of the marker that its last holder has
// left. It notes in n how long the shortest delay lasts if it has met one.
func (s *Slots) choose(ctx context.Context, n *names) (number int, marker *framework.Stat, err error) {
	var now int64 // by the clock of the servers, in milliseconds; 0 if not yet known
	for i := none; i < s.size; i++ {
		number := i
		if i == none {
			number = s.cfg.prefer
		}
		if number == none || n.taken[number] || i == s.cfg.prefer {
			continue
		}
		if s.cfg.delay == 0 || !n.marked[number] {
			return number, nil, nil
		}
		marker, left, err := s.delayOf(ctx, number, &now)
		if err != nil || left <= 0 {
			return number, marker, err
		}
		if n.left == 0 || left < n.left {
			n.left = left
		}
	}
	return none, nil, nil
}

// lost is the data of the marker of a number whose loss was noticed. The marker's time is the time of that.
const lost = "lost"

// delayOf returns how long a number is not to be taken yet, and the Stat of its marker.
func (s *Slots) delayOf(ctx context.Context, number int, now *int64) (marker *framework.Stat, left time.Duration, err error) {
	marker = new(framework.Stat)
	path := s.markerOf(number)
	data, err := s.client.Get(ctx, path, framework.StoringStatIn(marker))
	switch {
	case errors.Is(err, framework.ErrNoNode): // released since
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case string(data) != lost:
		err = s.client.Set(ctx, path, []byte(lost), framework.WithVersion(marker.Version), framework.Idempotent())
		if errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) {
			err = nil // another process has noticed it, or has the number
		}
		return nil, s.cfg.delay, err
	}
	if *now == 0 {
		var folder framework.Stat
		if err := s.client.Set(ctx, s.path, nil, framework.StoringStatIn(&folder), framework.Idempotent()); err != nil {
			return nil, 0, err
		}
		*now = folder.Mtime
	}
	left = s.cfg.delay - time.Duration(*now-marker.Mtime)*time.Millisecond + time.Millisecond // times are rounded to it
	return marker, min(left, s.cfg.delay), nil
}
