// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"New": "it makes no request",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), map[string]string{}) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

// due is the schedule with one tick.
type due time.Time

func (d due) Next(t time.Time) time.Time {
	if t.Before(time.Time(d)) {
		return time.Time(d)
	}
	return time.Time{}
}

// start runs a replica of a new fleet, which wants to run a job that was due before.
func start(b *hardship.Background) *hardship.Running {
	path := b.NextPath()
	must.Get(b.Theirs.Create(context.Background(), path+"/jobs/job/state", []byte(`{"last":"1999-12-31T00:00:00Z","next":"2000-01-01T00:00:00Z"}`), framework.CreatingParentsIfNeeded()))(b.T)
	return b.Start(func(ctx context.Context, ready func()) error {
		s, err := schedule.New(b.Ours, path, schedule.Job{
			Name: "job", Schedule: due(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
			Run: func(context.Context, schedule.Tick) error {
				ready()
				return nil
			},
		})
		if err != nil {
			return err
		}
		return s.Run(ctx)
	})
}

// operating looks at a job without a replica, or orders something.
func operating(name string, call func(ctx context.Context, client *framework.Framework, path string) error) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{name}, Requests: 4, Spares: 1, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			state := []byte(`{"last":"1999-12-31T00:00:00Z","next":"2000-01-01T00:00:00Z"}`)
			must.Get(s.Theirs.Create(context.Background(), s.Path+"/jobs/job/state", state, framework.CreatingParentsIfNeeded()))(s.T)
			return func(ctx context.Context) error { return call(ctx, s.Ours, s.Path) }
		},
	}
}

// pending lets a Run return before the server has confirmed that its member is gone.
func pending(err error) bool { return errors.Is(err, framework.ErrCleanupPending) }

func hardshipCalls() []hardship.Call {
	return []hardship.Call{
		{Name: "Run: a tick", Of: []string{"Scheduler.Run"}, Requests: 39, Spares: 8, Prepare: hardship.Begins(start), Heap: 256 << 10},
		operating("List", func(ctx context.Context, client *framework.Framework, path string) error {
			list, err := schedule.List(ctx, client, path)
			if err == nil && len(list) != 1 {
				return fmt.Errorf("%v, expected one job", list)
			}
			return err
		}),
		operating("Pause", func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.Pause(ctx, client, path, "job")
		}),
		operating("Resume", func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.Resume(ctx, client, path, "job")
		}),
		operating("SkipNext", func(ctx context.Context, client *framework.Framework, path string) error {
			_, err := schedule.SkipNext(ctx, client, path, "job")
			return err
		}),
		operating("RunNow", func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.RunNow(ctx, client, path, "job")
		}),
		{Name: "Run: leave", Of: []string{"Scheduler.Run"}, Requests: 17, Spares: 3, Prepare: hardship.Ends(start, time.Second), May: pending},
	}
}
