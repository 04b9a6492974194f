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
//	jobs/<name>/lock/...  the lease of the job, which is the lock of a partition in each group
//
// It is safe for concurrent use.
type Scheduler struct {
	client    *framework.Framework
	at        layout
	groups    []group
	telemetry telemetry
	wall      func() time.Time // the clock of the process
}

// group is a set of jobs that the replicas divide.
type group struct {
	member *partition.Member
	job    func(name string) *Job
}

// New returns a replica of the fleet at path with these jobs. It checks its arguments and sends
// nothing.
func New(client *framework.Framework, path string, jobs ...Job) (*Scheduler, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	s := &Scheduler{client: client, at: layout(path), wall: time.Now}
	if err := s.divide(jobs); err != nil {
		return nil, wrap(s.at, err)
	}
	var err error
	if s.telemetry, err = newTelemetry(client, path); err != nil {
		return nil, wrap(s.at, err)
	}
	return s, nil
}

// divide makes the groups. Replicas with other jobs, as of another release, are another group, which waits for
// the same leases. So a job that both know has one runner, and no replica is given a job that it does not know.
func (s *Scheduler) divide(jobs []Job) error {
	named := make(map[string]*Job)
	var names []string
	var lists []*Job
	for _, job := range jobs {
		switch err := job.check(); {
		case err != nil:
			return err
		case job.Each != "" && slices.ContainsFunc(lists, func(other *Job) bool { return other.Each == job.Each }):
			return fmt.Errorf("two jobs of each of %s, expected one", job.Each)
		case job.Each != "":
			lists = append(lists, &job)
		case named[job.Name] != nil:
			return fmt.Errorf("two jobs %q, expected a name for each", job.Name)
		default:
			named[job.Name], names = &job, append(names, job.Name)
		}
	}
	if len(jobs) == 0 {
		return errors.New("no jobs, expected at least one")
	}
	var set string // what the group divides, and what it leaves to groups before it: jobs with one name have one state
	var before []partition.Names
	if len(names) > 0 {
		slices.Sort(names)
		set, before = "names\n"+strings.Join(names, "\n"), []partition.Names{partition.Fixed(names...)}
		if err := s.add(set, before[0], func(name string) *Job { return named[name] }); err != nil {
			return err
		}
	}
	for _, job := range lists {
		set += "\neach\n" + job.Each
		list := partition.Stored(job.Each)
		err := s.add(set, partition.Without(list, before...), func(name string) *Job {
			one := *job
			one.Name = name
			return &one
		})
		if err != nil {
			return err
		}
		before = append(before, list)
	}
	return nil
}

func (s *Scheduler) add(set string, names partition.Names, job func(name string) *Job) error {
	hash := sha256.Sum256([]byte(set))
	member, err := partition.New(s.client, s.at.fleet(hex.EncodeToString(hash[:8])), names, partition.WithGrace(overdueAfter),
		partition.WithLocks(s.at.jobs(), lockFolder), partition.WithLockOptions(locks.WithRecipeName("schedule"), s.keep()))
	if err == nil {
		s.groups = append(s.groups, group{member, job})
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
		all.Go(func() {
			defer cancel() // without one group the fleet is not whole
			errs[i] = g.member.Run(running, func(ctx context.Context, p partition.Partition) error {
				return s.runJob(ctx, g.job(p.Name), g.member.ID(), p.Lease)
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

// runJob runs a job for as long as this replica has it. ctx ends when the job must go.
func (s *Scheduler) runJob(ctx context.Context, job *Job, id string, lease *locks.Lease) error {
	r := &runner{
		Scheduler: s, job: job, id: id, lease: lease, moves: ctx, held: lease.Context(context.WithoutCancel(ctx)),
		seen: make(chan int32, 1), clock: clock{wall: s.wall},
	}
	return r.runTicks()
}
