// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// layout has the paths of a fleet.
type layout string

func (l layout) fleets() string           { return framework.JoinPath(string(l), "fleets") }
func (l layout) fleet(id string) string   { return framework.JoinPath(l.fleets(), id) }
func (l layout) jobs() string             { return framework.JoinPath(string(l), "jobs") }
func (l layout) orders(job string) string { return framework.JoinPath(l.jobs(), job) }
func (l layout) state(job string) string  { return framework.JoinPath(l.orders(job), "state") }
func (l layout) lock(job string) string   { return framework.JoinPath(l.orders(job), lockFolder) }

// lockFolder has the nodes of a job's lock.
const lockFolder = "lock"

func wrap(at layout, err error) error { return attempt.At("schedule", string(at), err) }

// Status is where a job stands. It is the data of the znode jobs/<name>/state, as JSON that is not compressed. Only the
// replica that has the job's lease writes it, in transactions that check the lease.
type Status struct {
	// Last is the tick up to which all are over: run, dropped or skipped.
	Last time.Time `json:"last,omitzero"`

	// Succeeded is the newest tick that has succeeded.
	Succeeded time.Time `json:"succeeded,omitzero"`

	// Next is the next tick, without Jitter. It is zero if there is none, and stays as it was while the schedule fails.
	Next time.Time `json:"next,omitzero"`

	// Runner is the replica that took the job over last, and Token the token of its lease.
	Runner string `json:"runner,omitempty"`
	Token  int64  `json:"token,omitempty"`

	// Running is the run under way, or one that was interrupted.
	Running *Run `json:"running,omitempty"`

	// Failures counts the ticks that have failed since one succeeded.
	Failures int `json:"failures,omitempty"`

	// Missed counts the ticks that CatchUp and Overlap have dropped. Of those that one outage has dropped it counts
	// about 100,000 at most, except for [Every].
	Missed int64 `json:"missed,omitempty"`

	// Ordered is the order of the last run that an operator has asked for.
	Ordered time.Time `json:"ordered,omitzero"`

	// History has the last ten runs that are over, the newest first.
	History []Run `json:"history,omitempty"`
}

// Run is the run of a tick.
type Run struct {
	Tick    time.Time `json:"tick"`
	Manual  bool      `json:"manual,omitempty"`
	Attempt int       `json:"attempt"`
	Token   int64     `json:"token"`
	Runner  string    `json:"runner"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// Late returns how long after its tick the run began, 0 for a run that an operator has asked for.
func (r Run) Late() time.Duration {
	if r.Manual {
		return 0
	}
	return r.Began.Sub(r.Tick)
}

// Took returns how long the run took, or how long it has taken until now if it is under way.
func (r Run) Took(now time.Time) time.Duration {
	if !r.Ended.IsZero() {
		now = r.Ended
	}
	return now.Sub(r.Began)
}

// Outcome is how a run has ended, empty while it is under way.
type Outcome string

// The outcomes.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"      // its function has returned an error, and is not called again
	Cancelled   Outcome = "cancelled"   // the next tick was due, see [Cancel]
	Interrupted Outcome = "interrupted" // its replica has died, or lost the lease, and it is AtMostOnce
)

const (
	maxHistory = 10
	maxError   = 200 // bytes of an error in the history
)

// over returns the status after the run under way.
func (s Status) over(outcome Outcome, failure error, now time.Time) Status {
	run := *s.Running
	run.Outcome, run.Ended = outcome, now
	if failure != nil {
		run.Error = fmt.Sprint(failure) // which survives an error that panics
		run.Error = strings.ToValidUTF8(run.Error[:min(len(run.Error), maxError)], "")
	}
	s.Running = nil
	s.History = append([]Run{run}, s.History[:min(len(s.History), maxHistory-1)]...)
	switch {
	case run.Manual:
	case outcome == Succeeded:
		s.Last, s.Succeeded, s.Failures = later(s.Last, run.Tick), run.Tick, 0
	default:
		s.Last, s.Failures = later(s.Last, run.Tick), s.Failures+1
	}
	return s
}

// is reports whether data is what this status is written as.
func (s Status) is(data []byte) bool {
	have, err := json.Marshal(s)
	return err == nil && bytes.Equal(have, data)
}

// orders is what operators have ordered for a job. It is the data of the znode jobs/<name>, as JSON.
type orders struct {
	Paused  bool      `json:"paused,omitempty"`
	Resumed int       `json:"resumed,omitempty"` // how many pauses have ended, so that none escapes a runner
	Skip    time.Time `json:"skip,omitzero"`     // ticks up to it
	Run     time.Time `json:"run,omitzero"`      // when a run was asked for
}

// entry is what the servers have of a job.
type entry struct {
	orders        orders
	ordersVersion int32
	state         Status
	stateVersion  int32
	stateMtime    int64
	stateExists   bool
}

// load reads a job. The error matches [framework.ErrNoNode] if there is no such job.
func load(ctx context.Context, client *framework.Framework, at layout, job string) (e entry, err error) {
	var data, state []byte
	var stat, stateStat framework.Stat
	var absent bool
	err = client.Pipeline(ctx,
		framework.ReadData(at.orders(job), &data, framework.StoringStatIn(&stat), framework.Undecompressed()),
		framework.ReadData(at.state(job), &state, framework.StoringStatIn(&stateStat), framework.StoringAbsenceIn(&absent), framework.Undecompressed()))
	if err != nil {
		return e, err
	}
	e.ordersVersion, e.stateVersion, e.stateMtime, e.stateExists = stat.Version, stateStat.Version, stateStat.Mtime, !absent
	if err := decode(at.orders(job), data, &e.orders); err != nil {
		return e, err
	}
	return e, decode(at.state(job), state, &e.state)
}

func decode(path string, data []byte, to any) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: the data is not what this package writes: %w", path, err)
	}
	return nil
}
