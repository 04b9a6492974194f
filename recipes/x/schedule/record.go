// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// claim reads the state of the job, and writes this runner into it. From the write the runner knows
// the servers' time.
func (r *runner) claim() (err error) {
	r.history = r.client.History()
	if r.entry, err = load(r.held, r.client, r.at, r.job.Name); err != nil {
		return err
	}
	if !r.stateExists {
		if _, err := r.lease.Transact(r.held, framework.CreateOp(r.at.state(r.job.Name), nil, framework.Uncompressed())); err != nil {
			return err // the next claim sees whether it is there
		}
	}
	state := r.state
	state.Runner, state.Token = r.id, r.lease.Token()
	if err := r.write(r.held, state, false); err != nil { // with the next tick that was there: see begins
		return err
	}
	r.gap, _ = r.clock.now()
	if !r.begins(r.state.Next) {
		return nil
	}
	return r.record(r.held)
}

// begins finds from when on the job has ticks, if was is the next tick that the runner before has found. It reports
// whether something has changed. That runner may have had another schedule, as of another release.
func (r *runner) begins(was time.Time) (changed bool) {
	if r.state.Last.IsZero() { // the ticks of a new job begin now, by each clock
		r.state.Last = r.clock.latest()
		return true
	}
	next, err := r.following(r.state)
	switch {
	case err != nil || next.Equal(was):
		return false
	case next.IsZero() || !was.IsZero() && next.After(was):
	case was.IsZero() || was.After(r.gap): // no tick was due until now
		r.state.Last = later(r.state.Last, r.gap)
	default: // nor before that one
		r.state.Last = was.Add(-1)
	}
	return true
}

// errTaken ends a runner whose state another one has written. Servers that come back from a backup may have the
// lease of an earlier runner, which then goes on.
var errTaken = errors.New("another replica has taken the job over, or the servers have forgotten that this one has")

// refresh reads the versions of the job's znodes, and the orders. As long as the state is this runner's,
// it knows that better than the servers, which may have come back from a backup.
func (r *runner) refresh(ctx context.Context) error {
	history := r.client.History()
	e, err := r.reload(ctx)
	switch {
	case err != nil:
		return err
	case e.state.Token != r.lease.Token():
		return backoff.Permanent(errTaken)
	}
	if e.orders.Resumed != r.orders.Resumed || r.orders.Paused && !e.orders.Paused { // the latter after a restore
		r.gap, _ = r.clock.now()
	}
	r.history, r.orders, r.ordersVersion, r.stateVersion = history, e.orders, e.ordersVersion, e.stateVersion
	return nil
}

// reload reads the job from a server that is not behind, which would show old versions again.
func (r *runner) reload(ctx context.Context) (entry, error) {
	if err := r.client.Sync(ctx, r.at.orders(r.job.Name)); err != nil {
		return entry{}, err
	}
	return load(ctx, r.client, r.at, r.job.Name)
}

// record writes what this runner knows of the job, with other versions if the znodes have others by now: the orders have
// changed, or the servers have begun again.
func (r *runner) record(ctx context.Context) error {
	for {
		err := r.write(ctx, r.withNext(r.state), false)
		if !r.isOutdated(err) {
			return err
		}
		if err := r.refresh(ctx); err != nil {
			return err
		}
	}
}

// isOutdated reports whether a write was refused because the znodes have other versions than the runner knows.
func (r *runner) isOutdated(err error) bool {
	var op *framework.OpError
	return attempt.NotSent(err) || attempt.Overtaken(err) && errors.As(err, &op) && op.Path != r.lease.Path()
}

// withNext returns the state with the next tick, for which operators look. When the schedule fails, which the runner
// says when it needs the tick, the next tick stays as it was.
func (r *runner) withNext(state Status) Status {
	if next, err := r.following(state); err == nil {
		state.Next = next
	}
	return state
}

// following returns the tick after those of the state, as wanted does.
func (r *runner) following(state Status) (time.Time, error) {
	at := state.Last
	if run := state.Running; run != nil && !run.Manual {
		at = later(at, run.Tick)
	}
	if at.IsZero() { // the job is new
		return at, nil
	}
	return r.wanted(at)
}

// write writes the state while the lease is held and the state has the version that this runner knows. If the
// reply is lost, a read shows whether the write was applied. With guarded, the orders must be those that the
// runner knows, too.
func (r *runner) write(ctx context.Context, state Status, guarded bool) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	ops := []framework.Op{framework.SetDataOp(r.at.state(r.job.Name), data, framework.WithVersion(r.stateVersion), framework.Uncompressed())}
	if guarded {
		ops = append(ops, framework.CheckOp(r.at.orders(r.job.Name), r.ordersVersion))
	}
	var doubt error
	for {
		var results []framework.OpResult
		err := r.client.Retry(ctx, func(ctx context.Context) (err error) {
			results, err = r.lease.Transact(ctx, ops...)
			return err
		}, framework.InHistory(r.history))
		if err == nil {
			r.state, r.stateVersion = state, results[0].Stat.Version
			r.clock.learn(results[0].Stat.Mtime)
			return nil
		}
		isRefused := !framework.OutcomeUnknown(err)
		if doubt == nil && isRefused {
			return err
		}
		doubt = errors.Join(doubt, err)
		e, readErr := r.reload(ctx)
		switch {
		case readErr != nil:
			return fmt.Errorf("%w (and its outcome cannot be read: %w)", doubt, readErr)
		case e.stateVersion == r.stateVersion+1 && e.state.is(data):
			if r.state, r.stateVersion = state, e.stateVersion; r.clock.answered.IsZero() { // it may have been written long ago
				r.clock.learn(e.stateMtime)
			}
			return nil
		case e.stateVersion != r.stateVersion:
			return doubt // another client has written
		case isRefused:
			return err // and the tries before it were not applied
		}
	}
}
