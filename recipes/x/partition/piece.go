// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// Partition is a partition that this member has.
type Partition struct {
	Name string

	// Lease is the hold on the partition's lock. Its Token fences what the function writes, and
	// its Transact writes to ZooKeeper while the partition is held. [Member.Run] releases it, and
	// the function must not: Run would acquire the partition again.
	Lease *locks.Lease

	// Since is when this member got the partition, by the clock of this process.
	Since time.Time

	piece *piece
}

// errUnwanted ends the wait for a partition that goes to another member.
var errUnwanted = errors.New("the plan gives the partition to another member")

// piece is a partition that this member has, waits for, or has not released yet.
type piece struct {
	of   *holdings
	name string
	wake chan struct{} // after a change of wanted or removed

	// Guarded by the mutex of the holdings.
	wanted  bool
	removed bool // from the set
	since   time.Time
	holds   bool
	wait    context.Context // of the acquisition that is under way, or nil
	giveUp  context.CancelCauseFunc
	asked   []string // whom this acquisition has asked
	load    int      // that was reported, 0 if there is none
	standby bool
	warm    *preparation // nil while there is none
}

func (p *piece) wantLocked() {
	if p.wanted {
		return
	}
	p.wanted, p.removed, p.since = true, false, time.Now()
	p.of.telemetry.wanted.Add(1)
	attempt.Signal(p.wake)
}

// unwantLocked reports whether the partition is still held.
func (p *piece) unwantLocked() (holds bool) {
	if p.wanted {
		p.wanted = false
		p.of.telemetry.wanted.Add(-1)
		if p.giveUp != nil {
			p.giveUp(errUnwanted)
		}
		attempt.Signal(p.wake)
	}
	return p.holds && !p.removed
}

func (p *piece) removeLocked() {
	p.removed = true
	attempt.Signal(p.wake)
}

// live acquires the partition and runs its function, for as long as this member is to have it or stands by.
func (p *piece) live() {
	loop := attempt.Loop{
		Client: p.of.client, Path: p.of.lock(p.name), Warning: "a partition could not be acquired, trying again",
	}
	for p.goesOn() {
		var lease *locks.Lease
		err := loop.Do(p.of.ctx, func(context.Context) (err error) {
			lease, err = p.acquire()
			if errors.Is(err, framework.ErrInvalidOption) {
				err = backoff.Permanent(err)
			}
			return err
		})
		switch {
		case err != nil:
			p.of.cancel(err)
		case lease != nil:
			p.hold(lease)
		}
	}
}

// goesOn reports whether this member is to have the partition, after it has stood by. If not, the piece is
// over: when it is wanted again there is another.
func (p *piece) goesOn() bool {
	for {
		p.of.mu.Lock()
		warm := p.warm
		switch {
		case p.of.ctx.Err() == nil && (p.wanted || p.standby):
			p.prepareLocked()
			wanted := p.wanted
			p.of.mu.Unlock()
			if wanted {
				return true
			}
			select {
			case <-p.wake:
			case <-p.of.ctx.Done():
			}
		case warm != nil: // it ends before the next one begins
			p.warm = nil
			p.of.mu.Unlock()
			warm.end()
			attempt.Signal(p.of.prepared)
		default:
			p.unwantLocked()
			delete(p.of.pieces, p.name)
			p.of.notifyDrainedLocked()
			p.of.mu.Unlock()
			return false
		}
	}
}

// acquire returns no lease and no error if the plan has given the partition to another member meanwhile.
func (p *piece) acquire() (lease *locks.Lease, err error) {
	lock, err := p.of.newLock(p.name, p.ask)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(p.of.ctx)
	defer cancel(nil)
	if !p.begin(ctx, cancel) {
		return nil, nil //nolint:nilnil // it is no failure
	}
	p.of.changes.Notify(Change{Partition: p.name, Phase: Waiting})
	lease, err = lock.Acquire(ctx)
	switch wanted := p.end(err == nil); {
	case wanted:
		return lease, err
	case err == nil: // no function has run
		p.release(lease)
	}
	return nil, nil //nolint:nilnil // it is no failure
}

func (p *piece) begin(ctx context.Context, cancel context.CancelCauseFunc) bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.wait, p.giveUp, p.asked = ctx, cancel, nil
	return p.wanted
}

// end ends the wait, and reports whether the partition is still wanted.
func (p *piece) end(acquired bool) bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.wait, p.giveUp = nil, nil
	p.holds = acquired && p.wanted
	if p.holds {
		p.of.telemetry.takeovers.Record(context.Background(), time.Since(p.since))
	}
	return p.wanted
}

// ask asks the contenders with these names, once each, to give the partition back when they are
// not to have it. It does not block.
func (p *piece) ask(names []string) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	ctx := p.wait
	if ctx == nil {
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(p.asked, name) })
	if len(names) == 0 {
		return
	}
	p.asked = append(p.asked, names...)
	warm := p.warm
	p.of.goroutines.Go(func() {
		if warm.await(ctx) != nil {
			return
		}
		for _, name := range names {
			p.askUntilHeard(ctx, framework.JoinPath(p.of.lock(p.name), name))
		}
	})
}

func (p *piece) askUntilHeard(ctx context.Context, contender string) {
	loop := attempt.Loop{Client: p.of.client, Path: contender, Warning: "a partition could not be asked for, trying again"}
	_ = loop.Do(ctx, func(ctx context.Context) error { return locks.AttemptRevoke(ctx, p.of.client, contender) }) // or the wait is over
}

// hold runs the function until it must end, and releases the partition.
func (p *piece) hold(lease *locks.Lease) {
	movable, cancel := context.WithCancelCause(p.of.ctx)
	defer cancel(nil)
	ctx := lease.Context(movable) // whose error is then that of the Run's context, also after a deadline
	p.of.telemetry.held.Add(1)
	p.tell(Held, lease, nil)
	done := p.untilEnd(ctx, cancel, lease)
	p.tell(Ending, lease, context.Cause(ctx))
	if done != nil {
		p.awaitReturn(ctx, lease, done)
	}
	p.release(lease)
	p.of.mu.Lock()
	p.holds, p.load = false, 0
	p.of.mu.Unlock()
	p.of.telemetry.held.Add(-1)
	p.tell(Ended, lease, context.Cause(ctx))
}

// call runs the function on a goroutine of its own.
func (p *piece) call(ctx context.Context, lease *locks.Lease) <-chan error {
	done, warm := make(chan error, 1), p.warm // which only this goroutine changes
	go func() {
		done <- attempt.Guard(p.of.client, func() error {
			if err := warm.await(ctx); err != nil {
				return err
			}
			return p.of.fn(ctx, Partition{Name: p.name, Lease: lease, Since: lease.Since(), piece: p})
		})
	}()
	return done
}

// untilEnd runs the function, again when it fails, until its context ends. It ends the context when
// the partition must go. It returns the result of a function that has not returned yet, otherwise nil.
func (p *piece) untilEnd(ctx context.Context, cancel context.CancelCauseFunc, lease *locks.Lease) (done <-chan error) {
	revoked, asked := lease.Revoked(), false
	var pause attempt.Pause
	var again <-chan time.Time
	called := time.Now()
	done = p.call(ctx, lease)
	for ctx.Err() == nil {
		if cause := p.mustEnd(asked); cause != nil {
			cancel(cause)
			break
		}
		select {
		case err := <-done:
			done = nil
			if err == nil || ctx.Err() != nil {
				continue
			}
			if time.Since(called) >= lastingCall {
				pause.Reset()
			}
			again = p.failed(lease, err, &pause)
		case <-again:
			called, again = time.Now(), nil
			done = p.call(ctx, lease)
		case <-revoked:
			asked, revoked = true, nil
		case <-p.wake:
		case <-ctx.Done():
		}
	}
	return done
}

// lastingCall is how long a call of a function has lasted when its failure has nothing to do with
// the failure before it.
const lastingCall = 30 * time.Second

// failed reports that the function has failed, and returns when to call it again.
func (p *piece) failed(lease *locks.Lease, err error, pause *attempt.Pause) <-chan time.Time {
	p.of.telemetry.failures.Add(1)
	p.tell(Failed, lease, err)
	if p.of.cfg.ends {
		p.of.cancel(fmt.Errorf("the function of %s: %w", p.name, err))
		return nil
	}
	next := pause.Next()
	p.of.client.Logger().Error("the function of a partition has failed, calling it again", logPath, lease.Path(), "pause", next, "error", err)
	return time.After(next)
}

// mustEnd returns why the function must end, or nil. A partition that goes to another member
// stays until that one has asked for it. A request for a partition that stays is ignored,
// because a member with an older plan may have made it.
func (p *piece) mustEnd(asked bool) error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	switch {
	case p.removed:
		return ErrRemoved
	case asked && !p.wanted:
		return ErrMoved
	default:
		return nil
	}
}

// awaitReturn waits until the function returns, however long that takes.
func (p *piece) awaitReturn(ctx context.Context, lease *locks.Lease, done <-chan error) {
	var err error
	select {
	case err = <-done:
	case <-time.After(p.of.cfg.grace):
		p.of.client.Logger().Error("the function of a partition does not return", logPath, lease.Path(), "grace", p.of.cfg.grace, "cause", context.Cause(ctx))
		p.of.telemetry.overdue.Add(1)
		p.tell(Overdue, lease, context.Cause(ctx))
		err = <-done
		p.of.telemetry.overdue.Add(-1)
	}
	if err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		p.of.client.Logger().Warn("the function of a partition failed after the end of its context", logPath, lease.Path(), "error", err)
	}
}

// release gives the lock back. That a lease was lost is no failure of the release.
func (p *piece) release(lease *locks.Lease) {
	err := lease.Release(context.WithoutCancel(p.of.ctx))
	if _, isLost := errors.AsType[*locks.LostError](err); err != nil && !isLost {
		p.of.client.Logger().Warn("a partition could not be released", logPath, lease.Path(), "error", err)
	}
}

func (p *piece) tell(phase Phase, lease *locks.Lease, err error) {
	p.of.changes.Notify(Change{Partition: p.name, Phase: phase, Token: lease.Token(), Err: err})
}
