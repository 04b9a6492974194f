// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// ErrFull reports that no number is free. The text says how many there are.
var ErrFull = errors.New("no number is free")

// Slots hands out the numbers from 0 up to a size, one number to one process at a time.
//
// Layout: an ephemeral znode <path>/_c_<uuid>-slot-<number>-<10 digits> for each number that is held. The
// first of one number has it. Those who wait queue as for a mutex at path. With [WithDelay] there is a znode
// <path>/taken-<number> beside each number that is held.
//
// It is safe for concurrent use.
type Slots struct {
	client *framework.Framework
	path   string
	size   int
	cfg    config
	turns  *locks.InterProcessMutex // its holder is the next to get a number
}

// New returns the numbers 0 to size-1 at path. It checks its arguments and sends nothing. Processes with
// different sizes share the numbers that both have.
func New(client *framework.Framework, path string, size int, opts ...Option) (*Slots, error) {
	s := &Slots{client: client, path: path, size: size, cfg: config{prefer: none}}
	if size < 1 {
		return nil, fmt.Errorf("slots: %s: size %d, expected 1 or more", path, size)
	}
	err := options.Apply(opts, func(o Option) error { return o(&s.cfg) })
	if err == nil && s.cfg.prefer >= size {
		err = fmt.Errorf("Prefer(%d), expected a number below the size %d", s.cfg.prefer, size)
	}
	if err != nil {
		return nil, fmt.Errorf("slots: %s: %w", path, err)
	}
	if s.turns, err = locks.NewInterProcessMutex(client, path, append(slices.Clip(s.cfg.lease), locks.WithRecipeName("slot.turn"))...); err != nil {
		return nil, fmt.Errorf("slots: %w", err)
	}
	_, err = s.lock(0) // its metrics exist from now on
	return s, err
}

// Path returns the path of the slots.
func (s *Slots) Path() string { return s.path }

// lock returns the lock of one number. All numbers share the folder, and each lock ignores the nodes of the others.
func (s *Slots) lock(number int) (*locks.LockInternals, error) {
	name := slotName + strconv.Itoa(number) + "-"
	driver := locks.StandardLockInternalsDriver{StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: name}}
	return locks.NewLockInternals(s.client, driver, s.path, name, 1, append(slices.Clip(s.cfg.lease), locks.WithRecipeName("slot"))...)
}

// Take blocks until it has a number: the preferred one if it is free, otherwise the lowest that is free. The
// context bounds the wait only. Waiters are served in the order in which they came, and nothing but the context
// ends their wait. The error then matches the context's error and its cause, and [locks.ErrNotAcquired] or
// [framework.ErrNotConnected] as for [locks.LockInternals.Acquire]. A Take without contention makes three requests.
func (s *Slots) Take(ctx context.Context) (*Slot, error) {
	names, err := s.list(ctx)
	if err == nil && !names.wait { // or those who wait come first
		var slot *Slot
		if slot, err = s.takeFree(ctx, names); err == nil {
			return slot, nil
		}
	}
	for err == nil || goesOn(ctx, err) {
		var turn *locks.Lease
		if turn, err = s.turns.Acquire(ctx); err != nil {
			break
		}
		var slot *Slot
		slot, err = s.awaitFree(ctx, turn)
		_ = turn.Release(ctx) // in the background, if it must be
		if err == nil {
			return slot, nil
		}
	}
	return nil, fmt.Errorf("slots: take: %w", err)
}

// goesOn reports whether a Take goes on after an error: another process was faster, or the connection was lost.
func goesOn(ctx context.Context, err error) bool {
	var lost *locks.LostError // the turn
	return ctx.Err() == nil && (errors.Is(err, ErrFull) || errors.Is(err, errRival) || errors.As(err, &lost) || framework.Retryable(err))
}

// awaitFree takes the next number that is free, while this process has its turn.
func (s *Slots) awaitFree(ctx context.Context, turn *locks.Lease) (*Slot, error) {
	during := turn.Context(ctx)
	for {
		names, err := s.list(during)
		if err != nil {
			return nil, err
		}
		slot, err := s.takeFree(ctx, names)
		switch {
		case errors.Is(err, ErrFull):
			if failed := s.awaitChange(during, names); failed != nil {
				if ctx.Err() != nil {
					failed = s.givenUp(ctx, err)
				}
				return nil, failed
			}
		case !errors.Is(err, errRival): // of TryTake, or of one that has come before this one waited
			return slot, err
		}
	}
}

// givenUp returns the error of a wait for a number that its context has ended. Without a connection it is unknown whether one is free by now.
func (s *Slots) givenUp(ctx context.Context, full error) error {
	if health := s.client.Health().Err; errors.Is(health, framework.ErrNotConnected) {
		return fmt.Errorf("%w: %w", health, attempt.Interrupted(ctx))
	}
	return fmt.Errorf("%w: %w: %w", locks.ErrNotAcquired, full, attempt.Interrupted(ctx))
}

// awaitChange waits until another number of processes hold one, or a delay is over.
func (s *Slots) awaitChange(ctx context.Context, before *names) error {
	patient, stop := context.WithCancel(ctx)
	defer stop()
	if before.left > 0 {
		defer time.AfterFunc(before.left, stop).Stop()
	}
	for folder, err := range s.client.FollowChildren(patient, s.path) {
		if err == nil && read(folder.Names, s.size).held != before.held {
			return nil
		}
		if err != nil && !framework.Retryable(err) && patient.Err() == nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// TryTake takes a number if one is free, as Take does, and does not queue: it may overtake those who wait. If none
// is free the error matches [ErrFull].
func (s *Slots) TryTake(ctx context.Context) (*Slot, error) {
	for {
		names, err := s.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("slots: try: %w", err)
		}
		slot, err := s.takeFree(ctx, names)
		switch {
		case errors.Is(err, errRival): // which has a number, so this ends
		case err != nil:
			return nil, fmt.Errorf("slots: try: %w", err)
		default:
			return slot, nil
		}
	}
}

// takeFree takes the first number that is free.
func (s *Slots) takeFree(ctx context.Context, n *names) (*Slot, error) {
	number, marker, err := s.choose(ctx, n)
	if err != nil {
		return nil, err
	}
	if number == none {
		return nil, fmt.Errorf("%w of the %d at %s: %d are held", ErrFull, s.size, s.path, n.held)
	}
	lock, err := s.lock(number)
	if err != nil {
		return nil, err
	}
	lease, err := lock.TryAcquire(ctx)
	switch {
	case errors.Is(err, locks.ErrNotAcquired) && ctx.Err() == nil:
		return nil, errRival
	case err != nil:
		return nil, err
	}
	slot := &Slot{Lease: lease, number: number}
	if s.cfg.delay > 0 {
		slot.marker = s.markerOf(number)
		if err := slot.mark(ctx, marker); err != nil {
			_ = lease.Release(ctx)
			return nil, err
		}
	}
	return slot, nil
}

// list reads the folder.
func (s *Slots) list(ctx context.Context) (*names, error) {
	children, err := s.client.Children(ctx, s.path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	return read(children, s.size), nil
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
	data, err := s.client.Get(ctx, path, framework.StoringStatIn(marker), framework.Undecompressed())
	switch {
	case errors.Is(err, framework.ErrNoNode): // released since
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case string(data) != lost:
		err = s.client.Set(ctx, path, []byte(lost), framework.WithVersion(marker.Version), framework.Idempotent(), framework.Uncompressed())
		if errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) {
			err = nil // another process has noticed it, or has the number
		}
		return nil, s.cfg.delay, err
	}
	if *now == 0 {
		var folder framework.Stat
		if err := s.client.Set(ctx, s.path, nil, framework.StoringStatIn(&folder), framework.Idempotent(), framework.Uncompressed()); err != nil {
			return nil, 0, err
		}
		*now = folder.Mtime
	}
	left = s.cfg.delay - time.Duration(*now-marker.Mtime)*time.Millisecond + time.Millisecond // times are rounded to it
	return marker, min(left, s.cfg.delay), nil
}
