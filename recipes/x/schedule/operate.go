// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Entry is a job as operators see it.
type Entry struct {
	Name   string    `json:"name"`
	Paused bool      `json:"paused,omitempty"`
	Skip   time.Time `json:"skip,omitzero"` // ticks up to it are skipped

	// Known says that a live replica has the job, or is about to take it over. Runner is empty without it.
	Known bool `json:"known"`

	// Problem is why the znodes of the job could not be read, empty if they could.
	Problem string `json:"problem,omitempty"`

	Status
}

// Runs returns the run under way, if there is one, and the last runs, the newest first.
func (e Entry) Runs() []Run {
	if e.Running == nil {
		return e.History
	}
	return append([]Run{*e.Running}, e.History...)
}

// Describe describes the job in a word or two.
func (e Entry) Describe() string {
	switch {
	case e.Problem != "":
		return e.Problem
	case !e.Known:
		return "no replica has it"
	case e.Running != nil:
		return "running"
	case e.Paused:
		return "paused"
	case e.Failures > 0:
		return "failing"
	default:
		return "waiting"
	}
}

// listedAtOnce is how many jobs are read together.
const listedAtOnce = 128

// List returns the jobs of the fleet at path, by name. It takes three requests for each job, in pipelines. A job whose
// znodes cannot be read has a Problem, and concerns no other job. The error matches [framework.ErrNoNode] when there is no fleet.
func List(ctx context.Context, client *framework.Framework, path string) ([]Entry, error) {
	at := layout(path)
	if err := attempt.CheckCall(ctx, client, path); err != nil {
		return nil, wrap(at, err)
	}
	names, err := client.Children(ctx, at.jobs())
	if err != nil {
		return nil, wrap(at, err)
	}
	slices.Sort(names)
	list := make([]Entry, 0, len(names))
	for len(names) > 0 {
		n := min(len(names), listedAtOnce)
		some, err := listSome(ctx, client, at, names[:n])
		if err != nil {
			return nil, wrap(at, err)
		}
		list, names = append(list, some...), names[n:]
	}
	return list, nil
}

func listSome(ctx context.Context, client *framework.Framework, at layout, names []string) ([]Entry, error) {
	type job struct {
		orders, state    []byte
		lock             *framework.Stat
		ordersErr, stErr error
	}
	jobs, reads := make([]job, len(names)), make([]framework.Read, 0, 3*len(names))
	for i, name := range names {
		j := &jobs[i]
		reads = append(reads,
			framework.ReadData(at.orders(name), &j.orders, framework.Undecompressed()).StoringErrorIn(&j.ordersErr),
			framework.ReadData(at.state(name), &j.state, framework.Undecompressed()).StoringErrorIn(&j.stErr),
			framework.ReadStat(at.lock(name), &j.lock))
	}
	if err := client.Pipeline(ctx, reads...); err != nil {
		return nil, err
	}
	list := make([]Entry, len(names))
	for i, name := range names {
		j, e, o := &jobs[i], &list[i], orders{}
		e.Name, e.Known = name, j.lock != nil && j.lock.NumChildren > 0
		for _, err := range []error{j.ordersErr, j.stErr, decode(at.orders(name), j.orders, &o), decode(at.state(name), j.state, &e.Status)} {
			if err != nil && !errors.Is(err, framework.ErrNoNode) {
				e.Problem = err.Error()
			}
		}
		e.Paused, e.Skip = o.Paused, o.Skip
		if !e.Known {
			e.Runner = ""
		}
	}
	return list, nil
}

// Pause pauses a job: when it returns, no run begins, except one that [RunNow] asks for. A run under way goes on.
// When there is no such job, the error matches [framework.ErrNoNode] and names those that there are, as for the calls below.
func Pause(ctx context.Context, client *framework.Framework, path, job string) error {
	return order(ctx, client, path, job, func(o *orders, _ Status, _ int64) error {
		o.Paused = true
		return nil
	})
}

// Resume ends the pause of a job. CatchUp of the job says which of the ticks are run that were due meanwhile.
func Resume(ctx context.Context, client *framework.Framework, path, job string) error {
	return order(ctx, client, path, job, func(o *orders, _ Status, _ int64) error {
		if o.Paused {
			o.Paused = false
			o.Resumed++
		}
		return nil
	})
}

// SkipNext skips the next tick of a job, and returns it. A run that has begun is not skipped. When two calls follow each other
// at once, before the job's replica has heard of the first, both skip the same tick.
func SkipNext(ctx context.Context, client *framework.Framework, path, job string) (tick time.Time, err error) {
	err = order(ctx, client, path, job, func(o *orders, s Status, _ int64) error {
		if !tick.IsZero() && !tick.After(o.Skip) {
			return nil // the write whose reply was lost, or another call, has skipped it; the next tick may be another one by now
		}
		if tick = s.Next; tick.IsZero() {
			return errors.New("the job has no next tick")
		}
		if tick.After(o.Skip) {
			o.Skip = tick
		}
		return nil
	})
	return tick, err
}

// RunNow asks for a run of a job at once, also when the job is paused. The run begins when no other one of the job is
// under way. Its tick is not one of the schedule. Calls before the run begins ask for one run together. So do calls
// that overlap.
func RunNow(ctx context.Context, client *framework.Framework, path, job string) error {
	now := time.Now().UTC()
	var known int64
	var before time.Time // what was ordered before this call
	return order(ctx, client, path, job, func(o *orders, _ Status, history int64) error {
		switch {
		case history != known: // in another one, another order means nothing
			known, before = history, o.Run
		case !o.Run.Equal(before):
			return nil // the write whose reply was lost, or another call, has asked for a run since
		}
		o.Run = now
		return nil
	})
}

// namedJobs bounds how many jobs an error names.
const namedJobs = 20

// noJob returns the error for a job that is not in the fleet. It names those that are.
func noJob(ctx context.Context, client *framework.Framework, at layout, job string) error {
	names, err := client.Children(ctx, at.jobs())
	if err != nil {
		return err
	}
	slices.Sort(names)
	if more := len(names) - namedJobs; more > 0 {
		names = append(names[:namedJobs:namedJobs], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("no job %q, the fleet has: %s: %w", job, strings.Join(names, ", "), framework.ErrNoNode)
}

// order changes the orders for a job. An order may be written twice, so a lost reply does no harm. change gets what was
// read, and in which history.
func order(ctx context.Context, client *framework.Framework, path, job string, change func(*orders, Status, int64) error) error {
	at := layout(path)
	if err := attempt.CheckCall(ctx, client, path); err != nil {
		return wrap(at, err)
	}
	if job == "" || strings.Contains(job, "/") {
		return wrap(at, fmt.Errorf("job %q, expected the name of a job, without a slash", job))
	}
	for again := true; again; {
		var err error
		if again, err = orderOnce(ctx, client, at, job, change); err != nil {
			return wrap(at, err)
		}
	}
	return nil
}

// orderOnce reads what is ordered, and writes what change makes of it. With again it has not, or does not know it.
func orderOnce(
	ctx context.Context, client *framework.Framework, at layout, job string, change func(*orders, Status, int64) error,
) (again bool, err error) {
	history := client.History()
	// At a server that lags the write would be refused again and again.
	if err := client.Sync(ctx, at.orders(job)); err != nil {
		return false, err
	}
	e, err := load(ctx, client, at, job)
	switch {
	case errors.Is(err, framework.ErrNoNode), err == nil && !e.stateExists: // no replica has taken it over yet
		return false, noJob(ctx, client, at, job)
	case err != nil:
		return false, err
	case client.History() != history:
		return true, nil // the read may be of either
	}
	next := e.orders
	if err := change(&next, e.state, history); err != nil {
		return false, fmt.Errorf("job %q: %w", job, err)
	}
	isGiven := next.Paused == e.orders.Paused && next.Skip.Equal(e.orders.Skip) && next.Run.Equal(e.orders.Run)
	data, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	err = client.Retry(ctx, func(ctx context.Context) error {
		if isGiven { // a leader that is cut off answers a sync, and shows what was ordered before; a check needs the others
			_, err := client.Transact(ctx, framework.CheckOp(at.orders(job), e.ordersVersion))
			return err
		}
		if next.Skip.Equal(e.orders.Skip) { // the order does not depend on the state
			return client.Set(ctx, at.orders(job), data, framework.WithVersion(e.ordersVersion), framework.Uncompressed())
		}
		_, err := client.Transact(ctx, framework.CheckOp(at.state(job), e.stateVersion), // the tick may have begun since the state was read
			framework.SetDataOp(at.orders(job), data, framework.WithVersion(e.ordersVersion), framework.Uncompressed()))
		return err
	}, framework.InHistory(history))
	if framework.OutcomeUnknown(err) || attempt.Overtaken(err) || attempt.NotSent(err) {
		return true, nil // a read shows what is ordered now
	}
	return false, err
}
