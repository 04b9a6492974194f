// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	// Known says that a live replica has the job, or is about to take it over.
	Known bool `json:"known"`

	Status
}

// Describe describes the job in a word or two.
func (e Entry) Describe() string {
	switch {
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

// List returns the jobs of the fleet at path, by name. It takes three requests for each job, in pipelines. The
// error matches [framework.ErrNoNode] when there is no fleet.
func List(ctx context.Context, client *framework.Framework, path string) ([]Entry, error) {
	at := layout(path)
	if err := usable(ctx, client); err != nil {
		return nil, wrap(at, err)
	}
	names, err := client.Children(ctx, at.jobs())
	if err != nil {
		return nil, wrap(at, err)
	}
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
	data, states, locks := make([][]byte, len(names)), make([][]byte, len(names)), make([]*framework.Stat, len(names))
	var noOrders, noState bool
	var reads []framework.Read
	for i, name := range names {
		reads = append(reads,
			framework.ReadData(at.orders(name), &data[i], framework.StoringAbsenceIn(&noOrders), framework.Undecompressed()),
			framework.ReadData(at.state(name), &states[i], framework.StoringAbsenceIn(&noState), framework.Undecompressed()),
			framework.ReadStat(at.lock(name), &locks[i]))
	}
	if err := client.Pipeline(ctx, reads...); err != nil {
		return nil, err
	}
	var list []Entry
	for i, name := range names {
		var o orders
		e := Entry{Name: name, Known: locks[i] != nil && locks[i].NumChildren > 0}
		if err := errors.Join(decode(client, at.orders(name), data[i], &o), decode(client, at.state(name), states[i], &e.Status)); err != nil {
			return nil, err
		}
		e.Paused, e.Skip = o.Paused, o.Skip
		list = append(list, e)
	}
	return list, nil
}

// Pause pauses a job: when it returns, no run begins, except one that [RunNow] asks for. A run under way goes on.
// The error matches [framework.ErrNoNode] when there is no such job, as for the calls below.
func Pause(ctx context.Context, client *framework.Framework, path, job string) error {
	return order(ctx, client, path, job, func(o *orders, _ Status) error {
		o.Paused = true
		return nil
	})
}

// Resume ends the pause of a job. CatchUp of the job says which of the ticks are run that were due meanwhile.
func Resume(ctx context.Context, client *framework.Framework, path, job string) error {
	return order(ctx, client, path, job, func(o *orders, _ Status) error {
		o.Paused = false
		return nil
	})
}

// SkipNext skips the next tick of a job, and returns it. A run that has begun is not skipped. When two calls follow each other
// at once, before the job's replica has heard of the first, both skip the same tick.
func SkipNext(ctx context.Context, client *framework.Framework, path, job string) (tick time.Time, err error) {
	return tick, order(ctx, client, path, job, func(o *orders, s Status) error {
		if tick = s.Next; tick.IsZero() {
			return errors.New("the job has no next tick")
		}
		if tick.After(o.Skip) {
			o.Skip = tick
		}
		return nil
	})
}

// RunNow asks for a run of a job at once, also when the job is paused. The run begins when no other one of the job is
// under way. Its tick is not one of the schedule. Calls before the run begins ask for one run together.
func RunNow(ctx context.Context, client *framework.Framework, path, job string) error {
	now := time.Now().UTC()
	return order(ctx, client, path, job, func(o *orders, _ Status) error {
		o.Run = now
		return nil
	})
}

func usable(ctx context.Context, client *framework.Framework) error {
	switch {
	case ctx == nil:
		return attempt.ErrNilContext
	case client == nil:
		return errors.New("client nil, expected a framework client")
	default:
		return nil
	}
}

// order changes the orders for a job. An order may be written twice, so a lost reply does no harm.
func order(ctx context.Context, client *framework.Framework, path, job string, change func(*orders, Status) error) error {
	at := layout(path)
	if err := usable(ctx, client); err != nil {
		return wrap(at, err)
	}
	if job == "" || strings.Contains(job, "/") {
		return wrap(at, fmt.Errorf("job %q, expected the name of a job, without a slash", job))
	}
	for {
		history := client.History()
		e, err := load(ctx, client, at, job)
		switch {
		case err != nil:
			return wrap(at, err)
		case !e.stateExists:
			return wrap(at, fmt.Errorf("job %q: %w", job, framework.ErrNoNode))
		}
		wanted := e.orders
		if err := change(&wanted, e.state); err != nil {
			return wrap(at, fmt.Errorf("job %q: %w", job, err))
		}
		if wanted.Paused == e.orders.Paused && wanted.Skip.Equal(e.orders.Skip) && wanted.Run.Equal(e.orders.Run) {
			return nil
		}
		data, err := json.Marshal(wanted)
		if err == nil {
			err = client.Retry(ctx, func(ctx context.Context) error {
				return client.Set(ctx, at.orders(job), data, framework.WithVersion(e.ordersVersion))
			}, framework.InHistory(history))
		}
		switch {
		case err == nil:
			return nil
		case !framework.OutcomeUnknown(err) && !attempt.Overtaken(err) && !attempt.NotSent(err):
			return wrap(at, err)
		}
	}
}
