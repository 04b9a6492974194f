// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	// DefaultSettle is the settle time without [WithSettle]: how long a group must be without a
	// join or a leave before partitions move from one member to another.
	DefaultSettle = time.Second

	// DefaultGrace is the time without [WithGrace]: how long a function may take to return after
	// the end of its context before it is reported as overdue.
	DefaultGrace = 10 * time.Second

	// MaxCapacity is the greatest capacity of a member.
	MaxCapacity = 1_000_000

	// LoadPeriod is how often a member writes the loads that [Partition.ReportLoad] has told it, and how
	// often the group looks at them.
	LoadPeriod = 30 * time.Second
)

// Option is a setting of a [Member].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	id       string
	capacity int
	returns  time.Duration
	moves    int // at a time, 0 for any number
	cool     time.Duration
	settle   time.Duration
	grace    time.Duration
	ends     bool // with an error of a function
	zone     string
	standbys int // of each partition
	prepare  func(ctx context.Context, partition string) error
	lock     []locks.Option
	folders  lockFolders
}

func newConfig(opts []Option) (config, error) {
	c := config{capacity: 1, settle: DefaultSettle, grace: DefaultGrace}
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	if err == nil && c.returns > 0 && c.id == "" {
		err = fmt.Errorf("return %v without an id, expected WithID beside WithReturn", c.returns)
	}
	return c, err
}

func withTime(what string, d time.Duration, set func(*config)) Option {
	return optionFunc(options.Checked(d >= 0, set, what+" %v, expected 0 or more", d))
}

// WithID sets the id of the member, which no other live member should have. A newcomer takes the
// place of the member with its id, because that member may be an earlier process. If the earlier
// member lives, it hands its partitions over, and waits until the newcomer has left. Default:
// the host name, the number of the process and a random number.
func WithID(id string) Option {
	return optionFunc(options.Checked(isName(id), func(c *config) { c.id = id },
		"id %q, expected a name that a znode can have, without a slash", id))
}

// WithReturn has the partitions of this member wait for its return after it has left or died, for at most d
// after another member has noticed that. When a member with the same [WithID] joins before, as after a
// restart, it gets the same partitions, and nothing else moves: Kafka calls that static membership. Until then
// no member has these partitions, and none moves for balance. Let d be a little longer than a restart. After d the
// partitions go to the other members. When all members of a group with this option have left, its plan stays
// for their return. Default: 0, a member that returns is a newcomer. It needs WithID.
func WithReturn(d time.Duration) Option {
	return withTime("return", d, func(c *config) { c.returns = d })
}

// WithCapacity sets the share of this member, relative to the other members. A member with 2
// gets twice as many partitions as a member with 1. It is no limit. While a member lives each
// partition has a holder, however small the capacities are. Default: 1. The greatest is
// [MaxCapacity].
func WithCapacity(n int) Option {
	return optionFunc(options.Checked(n >= 1 && n <= MaxCapacity, func(c *config) { c.capacity = n },
		"capacity %d, expected 1 to %d", n, MaxCapacity))
}

// WithSettle sets how long the group must be without a join or a leave before partitions move
// from one member to another, so that a burst of joins moves them once. A group that never
// rests so long is balanced after ten times this time. Partitions that no live member has do not
// wait. Default: [DefaultSettle]; 0 moves at once.
func WithSettle(d time.Duration) Option {
	return withTime("settle", d, func(c *config) { c.settle = d })
}

// WithMoves bounds how many partitions are under way at a time because the group balances itself, and sets for
// how long a partition that has moved does not move again for balance. A partition is under way until its new
// owner has it, or until the old one's function has not returned for the time of [WithGrace]. Partitions of members that have gone are placed at once, and do not count. All members should have the
// same bounds. Default: any number, which 0 sets as well, and no time.
func WithMoves(atOnce int, coolDown time.Duration) Option {
	return optionFunc(options.Checked(atOnce >= 0 && coolDown >= 0, func(c *config) { c.moves, c.cool = atOnce, coolDown },
		"moves %d at once with a cool-down of %v, expected 0 or more", atOnce, coolDown))
}

// WithZone sets the zone of this member: its data centre, rack or host. See [WithStandbys]. Default: none.
func WithZone(zone string) Option {
	return optionFunc(options.Checked(zone != "", func(c *config) { c.zone = zone }, "zone empty, expected the name of a zone"))
}

// WithStandbys gives each partition n warm standbys: members that have called prepare, and could take over. They
// are in other zones than the owner, and than each other, where there are such members. When the owner goes, a
// standby whose prepare has returned gets the partition first, whatever the loads are. Balance may
// move it later. With 0 only new owners prepare.
//
// A new owner calls prepare, too. Until prepare has returned, the old owner keeps the partition, and the function
// of the partition does not begin. The context of prepare ends when this member is neither owner nor standby of the
// partition, so what prepare has begun may go on until then. When prepare fails or panics, it is
// called again after a pause. It may run before and while another member holds the partition, so it must not write
// what the partition's token guards.
//
// Members without this option are no standbys. The greatest n of the members counts. A member tells for which
// partitions it is prepared in a quarter of a request, which has 10,000 names of 20 bytes. It may take over others,
// but not first.
func WithStandbys(n int, prepare func(ctx context.Context, partition string) error) Option {
	return optionFunc(func(c *config) error {
		switch {
		case n < 0:
			return fmt.Errorf("standbys %d, expected 0 or more", n)
		case prepare == nil:
			return errors.New("prepare nil, expected what a standby does before it can take over")
		}
		c.standbys, c.prepare = n, prepare
		return nil
	})
}

// WithGrace sets how long a function may take to return after the end of its context. After
// that the partition is reported as [Overdue], in the log and to listeners. It is not taken
// away: its lock is released when the function has returned. Default: [DefaultGrace].
func WithGrace(d time.Duration) Option {
	return withTime("grace", d, func(c *config) { c.grace = d })
}

// WithEndOnError ends the [Member.Run] when the function of a partition fails. The member leaves,
// Run returns the error, and other members get its partitions. If each of them fails in turn, the
// whole group ends. Default: only the function ends, and it is called again after a pause.
func WithEndOnError() Option {
	return optionFunc(options.Plain(func(c *config) { c.ends = true }))
}

// WithLocks has the lock of a partition in folder/<name>/below, instead of the folder "locks" of the group. Groups
// with the same place have one holder of a name among them. All members of a group must have the same place.
func WithLocks(folder, below string) Option {
	return optionFunc(func(c *config) error {
		c.folders = lockFolders{Folder: folder, Below: below}
		if err := framework.ValidatePath(folder); err != nil {
			return fmt.Errorf("locks: %w", err)
		}
		if !isName(below) {
			return fmt.Errorf("locks below %q, expected a name that a znode can have, without a slash", below)
		}
		return nil
	})
}

// WithLockOptions passes settings on to the locks of the partitions:
// [locks.WithErrorPolicy] and so on. The label of the locks is always the id of the member.
func WithLockOptions(opts ...locks.Option) Option {
	return optionFunc(options.Plain(func(c *config) { c.lock = append(c.lock, opts...) }))
}
