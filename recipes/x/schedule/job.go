// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/retry"
)

// Job is a function that is due at the ticks of a schedule.
type Job struct {
	// Name names the job in the fleet. A znode must be able to have it, and it has no slash.
	Name string

	// Each is, instead of a Name, the path of a znode with a name on each line. Each name is a job
	// with this schedule and this function. The replicas follow the znode. A name that also is the Name of a Job, or
	// that stands in the znode of an earlier Each, is not run by this one, which the log says as an error.
	Each string

	Schedule Schedule

	// Run is called for each tick. Its context ends with the lease of the job, with the Deadline,
	// and as Overlap and GiveUp say. [locks.LeaseFrom] returns the lease, whose Transact writes to
	// ZooKeeper while the lease is held. A panic counts as an error. After the end of its context the
	// function should return soon. Nothing else of the job happens before it returns.
	Run func(ctx context.Context, tick Tick) error

	// CatchUp says which ticks are run late. They were due while no replica had the job, or while the
	// job was paused, or waited when the pause began. The zero value runs all of them, in order. Ticks that
	// come meanwhile are run late, too, until a run takes longer than the interval.
	CatchUp CatchUp

	// Overlap says what becomes of a tick that is due while the job runs: [Skip], which is the
	// zero value, [Queue] or [Cancel].
	Overlap Overlap

	// AtMostOnce has a tick begin at most once, and a run that an operator asks for. A run that the death of its
	// replica or the loss of its lease interrupts counts as failed. Without it another replica runs the tick again.
	AtMostOnce bool

	// GiveUp ends the context of a run when the job moves to another replica, or when the context of
	// Run of the Scheduler ends. The next replica runs the tick again, unless it is AtMostOnce. Without
	// it the run is waited for, until its function returns; what is to be repeated then, the next replica repeats.
	GiveUp bool

	// Retry decides how often a run that has failed is repeated within its tick. Nil is never.
	Retry retry.Policy

	// Deadline bounds a run with its repetitions. 0 is no bound.
	Deadline time.Duration

	// Jitter delays the runs of a job by a part of this time, which depends on the name and the tick.
	Jitter time.Duration
}

// Tick is one call of a job's function.
type Tick struct {
	Job  string
	Time time.Time // for which the run was scheduled, or when an operator asked for it; in UTC

	// Attempt is 1 for the first run of the tick. It counts those that failed, and those whose
	// replica has died.
	Attempt int

	// Token is the fencing token of the job's lease. It rises whenever another replica takes the
	// job over.
	Token int64

	// Manual says that an operator has asked for the run.
	Manual bool
}

// CatchUp says which of the ticks are run that nothing could run in time.
type CatchUp struct {
	Ticks Ticks

	// Window drops ticks that are older. 0 is no bound.
	Window time.Duration
}

// Ticks is a number of ticks.
type Ticks int

// The values of Ticks.
const (
	All  Ticks = iota // every tick, in order
	Last              // the newest tick only
	None              // no tick
)

// Overlap says what becomes of ticks that are due while the job runs.
type Overlap int

const (
	// Skip drops them.
	Skip Overlap = 0

	// Cancel ends the context of the run with [ErrOverlap]. When the function has returned, the newest
	// of the ticks is run.
	Cancel Overlap = math.MinInt // no Queue
)

// Queue runs the newest n of them, in order, after the run.
func Queue(n int) Overlap { return max(Overlap(n), Cancel+1) }

func (o Overlap) keeps() int {
	if o == Cancel {
		return 1
	}
	return int(o)
}

func (c CatchUp) keeps() int {
	return map[Ticks]int{All: math.MaxInt, Last: 1, None: 0}[c.Ticks]
}

func (j *Job) check() error {
	named := fmt.Sprintf("job %q", j.Name)
	switch {
	case j.Name == "" && j.Each == "":
		return errors.New("job without a name, expected a Name, or in Each the path of a znode with names")
	case j.Name != "" && j.Each != "":
		return fmt.Errorf("%s with Each %q, expected one of them", named, j.Each)
	case j.Each != "":
		named = "job of each of " + j.Each
		if err := framework.ValidatePath(j.Each); err != nil {
			return fmt.Errorf("%s: %w", named, err)
		}
	case strings.Contains(j.Name, "/") || framework.ValidatePath("/"+j.Name) != nil:
		return fmt.Errorf("%s, expected a name that a znode can have, without a slash", named)
	}
	if err := j.checkPolicies(); err != nil {
		return fmt.Errorf("%s: %w", named, err)
	}
	return nil
}

func (j *Job) checkPolicies() error {
	if err := checkSchedule(j.Schedule); err != nil {
		return err
	}
	if err := retry.Validate(j.Retry); err != nil {
		return err
	}
	switch {
	case j.Run == nil:
		return errors.New("function nil, expected what to run")
	case j.CatchUp.Ticks < All || j.CatchUp.Ticks > None:
		return fmt.Errorf("catch-up of Ticks(%d), expected All, Last or None", j.CatchUp.Ticks)
	case j.CatchUp.Window < 0:
		return fmt.Errorf("catch-up window %v, expected 0 or more", j.CatchUp.Window)
	case j.Overlap < Skip && j.Overlap != Cancel:
		return fmt.Errorf("overlap %d, expected Skip, Cancel, or Queue of 0 or more", j.Overlap)
	case j.Deadline < 0:
		return fmt.Errorf("deadline %v, expected 0 or more", j.Deadline)
	case j.Jitter < 0:
		return fmt.Errorf("jitter %v, expected 0 or more", j.Jitter)
	case j.AtMostOnce && j.Retry != nil:
		return errors.New("AtMostOnce with a Retry policy, expected one of them")
	default:
		return nil
	}
}

func checkSchedule(s Schedule) error {
	if options.IsNil(s) {
		return errors.New("schedule nil, expected one such as Every(time.Minute)")
	}
	if c, ok := s.(interface{ check() error }); ok { // one of this package
		return c.check()
	}
	return nil
}

// delay returns the jitter of a tick. All replicas get the same, so a take-over does not move the run.
func (j *Job) delay(tick time.Time) time.Duration {
	if j.Jitter == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, j.Name, tick.Format(time.RFC3339Nano)) // a hash returns no error
	return time.Duration(h.Sum64() % uint64(j.Jitter))
}
