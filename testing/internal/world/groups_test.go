// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zksim"
)

var partitions = []string{"a", "b", "c"}

// partitions prepares a member of a group. Its functions take a lock, and count.
func (m *member) partitions() error {
	names := partition.Fixed(partitions...)
	if m.o.is("set", "stored") {
		names = partition.Stored("/set")
		_, err := m.client.Create(context.Background(), "/set", []byte(strings.Join(partitions, "\n")))
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return err
		}
	}
	opts := []partition.Option{partition.WithID(fmt.Sprintf("member-%d", m.c.Index))}
	if m.o.is("settle", "0s") {
		opts = append(opts, partition.WithSettle(0))
	}
	if m.o.is("return", "5s") {
		opts = append(opts, partition.WithReturn(5*time.Second))
	}
	if m.o.is("moves", "1") {
		opts = append(opts, partition.WithMoves(1, 2*time.Second))
	}
	if m.o.is("standbys", "1") {
		opts = append(opts, partition.WithStandbys(1, func(context.Context, string) error { return nil }))
	}
	if m.o.is("policy", "quorum") {
		opts = append(opts, partition.WithLockOptions(locks.WithErrorPolicy(framework.QuorumErrorPolicy)))
	}
	group, err := partition.New(m.client, "/group", names, opts...)
	if err != nil {
		return err
	}
	m.serve = append(m.serve, func(ctx context.Context) {
		m.logf("the group: %v", group.Run(ctx, m.work))
	})
	m.acts["orders"] = m.order
	return nil
}

// work is the function of a partition.
func (m *member) work(ctx context.Context, p partition.Partition) error {
	owned := func(n int) {
		m.all.Lock()
		defer m.all.Unlock()
		if m.all.owned == nil {
			m.all.owned = make(map[string]int)
		}
		m.all.owned[p.Name] += n
	}
	leave := m.w.Enter(zksim.Hold{
		Key: "partition " + p.Name, Client: m.c.Index, Exclusive: true, Token: p.Lease.Token(), IsOver: func() bool { return p.Lease.Err() != nil },
	})
	defer leave()
	owned(1)
	defer owned(-1)
	random := rand.New(rand.NewPCG(uint64(p.Lease.Token()), 1))
	sleep(ctx, upTo(random, 2*time.Second))
	m.hold(ctx, random, "/mutex", true, m.mutex, upTo(random, 500*time.Millisecond), nil)
	<-ctx.Done()
	return nil
}

// order is what an operator does.
func (m *member) order(ctx context.Context, random *rand.Rand) {
	name, on := partitions[random.IntN(len(partitions))], random.IntN(2) == 0
	job := jobNames[random.IntN(len(jobNames))]
	peer := fmt.Sprintf("member-%d", random.IntN(3))
	switch n := random.IntN(8); {
	case n == 0:
		m.logf("excludes %s (%t): %v", name, on, partition.Exclude(ctx, m.client, "/group", name, on))
	case n == 1:
		m.logf("pins %s to %s: %v", name, peer, partition.Pin(ctx, m.client, "/group", name, peer))
	case n == 2:
		m.logf("drains %s (%t): %v", peer, on, partition.Drain(ctx, m.client, "/group", peer, on))
	case n == 3 && m.o.is("set", "stored"):
		m.logf("spoils the set: %v", m.writeSet(ctx, "a\tb\tc"))
	case n == 4 && m.o.is("set", "stored"):
		m.logf("mends the set: %v", m.writeSet(ctx, strings.Join(partitions, "\n")))
	case n < 6:
		m.pause(ctx, job)
	case n == 6:
		m.logf("runs %s now: %v", job, schedule.RunNow(ctx, m.client, "/jobs", job))
	default:
		m.skip(ctx, job)
	}
}

func (m *member) writeSet(ctx context.Context, set string) error {
	return m.client.Set(ctx, "/set", []byte(set), framework.WithVersion(framework.AnyVersion))
}

// settleGroup finds partitions that no member has, and orders that are not heeded, also while the set cannot be read.
func (all *truth) settleGroup(ctx context.Context, w *zksim.World, m *member) {
	serving, end := context.WithCancel(ctx)
	defer end()
	for _, other := range all.members {
		other.live(serving)
	}
	time.Sleep(5 * time.Second)
	must := func(what string, err error) {
		if err != nil {
			w.Findf("%s: %v", what, err)
		}
	}
	if m.o.is("set", "stored") {
		must("mend", m.writeSet(ctx, strings.Join(partitions, "\n")))
	}
	for i, name := range partitions {
		must("include", partition.Exclude(ctx, m.client, "/group", name, false))
		must("unpin", partition.Pin(ctx, m.client, "/group", name, ""))
		must("undrain", partition.Drain(ctx, m.client, "/group", fmt.Sprintf("member-%d", i), false))
	}
	for _, job := range jobNames {
		must("resume", schedule.Resume(ctx, m.client, "/jobs", job))
	}
	time.Sleep(30 * time.Second)
	all.owns(w, "", "all")
	if m.o.is("set", "stored") {
		must("spoil", m.writeSet(ctx, "a\tb\tc"))
		time.Sleep(5 * time.Second)
	}
	must("exclude", partition.Exclude(ctx, m.client, "/group", "a", true))
	time.Sleep(30 * time.Second)
	all.owns(w, "a", "but one that is excluded")
	end()
	for _, other := range all.members {
		other.serving.Wait()
	}
}

// owns finds a partition that is not at one member, or one that is at a member although no member may have it.
func (all *truth) owns(w *zksim.World, without, which string) {
	all.Lock()
	owned := fmt.Sprint(all.owned)
	isWrong := slices.ContainsFunc(partitions, func(name string) bool {
		return all.owned[name] != 1 && name != without || all.owned[name] != 0 && name == without
	})
	all.Unlock()
	if isWrong {
		w.Findf("members have %s, expected each of %v, %s", owned, partitions, which)
	}
}

var jobNames = []string{"job-0", "job-1"}

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
}

// jobs prepares a replica.
func (m *member) jobs() error {
	m.all.Lock()
	if s := &m.all.schedule; s.began == nil {
		*s = jobs{
			make(map[string]map[time.Time]bool), make(map[string]time.Time), make(map[string][]time.Time), make(map[string]map[time.Time]bool),
			make(map[string]time.Time), make(map[string]int), make(map[string]int), make(map[string]bool),
		}
		for _, name := range jobNames {
			s.began[name], s.skipped[name] = make(map[time.Time]bool), make(map[time.Time]bool)
		}
	}
	m.all.Unlock()
	var list []schedule.Job
	for _, name := range jobNames {
		job := schedule.Job{Name: name, Schedule: schedule.Every(interval), Run: m.run, AtMostOnce: m.o.is("at most once", "yes"), GiveUp: m.o.is("give up", "yes")}
		if job.Overlap = schedule.Queue(100); m.o.is("overlap", "skip") {
			job.Overlap = schedule.Skip
		} else if m.o.is("overlap", "cancel") {
			job.Overlap = schedule.Cancel
		}
		if m.o.is("catch-up", "newest") {
			job.CatchUp.Ticks = schedule.Last
		}
		list = append(list, job)
	}
	replica, err := schedule.New(m.client, "/jobs", list...)
	if err != nil {
		return err
	}
	m.serve = append(m.serve, func(ctx context.Context) { m.logf("the replica: %v", replica.Run(ctx)) })
	return nil
}

// run is one tick.
func (m *member) run(ctx context.Context, tick schedule.Tick) error {
	lease := locks.LeaseFrom(ctx)
	leave := m.w.Enter(zksim.Hold{Key: tick.Job, Client: m.c.Index, Exclusive: true, IsOver: func() bool { return lease.Err() != nil }})
	defer leave()
	m.beginTick(ctx, tick)
	value, err := m.all.counter.number.Increment(ctx)
	m.count(value.Post, err)
	sleep(ctx, 200*time.Millisecond)
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
	if s := &m.all.schedule; ctx.Err() == nil && !tick.Manual {
		since, isPaused := s.paused[tick.Job]
		if isPaused && tick.Time.After(since) {
			defer m.findf("runs the tick %v of %s, which is paused since %v", tick.Time, tick.Job, since)
		}
		if tick.Time.Before(s.last[tick.Job]) {
			defer m.findf("runs the tick %v of %s after %v", tick.Time, tick.Job, s.last[tick.Job])
		}
		if s.skipped[tick.Job][tick.Time] {
			defer m.findf("runs the tick %v of %s, which was skipped", tick.Time, tick.Job)
		}
		if s.began[tick.Job][tick.Time] && m.o.is("at most once", "yes") {
			defer m.findf("runs the tick %v of %s again", tick.Time, tick.Job)
		}
		s.began[tick.Job][tick.Time], s.last[tick.Job] = true, tick.Time
	}
}

// pause pauses a job, and resumes it after a while.
func (m *member) pause(ctx context.Context, job string) {
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
	sleep(ctx, 7*time.Second)
	m.all.Lock()
	s.resumes[job]++
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

// settleJobs finds ticks that were lost, where none may be.
func (all *truth) settleJobs(m *member) {
	if !m.o.is("overlap", "queue") || !m.o.is("catch-up", "all") || m.o.is("at most once", "yes") {
		return
	}
	for job, ended := range all.schedule.ended {
		slices.SortFunc(ended, time.Time.Compare)
		for i := 1; i < len(ended) && !all.schedule.inDoubt[job]; i++ {
			if ended[i].Sub(ended[i-1]) > interval {
				m.findf("no replica has run the ticks of %s between %v and %v to their end", job, ended[i-1], ended[i])
			}
		}
	}
}
