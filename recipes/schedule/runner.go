// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
)

const (
	// recordTimeout bounds how long a run that is over waits until its end is recorded.
	recordTimeout = 30 * time.Second

	// lookEvery is how often a runner looks at its clock, which may jump.
	lookEvery = time.Minute
)

// runner runs one job, under its lease.
type runner struct {
	*Scheduler

	job   *Job
	id    string
	lease *locks.Lease
	moves context.Context // ends when the job must go
	held  context.Context // ends with the lease
	clock clock

	entry   // as this runner has read and written it
	history int64

	gap     bool      // ticks may have been missed: after a take-over, and after a pause
	busy    bool      // a run has ended, and no moment without a due tick has come since
	backlog time.Time // ticks up to it are run, however long that takes
	warned  bool      // of the clock

	known   atomic.Int32  // ordersVersion
	changed atomic.Bool   // the orders have another version
	wake    chan struct{} // after a change of changed
}

// run runs the ticks of the job until it must go.
func (r *runner) run() error {
	if err := r.claim(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.held)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() { r.follow(ctx) })
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

// follow wakes the runner when operators have ordered something.
func (r *runner) follow(ctx context.Context) {
	loop := attempt.Loop{Client: r.client, Path: r.at.orders(r.job.Name), Warning: "the orders for a job cannot be followed, trying again"}
	_ = loop.Follow(ctx, func(node framework.Node) { // until ctx ends
		version := framework.AnyVersion
		if node.Exists() {
			version = node.Stat.Version
		}
		if version == r.known.Load() {
			return
		}
		r.changed.Store(true)
		select {
		case r.wake <- struct{}{}:
		default:
		}
	})
}

// claim reads the state of the job, and writes this runner into it. From the write the runner knows
// the servers' time.
func (r *runner) claim() error {
	r.history = r.client.History()
	e, err := load(r.held, r.client, r.at, r.job.Name)
	if err != nil {
		return err
	}
	if !e.stateExists {
		if _, err := r.lease.Transact(r.held, framework.CreateOp(r.at.state(r.job.Name), nil)); err != nil {
			return err // the next claim sees whether it is there
		}
	}
	r.entry, r.gap = e, true
	r.known.Store(e.ordersVersion)
	state := e.state
	state.Runner, state.Token = r.id, r.lease.Token()
	if err := r.write(r.held, state, false); err != nil || !state.Last.IsZero() {
		return err
	}
	state.Last, _ = r.clock.now() // the ticks of a new job begin now
	return r.write(r.held, state, false)
}

// errTaken ends a runner whose state another one has written. Servers that come back from a backup may have the
// lease of an earlier runner, which then goes on.
var errTaken = errors.New("another replica has taken the job over, or the servers have forgotten that this one has")

// refresh reads the versions of the job's znodes, and the orders. As long as the state is this runner's,
// it knows that better than the servers, which may have come back from a backup.
func (r *runner) refresh(ctx context.Context) error {
	r.changed.Store(false) // before the read, which shows all changes up to now
	history := r.client.History()
	if err := r.client.Sync(ctx, r.at.orders(r.job.Name)); err != nil { // a server that is behind would show the old versions again
		return err
	}
	e, err := load(ctx, r.client, r.at, r.job.Name)
	if err != nil {
		return err
	}
	if !e.stateExists {
		return fmt.Errorf("%s: %w", r.at.state(r.job.Name), framework.ErrNoNode)
	}
	if e.state.Token != r.lease.Token() {
		return backoff.Permanent(errTaken)
	}
	if r.orders.Paused && !e.orders.Paused {
		r.gap = true
	}
	r.history, r.orders, r.ordersVersion, r.stateVersion = history, e.orders, e.ordersVersion, e.stateVersion
	r.known.Store(e.ordersVersion)
	return nil
}

// step runs a tick, or waits for the next one.
func (r *runner) step() error {
	if r.changed.Load() {
		if err := r.refresh(r.held); err != nil {
			return err
		}
		if err := r.write(r.held, r.state, false); err != nil { // operators look for the next tick
			return r.outdated(err)
		}
	}
	asked := !r.orders.Run.IsZero() && !r.orders.Run.Equal(r.state.Ordered)
	interrupted := r.state.Running
	switch {
	case interrupted != nil && r.job.AtMostOnce:
		return r.finish(Interrupted, nil)
	case interrupted != nil && (asked || !r.orders.Paused):
		return r.execute(interrupted.Tick, interrupted.Manual)
	case asked:
		return r.execute(r.orders.Run, true)
	case r.orders.Paused:
		r.wait(lookEvery)
		return nil
	}
	tick, wait, err := r.due()
	switch {
	case err != nil:
		return err
	case wait > 0:
		r.wait(min(wait, lookEvery))
		return nil
	default:
		return r.execute(tick, false)
	}
}

// wait waits for d, or until the job must go, or operators order something.
func (r *runner) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-r.moves.Done():
	case <-r.held.Done():
	}
}

// due returns the tick to run, or how long to wait. It drops the ticks that are not to be run.
func (r *runner) due() (tick time.Time, wait time.Duration, err error) {
	now, err := r.now()
	if err != nil {
		return tick, 0, err
	}
	if r.gap {
		if err := r.drop(now, r.job.CatchUp.keeps(), r.job.CatchUp.Window); err != nil {
			return tick, 0, err
		}
		r.gap, r.busy = false, false
	}
	for {
		tick, err = r.next(r.state.Last)
		switch {
		case err != nil:
			return tick, 0, err
		case tick.IsZero():
			return tick, lookEvery, nil
		case tick.After(now):
			r.busy = false
			return tick, tick.Sub(now), nil
		case !tick.After(r.orders.Skip):
			r.state.Last = tick
		case r.busy && tick.After(r.backlog): // it was due while the job ran
			if err := r.drop(now, r.job.Overlap.keeps(), 0); err != nil {
				return tick, 0, err
			}
			r.backlog = now
		default:
			if wait := tick.Add(r.job.delay(tick)).Sub(now); wait > 0 {
				return tick, wait, nil
			}
			if !r.busy {
				r.busy, r.backlog = true, now
			}
			return tick, 0, nil
		}
	}
}

// drop drops ticks that are due, until at most the newest keep are left, and none older than the window,
// if there is one.
func (r *runner) drop(now time.Time, keep int, window time.Duration) error {
	if keep == math.MaxInt && window == 0 {
		return nil
	}
	due := 0
	for t := r.state.Last; ; due++ {
		next, err := r.next(t)
		if err != nil {
			return err
		}
		if next.IsZero() || next.After(now) {
			break
		}
		t = next
	}
	for ; due > 0; due-- {
		tick, err := r.next(r.state.Last)
		if err != nil || due <= keep && (window == 0 || !tick.Before(now.Add(-window))) {
			return err
		}
		r.state.Last = tick
		r.state.Missed++
		r.telemetry.missed.Add(1)
	}
	return nil
}

// next returns the tick after t, or the zero time.
func (r *runner) next(t time.Time) (time.Time, error) {
	next := r.job.Schedule.Next(t.UTC())
	if !next.IsZero() && !next.After(t) {
		return next, fmt.Errorf("schedule of job %q: Next(%v) is %v, expected a later time", r.job.Name, t, next)
	}
	return next.UTC(), nil
}

// now returns the time.
func (r *runner) now() (time.Time, error) {
	now, out := r.clock.now()
	if out == 0 {
		return now, nil
	}
	next, err := r.next(r.state.Last)
	if err != nil {
		return now, err
	}
	// What to do depends on whose clock is right, so the servers are asked again. Theirs may have been set.
	if decides := r.gap || next.After(now) != next.After(r.clock.wall()); decides && time.Since(r.clock.answered) >= lookEvery {
		if err := r.write(r.held, r.state, false); err != nil {
			return now, r.outdated(err)
		}
		now, out = r.clock.now()
	}
	if out != 0 && !r.warned {
		r.warned = true
		r.client.Logger().Warn("the clock of this process differs from the servers', which counts now",
			logPath, string(r.at), "job", r.job.Name, "difference", out, "beyond", ClockTolerance)
	}
	return now, nil
}

// execute runs a tick, again if it fails and may be repeated, and records its end.
func (r *runner) execute(tick time.Time, manual bool) error {
	ctx := r.held
	if r.job.GiveUp {
		ctx = r.lease.Context(r.moves)
	}
	if r.job.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.job.Deadline, ErrDeadline)
		defer cancel()
	}
	policy := r.job.Retry
	if policy == nil {
		policy = retry.None()
	}
	var unrecorded, failure error
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		if unrecorded = r.begin(tick, manual); unrecorded != nil {
			return backoff.Permanent(unrecorded)
		}
		failure = r.call(ctx)
		return failure
	})
	switch {
	case unrecorded != nil:
		return r.outdated(unrecorded)
	case err == nil:
		return r.finish(Succeeded, nil)
	case r.held.Err() != nil:
		return context.Cause(r.held) // the next runner sees that the run was interrupted
	case errors.Is(failure, ErrOverlap):
		return r.finish(Cancelled, failure)
	case r.job.GiveUp && r.moves.Err() != nil:
		return context.Cause(r.moves)
	case failure == nil:
		failure = err // the context ended first
	}
	return r.finish(Failed, failure)
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
	return r.write(r.held, state, true)
}

// call calls the function of the job for the run under way, and waits for its return.
func (r *runner) call(ctx context.Context) error {
	run := r.state.Running
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, end := r.telemetry.begin(ctx, r.job.Name, *run)
	done := make(chan error, 1)
	go func() {
		done <- attempt.Guard(r.client, func() error {
			return r.job.Run(ctx, Tick{Job: r.job.Name, Time: run.Tick, Attempt: run.Attempt, Token: run.Token, Manual: run.Manual})
		})
	}()
	err := r.awaitReturn(cancel, run, done)
	if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	end(err)
	if errors.Is(context.Cause(ctx), ErrOverlap) && err != nil {
		return backoff.Permanent(fmt.Errorf("%w: %w", ErrOverlap, err))
	}
	return err
}

// awaitReturn waits until the function has returned, and cancels its context when the next tick is due, if
// the job wants that.
func (r *runner) awaitReturn(cancel context.CancelCauseFunc, run *Run, done <-chan error) error {
	if r.job.Overlap != Cancel || run.Manual {
		return <-done
	}
	next, err := r.next(run.Began)
	if err != nil || next.IsZero() {
		return <-done
	}
	for {
		now, _ := r.clock.now()
		if !next.After(now) {
			cancel(ErrOverlap)
			return <-done
		}
		timer := time.NewTimer(min(next.Sub(now), lookEvery))
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-timer.C:
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
		if _, _, err := r.due(); err != nil { // it notes the ticks that are dropped because of this run
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.held, recordTimeout)
	defer cancel()
	loop := attempt.Loop{Client: r.client, Path: r.at.state(r.job.Name), Warning: "the end of a run could not be recorded, trying again"}
	return loop.Do(ctx, func(ctx context.Context) error {
		err := r.write(ctx, r.state, false)
		switch {
		case err == nil || !isOutdated(err, r.lease) && r.held.Err() == nil:
			return err
		case r.held.Err() != nil:
			return backoff.Permanent(err)
		}
		if failed := r.refresh(ctx); failed != nil {
			return failed
		}
		return err
	})
}

// outdated reads the versions again if a write was refused because of them: the orders have changed, or the servers
// have begun again. The runner then decides again. Another error is returned.
func (r *runner) outdated(err error) error {
	if isOutdated(err, r.lease) {
		return r.refresh(r.held)
	}
	return err
}

// isOutdated reports whether a write was refused because the znodes have other versions than the runner knows.
func isOutdated(err error, lease *locks.Lease) bool {
	var op *framework.OpError
	return attempt.NotSent(err) || attempt.Overtaken(err) && errors.As(err, &op) && op.Path != lease.Path()
}

// write writes the state while the lease is held and the state has the version that this runner knows. If the
// reply is lost, a read shows whether the write was applied. With guarded, the orders must be those that the
// runner knows, too.
func (r *runner) write(ctx context.Context, state Status, guarded bool) error {
	var err error
	if state.Next, err = r.shownNext(state.Last); err != nil {
		return err
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	path := r.at.state(r.job.Name)
	var ops []framework.Op
	if guarded {
		ops = append(ops, framework.CheckOp(r.at.orders(r.job.Name), r.ordersVersion))
	}
	ops = append(ops, framework.SetDataOp(path, data, framework.WithVersion(r.stateVersion)))
	var doubt error
	for {
		var results []framework.OpResult
		err := r.client.Retry(ctx, func(ctx context.Context) (err error) {
			results, err = r.lease.Transact(ctx, ops...)
			return err
		}, framework.InHistory(r.history))
		if err == nil {
			r.wrote(state, results[len(results)-1].Stat)
			r.clock.learn(results[len(results)-1].Stat.Mtime)
			return nil
		}
		isRefused := !framework.OutcomeUnknown(err)
		if doubt == nil && isRefused {
			return err
		}
		doubt = errors.Join(doubt, err)
		var stat framework.Stat
		have, readErr := r.read(ctx, path, &stat)
		switch {
		case readErr != nil:
			return fmt.Errorf("%w (and its outcome cannot be read: %w)", doubt, readErr)
		case stat.Version == r.stateVersion+1 && bytes.Equal(have, data):
			if r.wrote(state, &stat); r.clock.answered.IsZero() { // it may have been written long ago
				r.clock.learn(stat.Mtime)
			}
			return nil
		case stat.Version != r.stateVersion:
			return doubt // another client has written
		case isRefused:
			return err // and the tries before it were not applied
		}
	}
}

func (r *runner) read(ctx context.Context, path string, stat *framework.Stat) ([]byte, error) {
	if err := r.client.Sync(ctx, path); err != nil {
		return nil, err
	}
	data, err := r.client.Get(ctx, path, framework.StoringStatIn(stat), framework.Undecompressed())
	return attempt.Plain(r.client, path, data), err
}

func (r *runner) wrote(state Status, stat *framework.Stat) {
	r.state, r.stateVersion = state, stat.Version
}

// shownNext returns the tick that comes next, for those who read the state.
func (r *runner) shownNext(last time.Time) (time.Time, error) {
	if last.IsZero() { // the job is new
		return last, nil
	}
	next, err := r.next(last)
	for err == nil && !next.IsZero() && !next.After(r.orders.Skip) {
		next, err = r.next(next)
	}
	return next, err
}
