// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
)

var (
	// ErrOverlap is the cause with which the context of a run ends when the next tick is due: see [Cancel].
	ErrOverlap = errors.New("the next tick of the job is due")

	// ErrDeadline is the cause with which the context of a run ends at its Deadline.
	ErrDeadline = fmt.Errorf("the run has reached its deadline: %w", context.DeadlineExceeded)
)

// overdueAfter is how long a run may go on, after its job was given to another replica, before the
// log says so.
const overdueAfter = time.Hour

// Scheduler is a replica that runs jobs on a schedule. Each tick of a job runs in one of the
// replicas.
//
// Layout, below the path of the fleet:
//
//	fleets/<id>/...       a group of package partition, for the replicas with the same jobs
//	jobs/<name>           what operators have ordered, as JSON
//	jobs/<name>/state     the [Status], as JSON
//	jobs/<name>/lock/...  the lease of the job, a [locks.InterProcessMutex]
//
// It is safe for concurrent use.
type Scheduler struct {
	client    *framework.Framework
	at        layout
	groups    []group
	lists     *lists
	telemetry telemetry
	wall      func() time.Time // the clock of the process
}

// group is a set of jobs that the replicas divide.
type group struct {
	member  *partition.Member
	job     func(name string) *Job
	each    string   // "" for the Jobs
	earlier []string // what New was given before
}

// New returns a replica of the fleet at path with these jobs. It checks its arguments and sends
// nothing.
func New(client *framework.Framework, path string, jobs ...Job) (*Scheduler, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	s := &Scheduler{client: client, at: layout(path), lists: newLists(jobs), wall: time.Now}
	if err := s.divide(jobs); err != nil {
		return nil, wrap(s.at, err)
	}
	var err error
	if s.telemetry, err = newTelemetry(client, path); err != nil {
		return nil, wrap(s.at, err)
	}
	return s, nil
}

// divide makes the groups. Replicas with other jobs, as of another release, are another group, which
// waits for the same leases. So a job that both know has one runner, and no replica is given a job
// that it does not know.
func (s *Scheduler) divide(jobs []Job) error {
	named := make(map[string]*Job)
	var names, each []string
	for _, job := range jobs {
		if err := job.check(); err != nil {
			return err
		}
		if job.Each != "" {
			if slices.Contains(each, job.Each) {
				return fmt.Errorf("two jobs of each of %s, expected one", job.Each)
			}
			one := func(name string) *Job {
				named := job
				named.Name = name
				return &named
			}
			g := group{job: one, each: job.Each, earlier: slices.Clone(each)}
			if err := s.add("each\n"+job.Each, partition.Stored(job.Each), g); err != nil {
				return err
			}
			each = append(each, job.Each)
			continue
		}
		if named[job.Name] != nil {
			return fmt.Errorf("two jobs %q, expected a name for each", job.Name)
		}
		named[job.Name] = &job
		names = append(names, job.Name)
	}
	switch {
	case len(jobs) == 0:
		return errors.New("no jobs, expected at least one")
	case len(names) == 0:
		return nil
	}
	slices.Sort(names)
	return s.add("names\n"+strings.Join(names, "\n"), partition.Fixed(names...), group{job: func(name string) *Job { return named[name] }})
}

func (s *Scheduler) add(set string, names partition.Names, g group) (err error) {
	hash := sha256.Sum256([]byte(set))
	g.member, err = partition.New(s.client, s.at.fleet(hex.EncodeToString(hash[:8])), names, partition.WithGrace(overdueAfter),
		partition.WithLockOptions(s.keep()))
	if err == nil {
		s.groups = append(s.groups, g)
	}
	return err
}

// keep is the error policy of the leases. A lost connection alone ends no run, because every write of a run is
// checked by the servers, and a run that ends is run again.
func (s *Scheduler) keep() locks.Option {
	return locks.WithErrorPolicy(max(s.client.ErrorPolicy(), framework.SessionErrorPolicy))
}

// Run joins the fleet and runs the jobs that this replica gets, until ctx ends. Then it waits for the
// runs under way, or ends their contexts, as GiveUp of each job says, and leaves. It returns the
// error of ctx.
//
// Run goes on over lost connections and sessions. It ends when the client is closed, and for the
// other reasons for which [partition.Member.Run] ends. A Scheduler runs once at a time, otherwise Run
// fails with [partition.ErrRunning].
func (s *Scheduler) Run(ctx context.Context) error {
	if ctx == nil {
		return wrap(s.at, attempt.ErrNilContext)
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(s.groups))
	var all sync.WaitGroup
	all.Go(func() { s.forgetOthers(running) })
	for i, g := range s.groups {
		if i+1 < len(s.groups) && s.groups[i+1].each != "" { // of which a later one may have the names
			all.Go(func() { s.lists.follow(running, s.client, g.each) })
		}
		all.Go(func() {
			defer cancel() // without one group the fleet is not whole
			errs[i] = g.member.Run(running, func(ctx context.Context, p partition.Partition) error {
				if g.each != "" {
					return s.runFirst(ctx, g, p.Name)
				}
				return s.runJob(ctx, g.job(p.Name), g.member.ID())
			})
		})
	}
	all.Wait()
	return wrap(s.at, errors.Join(errs...))
}

// forgetOthers deletes the plans of the groups of other releases that have no replica any more. Replicas that were killed
// leave such plans behind, and only the next replica of that release would use them.
func (s *Scheduler) forgetOthers(ctx context.Context) {
	err := attempt.Guard(s.client, func() error {
		ids, err := s.client.Children(ctx, s.at.fleets())
		for _, id := range ids {
			isOurs := func(g group) bool { return g.member.Path() == s.at.fleet(id) }
			if !slices.ContainsFunc(s.groups, isOurs) {
				err = errors.Join(err, partition.Forget(ctx, s.client, s.at.fleet(id)))
			}
		}
		return err
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, framework.ErrNoNode) && attempt.Ended(s.client) == nil {
		s.client.Logger().Warn("plans of other releases were left behind", logPath, string(s.at), "error", err) // until a replica starts
	}
}

// errElsewhere is the cause with which a job ends because an earlier job of the Scheduler has its name by now.
var errElsewhere = errors.New("an earlier job has the name")

// runFirst runs the job of an Each while no earlier job has its name.
func (s *Scheduler) runFirst(ctx context.Context, g group, name string) error {
	for ctx.Err() == nil {
		other, known, changed := s.lists.before(name, g.earlier)
		if other != "" {
			if known {
				s.client.Logger().Error("two jobs have one name, and only the first is run", logPath, string(s.at), "job", name, "first", other, "second", g.each)
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := s.runWhileFirst(ctx, g, name, changed); !errors.Is(err, errElsewhere) {
			return err
		}
	}
	return context.Cause(ctx)
}

func (s *Scheduler) runWhileFirst(ctx context.Context, g group, name string, changed <-chan struct{}) error {
	running, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		for {
			select {
			case <-changed:
			case <-running.Done():
				return
			}
			var other string
			if other, _, changed = s.lists.before(name, g.earlier); other != "" {
				cancel(errElsewhere)
			}
		}
	})
	return s.runJob(running, g.job(name), g.member.ID())
}

// runJob runs a job for as long as this replica has it.
func (s *Scheduler) runJob(ctx context.Context, job *Job, id string) (err error) {
	lock, err := locks.NewInterProcessMutex(s.client, s.at.lock(job.Name),
		locks.WithRecipeName("schedule"), locks.WithLabel(id), locks.WithoutReentry(), s.keep())
	if err != nil {
		return err
	}
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	r := &runner{
		Scheduler: s, job: job, id: id, lease: lease, moves: ctx, held: lease.Context(context.WithoutCancel(ctx)),
		seen: make(chan int32, 1), clock: clock{wall: s.wall},
	}
	// A panic of the schedule passes through, and the lease must not stay.
	defer func() {
		// That the lease was lost is no failure of its release.
		if failed := lease.Release(context.WithoutCancel(ctx)); !errors.As(failed, new(*locks.LostError)) {
			err = errors.Join(err, failed)
		}
	}()
	return r.runTicks()
}
