// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	cron "github.com/gocurator/curator/recipes/schedule"
)

const (
	onceATick    promise = "twice"        // no tick succeeds twice, and no two replicas run a job at one time
	noTickLost   promise = "lost"         // each tick of the time in which a job was there has succeeded
	ticksInOrder promise = "out_of_order" // one after the other
)

// scheduleWorkloads are the recipe of package schedule. Its leases have the same policy whatever the policy of their client.
var scheduleWorkloads = []workload{
	{
		name: "schedule", workers: 1, policies: []framework.ErrorPolicy{framework.SessionErrorPolicy}, least: 60, folders: scheduleFolders,
		promises: []promise{onceATick, noTickLost, ticksInOrder}, calls: map[promise]promise{noOverlap: onceATick},
		findAtServers: wrongTicks, prepare: prepareSchedule,
	},
}

const (
	jobEvery = time.Second
	replica  = 6 * time.Second // of a turn, at most
)

var jobNames = []string{"j0", "j1", "j2"}

func jobPath(s lockSpec, job string) string { return s.path() + "/jobs/" + job }

func scheduleFolders(s lockSpec) (folders []string) {
	for _, job := range jobNames {
		folders = append(folders, jobPath(s, job)+"/lock")
	}
	return folders
}

// prepareSchedule is a replica for a while in each turn. Each client has the jobs.
func prepareSchedule(w *worker) (func(context.Context), error) {
	var mu sync.Mutex // guards the turns of the worker
	return func(ctx context.Context) {
		began := monotonic()
		var jobs []cron.Job
		for _, name := range jobNames {
			jobs = append(jobs, cron.Job{
				Name: name, Schedule: cron.Every(jobEvery), Overlap: cron.Queue(1_000_000),
				Run: func(ctx context.Context, _ cron.Tick) error {
					mu.Lock()
					c := w.call(w.spec.Name+"#"+name, "", false)
					length := w.upTo(middleHold)
					mu.Unlock()
					c.asked = began
					w.runJob(ctx, c, length)
					return nil
				},
			})
		}
		s, err := cron.New(w.client.framework, w.spec.path(), jobs...)
		if err != nil {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		length := w.upTo(replica) // before the jobs draw theirs
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if w.last {
			w.awaitTicks(ctx)
		} else {
			w.pause(length)
		}
		cancel()
		if err := <-ended; w.last && !errors.Is(err, context.Canceled) {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
	}, nil
}

// runJob looks at the lease of a job for as long as its function takes.
func (w *worker) runJob(ctx context.Context, c call, length time.Duration) {
	at, lease := monotonic(), locks.LeaseFrom(ctx)
	if err := lease.Err(); err != nil {
		c.ended(at, err)
		return
	}
	h := c.granted(at, 0, c.lock, lease)
	for end := time.After(length); h.valid(); {
		select {
		case <-end:
			h.record(event{Kind: releasing, LastValid: h.lastValid})
			h.over = true
		case <-time.After(lookEveryLong):
		}
	}
}

// awaitTicks waits until each job has succeeded for a tick after the call.
func (w *worker) awaitTicks(ctx context.Context) {
	began := time.Now()
	wrong := await(ctx, func(ctx context.Context) error {
		all, err := cron.List(ctx, w.client.framework, w.spec.path())
		if err != nil {
			return err
		}
		return behind(all, began)
	})
	if wrong != nil {
		w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, wrong))
	}
}

// behind says which jobs have not succeeded since a time.
func behind(all []cron.Entry, since time.Time) error {
	if len(all) != len(jobNames) {
		return fmt.Errorf("%d jobs, expected %d", len(all), len(jobNames))
	}
	for _, job := range all {
		if !job.Succeeded.After(since) {
			return fmt.Errorf("the last tick of %s that has succeeded is %v", job.Name, job.Succeeded)
		}
	}
	return nil
}

// wrongTicks finds ticks that the histories of the jobs have twice, in another order, or not at all. The state of a job has its last runs,
// and its znode is written at the end of each. What a restore has undone is not in the log.
func wrongTicks(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	for _, job := range jobNames {
		var last time.Time // the tick up to which all were in order
		twice := make(map[time.Time]bool)
		for _, w := range r.log.writes[jobPath(spec, job)+"/state"] {
			broken := func(p promise, format string, args ...any) {
				at := w.time*int64(time.Millisecond) - r.record.WallOffset
				found = append(found, violation{promise: p, round: r, at: at, what: spec.Name + ": " + job + ": " + fmt.Sprintf(format, args...)})
			}
			var state cron.Status
			switch {
			case w.deleted:
				broken(noTickLost, "the state was deleted")
				continue
			case w.data == "" || json.Unmarshal([]byte(w.data), &state) != nil || state.Last.IsZero():
				continue // the ticks have not begun
			}
			succeeded := make(map[time.Time]bool)
			for _, run := range state.History {
				if succeeded[run.Tick] && !twice[run.Tick] {
					twice[run.Tick] = true
					broken(onceATick, "%v has succeeded twice", run.Tick)
				}
				succeeded[run.Tick] = run.Outcome == cron.Succeeded
			}
			switch {
			case last.IsZero(), state.Last.Equal(last):
			case state.Last.Before(last):
				broken(ticksInOrder, "%v is over after %v", state.Last, last)
			case !succeeded[state.Last] || !state.Last.Equal(cron.Every(jobEvery).Next(last)):
				broken(noTickLost, "%v is over after %v, and has succeeded: %v", state.Last, last, succeeded[state.Last])
			}
			last = state.Last
		}
	}
	return found
}
