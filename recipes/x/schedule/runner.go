// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
)

// lookEvery is how often a runner that waits looks at its clock, which may jump.
const lookEvery = time.Minute

// runner runs one job, under its lease.
type runner struct {
	*Scheduler

	job   *Job
	id    string
	lease *locks.Lease
	moves context.Context // ends when the job must go
	held  context.Context // ends with the lease
	clock clock
	seen  chan int32 // the newest version of the orders that a watch has shown

	entry   // as this runner has read and written it
	history int64

	gap  time.Time // ticks up to it may have been missed: after a take-over, and after a pause
	kept time.Time // ticks up to it that CatchUp and Overlap have left are run, however long that takes

	// busy is until when the job would have run if each run had begun at its tick, or after the run before. A later tick
	// was due while the job was free, even if it is run late because other ticks were late.
	busy   time.Time
	from   time.Time // when the run under way would have begun, zero if it does not count
	began  time.Time // when it began
	warned bool      // of the clock
}

// runTicks runs the ticks of the job until it must go.
func (r *runner) runTicks() error {
	if err := r.claim(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.held)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() { r.watchOrders(ctx) })
	for {
		switch {
		case r.held.Err() != nil:
			return context.Cause(r.held)
		case r.moves.Err() != nil:
			return context.Cause(r.moves)
		}
		if err := r.step(); err != nil {
			return err
		}
	}
}

// watchOrders tells the runner when operators have ordered something.
func (r *runner) watchOrders(ctx context.Context) {
	loop := attempt.Loop{Client: r.client, Path: r.at.orders(r.job.Name), Warning: "the orders for a job cannot be followed, trying again"}
	_ = loop.Follow(ctx, func(node framework.Node) { // until ctx ends
		version := framework.AnyVersion
		if node.Exists() {
			version = node.Stat.Version
		}
		select {
		case <-r.seen:
		default:
		}
		r.seen <- version
	}, framework.Undecompressed()) // what a program with another setting has ordered
}

// step runs a tick, or waits for the next one.
func (r *runner) step() error {
	asked := !r.orders.Run.IsZero() && !r.orders.Run.Equal(r.state.Ordered)
	interrupted := r.state.Running
	switch {
	case interrupted != nil && r.job.AtMostOnce:
		return r.finish(Interrupted, nil)
	case interrupted != nil && (asked || interrupted.Manual || !r.orders.Paused):
		return r.execute(interrupted.Tick, interrupted.Manual)
	case asked:
		return r.execute(r.orders.Run, true)
	case r.orders.Paused:
		return r.wait(lookEvery)
	}
	tick, in, err := r.due()
	switch {
	case err != nil:
		return err
	case in > 0:
		return r.wait(min(in, lookEvery))
	default:
		return r.execute(tick, false)
	}
}

// wait waits for d, or until the job must go, or operators order something. Operators can see the tick for which it waits.
func (r *runner) wait(d time.Duration) error {
	if next := r.withNext(r.state).Next; !next.Equal(r.state.Next) { // ticks were dropped or skipped since the last write
		if err := r.record(r.held); err != nil {
			return err
		}
	}
	select {
	case <-time.After(d):
	case <-r.moves.Done():
	case <-r.held.Done():
	case version := <-r.seen:
		return r.heed(version)
	}
	return nil
}

// heed reads what operators have ordered, and writes which tick comes next, for which they look.
func (r *runner) heed(version int32) error {
	if version == r.ordersVersion && r.client.History() == r.history { // of restored servers it may be another order
		return nil
	}
	if err := r.refresh(r.held); err != nil {
		return err
	}
	return r.record(r.held)
}

// execute runs a tick, again if it fails and may be repeated, and records its end.
func (r *runner) execute(tick time.Time, manual bool) error {
	r.occupy(tick, manual)
	defer r.noteBusy() // with the time that it takes to record the end
	ctx := r.held
	if r.job.GiveUp {
		ctx = r.lease.Context(r.moves)
	}
	if r.job.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.job.Deadline, ErrDeadline)
		defer cancel()
	}
	repeated, end := context.WithCancelCause(ctx)
	defer end(nil)
	if r.job.Retry != nil { // what may be repeated does not hold the job in the pause: the next replica repeats it
		stop := context.AfterFunc(r.moves, func() { end(context.Cause(r.moves)) })
		defer stop()
	}
	var unrecorded, failure error
	err := retry.Do(repeated, r.job.Retry, func(context.Context) error {
		if unrecorded = r.goOn(tick, manual); unrecorded != nil {
			return backoff.Permanent(unrecorded)
		}
		failure = r.call(ctx)
		return failure
	})
	r.noteBusy()
	switch {
	case r.isOutdated(unrecorded):
		return r.refresh(r.held) // and decide again
	case unrecorded != nil:
		return unrecorded
	case err == nil:
		return r.finish(Succeeded, nil)
	case r.held.Err() != nil:
		return context.Cause(r.held) // the next runner sees that the run was interrupted
	case errors.Is(failure, ErrOverlap):
		return r.finish(Cancelled, failure)
	case (r.job.GiveUp || r.job.Retry != nil) && r.moves.Err() != nil:
		return context.Cause(r.moves)
	case failure == nil:
		failure = err // the context ended first
	}
	return r.finish(Failed, failure)
}

// occupy notes that a run begins.
func (r *runner) occupy(tick time.Time, manual bool) {
	r.began, _ = r.clock.now()
	r.from = later(tick, r.busy)
	if !manual {
		return
	}
	r.from = r.began
	if next, err := r.wanted(r.state.Last); err == nil && !next.IsZero() && !next.After(r.began) {
		r.from = time.Time{} // ticks wait, and are late already
	}
}

// noteBusy notes until when the run has gone on.
func (r *runner) noteBusy() {
	if now, _ := r.clock.now(); !r.from.IsZero() {
		r.busy = r.from.Add(now.Sub(r.began))
	}
}

// goOn begins an attempt. An order that has come in the pause before a repetition ends the run only if it pauses the job: to decide
// again would begin the policy and the deadline of the run again.
func (r *runner) goOn(tick time.Time, manual bool) error {
	for {
		err := r.begin(tick, manual)
		if r.state.Running == nil || !r.isOutdated(err) {
			return err
		}
		if err := r.refresh(r.held); err != nil {
			return err
		}
		if r.orders.Paused && !manual {
			return err
		}
	}
}

// begin records that an attempt of a run begins, unless an operator has ordered something that this
// runner does not know.
func (r *runner) begin(tick time.Time, manual bool) error {
	state := r.state
	run := Run{Tick: tick, Manual: manual, Attempt: 1, Token: r.lease.Token(), Runner: r.id}
	if state.Running != nil {
		run.Attempt += state.Running.Attempt
	}
	run.Began, _ = r.clock.now()
	state.Running = &run
	if manual || r.orders.Paused {
		state.Ordered = r.orders.Run
	}
	return r.write(r.held, r.withNext(state), true)
}

// call calls the function of the job for the run under way, and waits for its return.
func (r *runner) call(ctx context.Context) error {
	run := r.state.Running
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, end := r.telemetry.begin(ctx, r.job.Name, *run)
	done := make(chan error, 1)
	go attempt.GuardHere(r.client, func() error {
		return r.job.Run(ctx, Tick{Job: r.job.Name, Time: run.Tick, Attempt: run.Attempt, Token: run.Token, Manual: run.Manual})
	}, func(err error) { done <- err })
	err := r.await(run, cancel, done)
	end(err)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, ErrOverlap):
		return backoff.Permanent(fmt.Errorf("%w: %w", cause, err))
	case errors.Is(err, ctx.Err()) && !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)
	default:
		return err
	}
}

// await waits until the function has returned. It heeds operators, and cancels the run when the next tick is due, if
// the job wants that. A run that has begun late has as much time as one in time. Meanwhile it looks at the clock, which may jump.
func (r *runner) await(run *Run, cancel context.CancelCauseFunc, done <-chan error) error {
	late := r.began.Sub(r.from)
	for {
		var look <-chan time.Time
		if r.job.Overlap == Cancel && !run.Manual && !r.orders.Paused {
			// A schedule that fails says so when the run is over.
			if next, err := r.wanted(run.Began.Add(-late)); err == nil && !next.IsZero() {
				now, _ := r.clock.now()
				in := next.Add(late).Sub(now)
				if in <= 0 {
					cancel(ErrOverlap)
					return <-done
				}
				look = time.After(min(in, lookEvery))
			}
		}
		select {
		case err := <-done:
			return err
		case <-look:
		case version := <-r.seen:
			_ = r.heed(version) // what fails here, fails when the run is over
		}
	}
}

// finish records the end of the run under way. Until that is recorded or the lease has ended, nothing else
// of the job happens.
func (r *runner) finish(outcome Outcome, failure error) error {
	now, _ := r.clock.now()
	run := *r.state.Running
	r.state = r.state.over(outcome, failure, now)
	r.telemetry.over(run, outcome, now)
	if outcome != Succeeded {
		r.client.Logger().Error("a run of a job has not succeeded", logPath, string(r.at), "job", r.job.Name, "tick", run.Tick,
			"attempt", run.Attempt, "outcome", string(outcome), "error", failure)
	}
	if !r.orders.Paused {
		_, _, _ = r.due() // it notes the ticks that are dropped because of this run; what fails there, the next step says
	}
	// A lease outlasts no outage by this. A refusal may last for ever.
	ctx, cancel := context.WithTimeout(r.held, 2*r.lease.Session().Timeout())
	defer cancel()
	loop := attempt.Loop{Client: r.client, Path: r.at.state(r.job.Name), Warning: "the end of a run could not be recorded, trying again"}
	return loop.Do(ctx, r.record)
}
