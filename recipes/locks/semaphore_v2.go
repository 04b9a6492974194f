// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

const (
	semaphoreLocks  = "locks"
	semaphoreLeases = "leases"
	leaseName       = "lease-"
)

// InterProcessSemaphoreV2 is a counting semaphore across processes and machines. It is
// fair, can acquire several leases together or none, and shares its state with Curator's
// class of that name.
//
// Layout: <path>/leases/_c_<uuid>-lease-<10 digits>, ephemeral, one for each lease,
// and an [InterProcessMutex] at <path>/locks. The holder of that mutex creates leases, and
// waits until there are no more than the maximum; then it is the next one's turn. Names
// without "lease-" and a number do not count.
//
// All participants must use the same maximum.
//
// A waiter for a lease watches the folder <path>/leases, which must stay readable for as
// long: a server does not notify about nodes that may not be read (see the package comment).
//
// It is not re-entrant: every acquisition is for another lease. It is safe for
// concurrent use.
type InterProcessSemaphoreV2 struct{ permits }

var _ InterProcessLock = (*InterProcessSemaphoreV2)(nil)

// NewInterProcessSemaphoreV2 returns the semaphore at path. Its maximum is [FixedLeases],
// [SharedLeases], or another source. It checks its arguments and sends nothing.
func NewInterProcessSemaphoreV2(
	client *framework.Framework, path string, maxLeases MaxLeases, opts ...Option,
) (*InterProcessSemaphoreV2, error) {
	p, err := newPermits(client, path, maxLeases, opts)
	if err != nil {
		return nil, err
	}
	return &InterProcessSemaphoreV2{p}, nil
}

// permits are the leases of a semaphore, and the turns in which they are acquired.
type permits struct {
	path         string
	turn, leases *lock
}

func newPermits(client *framework.Framework, path string, maxLeases MaxLeases, opts []Option) (permits, error) {
	if err := attempt.Check(client, path); err != nil {
		return permits{}, fmt.Errorf("locks: %w", err)
	}
	leases, err := newLock(spec{
		client: client, driver: leaseDriver{StandardLockInternalsDriver{StandardLockInternalsSorter{leaseName}}}, path: framework.JoinPath(path, semaphoreLeases), lockName: leaseName, maxLeases: maxLeases,
		recipe: "semaphore", features: []feature{measured}, isFull: isFull,
	}, append(slices.Clone(opts), withoutOrder)) // the queue is the one for the turn
	if err != nil {
		return permits{}, err
	}
	// Telemetry and revocation are for the leases, so the turn has no recipe. Leases are counted
	// after their creation, so a turn that is lost unnoticed lets in no lease too many. So an
	// interruption need not end a turn and send its owner to the end of the queue.
	turn, err := newLock(spec{
		client: client, driver: mutexDriver, path: framework.JoinPath(path, semaphoreLocks), lockName: mutexName, maxLeases: FixedLeases(1),
		features: []feature{measuredTurn}, isFull: isFull,
	}, append(slices.Clone(opts), WithErrorPolicy(framework.SessionErrorPolicy)))
	if err != nil {
		return permits{}, err
	}
	return permits{path, turn, leases}, nil
}

// Path returns the path of the semaphore.
func (s permits) Path() string { return s.path }

// Acquire blocks until a lease is acquired or the context ends. Once the acquisition has stood
// in the queue no outage ends the wait: when it has lost its turn it joins the queue again. An
// error of another kind does, such as [framework.ErrNoAuth]. A failure returns the errors of
// [InterProcessMutex.Acquire] and leaves no node behind.
func (s permits) Acquire(ctx context.Context) (*Lease, error) {
	return one(s.acquire(ctx, 1, true))
}

// TryAcquire acquires a lease if one is free and no other acquisition waits for its turn
// or has it. Otherwise it does not queue, and the error matches [ErrNotAcquired]. A try takes
// one round trip if all leases are taken, one more if one is free, and one more to read a
// maximum that may change ([SharedLeases]). Any number of tries may come at once: as many
// succeed as there are free leases.
func (s permits) TryAcquire(ctx context.Context) (*Lease, error) {
	return one(s.acquire(ctx, 1, false))
}

// AcquireN blocks until n leases are acquired, and returns all of them or none. While it
// waits for the last ones no other acquisition gets any, so two acquisitions that each want
// more than half do not wait for each other. Each lease has its own node and token. Each is
// lost, and must be released, separately.
//
// If n is greater than the maximum, or the maximum falls below n during the wait, the
// error matches [ErrTooManyLeases] at once. A maximum of 0 is no such error: the
// semaphore is paused, and AcquireN waits.
func (s *InterProcessSemaphoreV2) AcquireN(ctx context.Context, n int) ([]*Lease, error) {
	return s.acquire(ctx, n, true)
}

// TryAcquireN acquires n leases if that many are free and no other acquisition waits for its
// turn or has it. Otherwise it acquires none, and the error matches [ErrNotAcquired]. Unlike
// a try for one lease, a try for several takes a turn, so only one of several simultaneous
// tries succeeds.
func (s *InterProcessSemaphoreV2) TryAcquireN(ctx context.Context, n int) ([]*Lease, error) {
	return s.acquire(ctx, n, false)
}

// Do runs fn while a lease is held; see [Do].
func (s permits) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, s.path, s.Acquire, fn)
}

// Participants returns the leases, in the order in which they were asked for. One
// beyond the maximum is still waited for, or was acquired before the maximum was
// lowered.
func (s permits) Participants(ctx context.Context) ([]Participant, error) {
	return s.leases.Participants(ctx)
}

// Waiters returns the contenders that are about to acquire leases, in the order of their
// turns. The first one has its turn, and may have a lease among the Participants that it
// still waits for.
func (s permits) Waiters(ctx context.Context) ([]Participant, error) {
	return s.turn.Participants(ctx)
}

func (s permits) acquire(ctx context.Context, n int, wait bool) (leases []*Lease, err error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("locks: acquire %s: %w", s.path, attempt.ErrNilContext)
	case n < 1:
		return nil, fmt.Errorf("locks: acquire %s: %d leases, expected 1 or more", s.path, n)
	}
	if err := s.leases.refuseReentry(ctx); err != nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", s.path, err)
	}
	e := entry{driver: s.leases.driver, wants: n, wait: wait}
	err = s.leases.observed(ctx, s.path, func(ctx context.Context) (err error) {
		if n > 1 || wait {
			leases, err = s.takeTurns(ctx, n, e)
		} else {
			leases, err = s.try(ctx, e)
		}
		return err
	})
	return leases, err
}

// try acquires one lease without a turn, so simultaneous tries do not hinder each other, and
// a try that must fail creates no node. It does not overtake an acquisition that waits for
// its turn or has it. The maximum holds without the turn, because every lease is counted
// after its creation; see leaseDriver.
func (s permits) try(ctx context.Context, e entry) ([]*Lease, error) {
	if err := look(ctx, s.turn, s.leases); err != nil {
		return nil, err
	}
	return s.leases.enterTimes(ctx, 1, e)
}

// takeTurns takes turns until one does not lose what it had: like a mutex that loses its
// node, an acquisition joins the queue again, and only its context ends the wait. Once it has
// had a turn that also goes for an outage. A try takes as many turns as the retry policy says.
func (s permits) takeTurns(ctx context.Context, n int, e entry) (leases []*Lease, err error) {
	again := rejoin(s.leases.client.RetryPolicy())
	defer func() { again.run.Done(err) }()
	for {
		if leases, err = s.takeTurn(ctx, n, e); err == nil {
			return leases, nil
		}
		var since time.Time
		switch lost := errors.Is(err, errTurnLost); {
		case lost && e.wait:
			since = time.Now()
		case errors.Is(err, errTurnGivenUp):
			again.queued = true
		case !lost && !again.queued: // the turn has had its retries
			return nil, err
		}
		if err := again.after(ctx, since, err); err != nil {
			return nil, err
		}
	}
}

// takeTurn waits for its turn and acquires the leases one after the other.
func (s permits) takeTurn(ctx context.Context, n int, e entry) ([]*Lease, error) {
	if _, err := s.leases.currentMax(ctx, n); err != nil { // the wait for a turn would be in vain
		return nil, err
	}
	turns := e
	turns.driver, turns.wants = s.turn.driver, 1
	h, err := s.turn.enter(ctx, turns)
	if err != nil {
		return nil, err
	}
	turn := h.newLease(h.l)
	defer func() { _ = turn.release(ctx) }() // if the source of leases panics; otherwise it was released below
	leases, err := s.leases.enterTimes(turn.Context(ctx), n, e)
	switch {
	case err == nil || ctx.Err() != nil:
	case turn.Err() != nil: // not the caller's context: start again
		err = fmt.Errorf("%w: %w", errTurnLost, err)
	case e.wait && outlasted(err):
		err = fmt.Errorf("%w: %w", errTurnGivenUp, err)
	}
	// The leases do not depend on the turn: they were counted after their creation.
	if stays := unsettled(turn.release(ctx)); stays != nil {
		return nil, joined(err, stays, giveBack(ctx, leases))
	}
	// A lease may have been lost during the wait for the next one, or during the release of
	// the turn.
	for _, lease := range leases {
		if lost := lease.Err(); lost != nil {
			return nil, joined(errTurnLost, lost, giveBack(ctx, leases))
		}
	}
	return leases, err
}

// enterTimes acquires n leases, or none. Each is acquired under the one before, so that a search for deadlocks sees
// that they have one owner.
func (l *lock) enterTimes(ctx context.Context, n int, e entry) ([]*Lease, error) {
	under := ctx
	return allOrNone(ctx, n, func(i int) (*Lease, error) {
		h, err := l.enter(under, e)
		if err != nil {
			return nil, err
		}
		if i < n-1 {
			_, name := framework.SplitPath(h.node.Path)
			under = context.WithValue(under, callscope.HolderKey{}, name) //nolint:fatcontext // one for each lease is meant
		}
		return h.newLease(h.l), nil
	})
}

// one returns the only lease of an acquisition.
func one(leases []*Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// leaseDriver lets in as many leases as the maximum, in the order of their creation.
//
// There are never more: of the leases that were let in, the last one created has counted
// all the others, because it listed them after its creation. Curator lets a lease in only
// when there are not too many in any order, and so counts all the others too.
type leaseDriver struct{ StandardLockInternalsDriver }

// GetsTheLock lets ours in if its place is below the maximum. Otherwise any change of the
// folder is a reason to look again. Where the folder's sequence numbers are exhausted, new
// leases have one number and no order, and all of them count.
func (d leaseDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error) {
	place := slices.Index(contenders, ours)
	if place < 0 {
		return PredicateResults{}, notListed(ours)
	}
	if number, _ := d.Sequence(ours); number == math.MaxInt32 {
		place = len(contenders) - 1
	}
	return PredicateResults{GetsTheLock: place < maxLeases}, nil
}

// withoutOrder is for a lock whose order says nothing about the turns.
var withoutOrder = optionFunc(func(c *config) error {
	c.features = slices.DeleteFunc(c.features, func(f feature) bool { return f.ofQueue })
	return nil
})
