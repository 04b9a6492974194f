// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zksim"
)

var jobNames = []string{"job-0", "job-1"}

// extra is a job that the newer one of two releases has in the place of the last job, and that the second one of two lists has.
const extra = "job-2"

const interval = 3 * time.Second

// jobs are what has happened to ticks, by job.
type jobs struct {
	began   map[string]map[time.Time]bool
	last    map[string]time.Time   // that began
	ended   map[string][]time.Time // that no loss has interrupted, or that were skipped
	skipped map[string]map[time.Time]bool
	paused  map[string]time.Time // since when a job surely is
	resumes map[string]int       // that have begun
	resumed map[string]int       // those that have ended, and are not under way somewhere
	inDoubt map[string]bool      // whether ticks may have been skipped that are not known
	pauses  map[string][]span    // in which a job surely was
	gone    string               // the job that is in no list any more
	running map[string]int       // how many runs are under way
}

// span is a time.
type span struct{ from, to time.Time }

// jobs prepares a replica.
func (m *member) jobs() error {
	m.all.Lock()
	if s := &m.all.schedule; s.began == nil {
		*s = jobs{
			make(map[string]map[time.Time]bool), make(map[string]time.Time), make(map[string][]time.Time), make(map[string]map[time.Time]bool),
			make(map[string]time.Time), make(map[string]int), make(map[string]int), make(map[string]bool),
			make(map[string][]span), "", make(map[string]int),
		}
		for _, name := range append(jobNames, extra) {
			s.began[name], s.skipped[name] = make(map[time.Time]bool), make(map[time.Time]bool)
		}
	}
	m.all.Unlock()
	list, err := m.list()
	if err != nil {
		return err
	}
	replica, err := schedule.New(m.client, "/jobs", list...)
	if err != nil {
		return err
	}
	m.serve = append(m.serve, func(ctx context.Context) { m.logf("the replica: %v", replica.Run(ctx)) })
	m.acts["jobs"] = func(ctx context.Context, random *rand.Rand) {
		job := jobNames[random.IntN(len(jobNames))]
		switch n := random.IntN(6); {
		case n < 3:
			m.pause(ctx, job, false)
		case n < 5:
			m.logf("runs %s now: %v", job, schedule.RunNow(ctx, m.client, "/jobs", job))
		default:
			m.skip(ctx, job)
		}
	}
	return nil
}

// list returns the jobs of a replica: each by its name, or those of one list or two.
func (m *member) list() (list []schedule.Job, err error) {
	job := schedule.Job{Schedule: schedule.Every(interval), Run: m.run, AtMostOnce: m.o.is("at most once", "yes"), GiveUp: m.o.is("give up", "yes")}
	if job.Overlap = schedule.Queue(100); m.o.is("overlap", "skip") {
		job.Overlap = schedule.Skip
	} else if m.o.is("overlap", "cancel") {
		job.Overlap = schedule.Cancel
	}
	if m.o.is("catch-up", "newest") {
		job.CatchUp.Ticks = schedule.Last
	}
	names := slices.Clone(jobNames)
	if m.o.is("releases", "2") && m.c.Index%2 == 1 {
		names[1] = extra
	}
	if m.o.is("names", "in the program") {
		for _, name := range names {
			job.Name = name
			list = append(list, job)
		}
		return list, nil
	}
	job.Each = "/names-" + names[1]
	sets := map[string][]string{job.Each: names}
	list = append(list, job)
	if m.o.is("names", "in two lists") {
		job.Each, job.Run = "/more", m.runSecond
		sets[job.Each] = []string{jobNames[1], extra}
		list = append(list, job)
	}
	for path, names := range sets {
		_, err := m.client.Create(context.Background(), path, []byte(strings.Join(names, "\n")), framework.Idempotent())
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return nil, err
		}
	}
	return list, nil
}

// runSecond is the function of the second list. A replica that has a name in its first list, too, must not call it.
func (m *member) runSecond(ctx context.Context, tick schedule.Tick) error {
	isNew := m.o.is("releases", "2") && m.c.Index%2 == 1
	if tick.Job == jobNames[1] && !isNew || tick.Job == extra && isNew {
		m.findf("runs %v by the second list, and the name is in the first", tick)
	}
	return m.run(ctx, tick)
}

// run is one tick.
func (m *member) run(ctx context.Context, tick schedule.Tick) error {
	lease := locks.LeaseFrom(ctx)
	leave := m.entered("job", zksim.Hold{Key: tick.Job, Client: m.c.Index, Exclusive: true, IsOver: m.isOver(lease)})
	defer leave()
	m.all.Lock()
	m.all.schedule.running[tick.Job]++
	m.all.Unlock()
	defer func() {
		m.all.Lock()
		defer m.all.Unlock()
		m.all.schedule.running[tick.Job]--
	}()
	m.beginTick(ctx, tick)
	m.raise(ctx)
	lasts := 200 * time.Millisecond
	if tick.Time.Second()%7 == 0 && !m.o.is("overlap", "cancel") { // so that orders come while it runs
		lasts = 2 * time.Second
	}
	sleep(ctx, lasts)
	m.all.Lock()
	defer m.all.Unlock()
	if ctx.Err() == nil && !tick.Manual {
		m.all.schedule.ended[tick.Job] = append(m.all.schedule.ended[tick.Job], tick.Time)
	}
	return ctx.Err()
}

func (m *member) beginTick(ctx context.Context, tick schedule.Tick) {
	m.logf("runs %v", tick)
	m.all.Lock()
	defer m.all.Unlock()
	s := &m.all.schedule
	if ctx.Err() == nil && tick.Job == s.gone {
		defer m.findf("runs the tick %v of %s, which is in no list", tick.Time, tick.Job)
	}
	if ctx.Err() != nil || tick.Manual {
		return
	}
	if !m.o.is("faults", "restores") {
		m.judgeTick(tick)
	}
	s.began[tick.Job][tick.Time], s.last[tick.Job] = true, tick.Time
}

// judgeTick finds what is wrong with a tick that begins. The truth is locked.
func (m *member) judgeTick(tick schedule.Tick) {
	s := &m.all.schedule
	m.chanceOfTick(tick)
	if since, isPaused := s.paused[tick.Job]; isPaused && tick.Time.After(since) {
		m.findf("runs the tick %v of %s, which is paused since %v", tick.Time, tick.Job, since)
	}
	if tick.Time.Before(s.last[tick.Job]) {
		m.findf("runs the tick %v of %s after %v", tick.Time, tick.Job, s.last[tick.Job])
	}
	if s.skipped[tick.Job][tick.Time] {
		m.findf("runs the tick %v of %s, which was skipped", tick.Time, tick.Job)
	}
	if s.began[tick.Job][tick.Time] && m.o.is("at most once", "yes") {
		m.findf("runs the tick %v of %s again", tick.Time, tick.Job)
	}
}

// chanceOfTick notes which rules a tick that begins could have broken.
func (m *member) chanceOfTick(tick schedule.Tick) {
	m.all.chance(ruleOrder)
	s := &m.all.schedule
	if len(s.skipped[tick.Job]) > 0 {
		m.all.chance(ruleSkipped)
	}
	if m.o.is("at most once", "yes") {
		m.all.chance(ruleTickOnce)
	}
	if m.o.is("names", "in two lists") && tick.Job != jobNames[0] {
		m.all.chance(ruleFirstList)
	}
}

// pause pauses a job, has it run by hand or not, and resumes it after a while.
func (m *member) pause(ctx context.Context, job string, runs bool) {
	s := &m.all.schedule
	m.all.Lock()
	resumes, resumed := s.resumes[job], s.resumed[job]
	m.all.Unlock()
	err := schedule.Pause(ctx, m.client, "/jobs", job)
	m.logf("pauses %s: %v", job, err)
	m.all.Lock()
	if err == nil && resumed == resumes && s.resumes[job] == resumes {
		s.paused[job] = time.Now()
	}
	m.all.Unlock()
	if sleep(ctx, 3500*time.Millisecond); runs {
		m.logf("runs %s now: %v", job, schedule.RunNow(ctx, m.client, "/jobs", job))
	}
	sleep(ctx, 3500*time.Millisecond)
	m.all.Lock()
	s.resumes[job]++
	if since, isPaused := s.paused[job]; isPaused {
		s.pauses[job] = append(s.pauses[job], span{since, time.Now()})
		m.all.chance(rulePaused)
	}
	delete(s.paused, job)
	m.all.Unlock()
	err = schedule.Resume(ctx, m.client, "/jobs", job)
	m.logf("resumes %s: %v", job, err)
	if err == nil {
		m.all.Lock()
		s.resumed[job]++
		m.all.Unlock()
	}
}

func (m *member) skip(ctx context.Context, job string) {
	tick, err := schedule.SkipNext(ctx, m.client, "/jobs", job)
	m.logf("skips %v of %s: %v", tick, job, err)
	m.all.Lock()
	defer m.all.Unlock()
	s := &m.all.schedule
	if err != nil {
		s.inDoubt[job] = true
		return
	}
	s.ended[job] = append(s.ended[job], tick)
	s.skipped[job][tick] = !s.began[job][tick]
}

// settleLists has a job go from its lists. No replica may run it then, and the other one goes on.
func (all *truth) settleLists(ctx context.Context, m *member) {
	if m.o.is("names", "in the program") {
		time.Sleep(calm / 3)
		return
	}
	for _, list := range []string{"/names-" + jobNames[1], "/names-" + extra} {
		err := m.writeSet(ctx, list, list[len("/names-"):])
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			m.findf("shrink %s: %v", list, err)
		}
	}
	time.Sleep(calm / 3)
	all.Lock()
	all.schedule.gone = jobNames[0]
	all.Unlock()
	time.Sleep(calm)
	all.chance(ruleGone)
}

// knows reports whether a process has a job. None may have the last one when the fleet was made smaller.
func (all *truth) knows(job string) bool {
	for i, m := range all.members {
		if job == jobNames[0] || !m.o.is("releases", "2") || i%2 == 0 {
			return true
		}
	}
	return false
}

// settlePause pauses a job in a run.
func (all *truth) settlePause(ctx context.Context, m *member) {
	random := rand.New(rand.NewPCG(uint64(m.w.Elapsed()), 6))
	job := jobNames[random.IntN(len(jobNames))]
	for range 200 {
		all.Lock()
		isRunning := all.schedule.running[job] > 0
		all.Unlock()
		if isRunning {
			m.pause(ctx, job, random.IntN(2) == 0)
			time.Sleep(calm / 3) // the ticks of the pause are run
			return
		}
		time.Sleep(interval / 30)
	}
}

// judgeGoing finds a job that has not run for long.
func (all *truth) judgeGoing(m *member) {
	all.Lock()
	defer all.Unlock()
	for _, job := range jobNames {
		if last := all.schedule.last[job]; all.knows(job) && time.Since(last) > 2*interval && job != all.schedule.gone {
			m.findf("no replica runs %s, for the last time the tick %v", job, last)
		}
	}
}

// settleJobs finds ticks that were lost, where none may be, and jobs that do not go on.
func (all *truth) settleJobs(m *member) {
	if !m.o.plays("jobs") || m.o.is("faults", "restores") {
		return
	}
	s := &all.schedule
	for _, job := range jobNames {
		slices.SortFunc(s.ended[job], time.Time.Compare)
		if !s.inDoubt[job] {
			all.judgeTicks(m, job, s.ended[job])
		}
	}
}

// judgeTicks finds ticks that were lost, where none may be. What is due while the job runs may be skipped or canceled, and what is due in a pause
// may not, but for the newest.
func (all *truth) judgeTicks(m *member, job string, ended []time.Time) {
	if !m.o.is("catch-up", "all") {
		return
	}
	isOnce := m.o.is("at most once", "yes") // then a run that is interrupted is the last of its tick
	if m.o.is("overlap", "queue") && !isOnce {
		all.chance(ruleNoneLost)
		for i := 1; i < len(ended); i++ {
			if ended[i].Sub(ended[i-1]) > interval {
				m.findf("no replica has run the ticks of %s between %v and %v to their end", job, ended[i-1], ended[i])
			}
		}
	}
	if m.o.is("overlap", "cancel") {
		return
	}
	if isOnce {
		ended = slices.AppendSeq(slices.Clone(ended), maps.Keys(all.schedule.began[job]))
	}
	for _, p := range all.schedule.pauses[job] {
		for tick := time.Now().Add(-all.w.Elapsed()); tick.Before(p.to); tick = tick.Add(interval) { // the clock of a history begins at midnight
			if !tick.After(p.from) {
				continue
			}
			all.chance(rulePauseCaughtUp)
			if !slices.ContainsFunc(ended, tick.Equal) {
				m.findf("no replica has run the tick %v of %s, which was paused from %v to %v", tick, job, p.from, p.to)
			}
		}
	}
}
