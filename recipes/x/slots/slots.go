// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// ErrFull reports that no number is free. The text says how many there are.
var ErrFull = errors.New("no number is free")

// errRival reports that another process was faster.
var errRival = errors.New("another process was faster")

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
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("slots: %s: a nil option, expected options", path)
		}
		if err := o(&s.cfg); err != nil {
			return nil, fmt.Errorf("slots: %s: %w", path, err)
		}
	}
	if s.cfg.prefer >= size {
		return nil, fmt.Errorf("slots: %s: Prefer(%d), expected a number below the size %d", path, s.cfg.prefer, size)
	}
	var err error
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
			if err := s.awaitChange(during, names); err != nil {
				return nil, err
			}
		case !errors.Is(err, errRival): // of TryTake, or of one that has come before this one waited
			return slot, err
		}
	}
}

// awaitChange waits until another number of processes hold one, or a delay is over.
func (s *Slots) awaitChange(ctx context.Context, before *names) error {
	patient, stop := context.WithCancel(ctx)
	defer stop()
	if before.left > 0 {
		defer time.AfterFunc(before.left, stop).Stop()
	}
	for folder, err := range s.client.FollowChildren(patient, s.path) {
		if err == nil && s.read(folder.Names).held != before.held {
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

const (
	slotName   = "slot-"
	markerName = "taken-"
	none       = -1
)

// names is what the names in the folder tell.
type names struct {
	taken  map[int]bool // the numbers that are held
	held   int          // how many of them are below the size
	marked map[int]bool // the numbers with a marker
	wait   bool         // a process waits for its turn

	left time.Duration // of the shortest delay of a number that is not held; 0 for none
}

// list reads the folder.
func (s *Slots) list(ctx context.Context) (*names, error) {
	children, err := s.client.Children(ctx, s.path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	return s.read(children), nil
}

func (s *Slots) read(children []string) *names {
	n := &names{taken: make(map[int]bool), marked: make(map[int]bool)}
	for _, child := range children {
		if number, ok := numberIn(child, slotName); ok {
			if !n.taken[number] && number < s.size {
				n.held++
			}
			n.taken[number] = true
		} else if number, ok := numberIn(child, markerName); ok {
			n.marked[number] = true
		}
		n.wait = n.wait || locks.StandardLockInternalsSorter{LockName: "lock-"}.Contends(child)
	}
	return n
}

// numberIn returns the number behind the last place of a text in a name.
func numberIn(name, text string) (number int, ok bool) {
	at := strings.LastIndex(name, text)
	if at < 0 {
		return 0, false
	}
	digits, _, _ := strings.Cut(name[at+len(text):], "-")
	number, err := strconv.Atoi(digits)
	return number, err == nil
}
