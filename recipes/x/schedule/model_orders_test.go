// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/x/schedule"
)

// TestModelOfOrders runs random programs of orders: pauses, resumes, runs by hand and skips, of jobs with all policies, in a fleet
// whose replicas come, leave and are killed. Each tick that is not run has a reason: it was skipped, or CatchUp or Overlap drops it.
// No tick begins in a pause, or after it was skipped. Each run by hand that was asked for begins, and none besides. A job that is
// AtMostOnce has one attempt of each run. Failures count since the last success.
func TestModelOfOrders(t *testing.T) {
	programs := 3
	if seeds.Long() {
		programs = 200
	}
	random := seeds.New(t)
	for n := range programs {
		seed := random.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := newOrdersModel(t, n, rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1)))
			for range 40 {
				m.step()
			}
			m.heal()
		})
	}
}

// orderedJob is a job of the model, and what operators have ordered for it.
type orderedJob struct {
	schedule.Job
	longest time.Duration // of a run

	paused  time.Time // zero while it is not
	pauses  [][2]time.Time
	skipped map[time.Time]time.Time // when, by tick
	asked   []time.Time
}

type ordersModel struct {
	*world

	random    *rand.Rand
	durations *rand.Rand // of runs; guarded by mu
	jobs      []*orderedJob
	replicas  map[string]*replica
	next      int
	killed    bool // a session or a replica, so that a run may be interrupted
}

func newOrdersModel(t *testing.T, n int, random, durations *rand.Rand) *ordersModel {
	t.Helper()
	m := &ordersModel{world: newWorld(t), random: random, durations: durations, replicas: make(map[string]*replica)}
	m.takeovers = make(map[string][]time.Time)
	catchUps := []schedule.CatchUp{{}, {}, {Ticks: schedule.Last}, {Ticks: schedule.None}, {Window: time.Minute}}
	overlaps := []schedule.Overlap{schedule.Skip, schedule.Skip, schedule.Queue(1), schedule.Queue(1_000_000), schedule.Cancel}
	m.didf("program %d", n)
	for i := range 4 {
		j := &orderedJob{skipped: make(map[time.Time]time.Time), longest: []time.Duration{8 * time.Second, 50 * time.Second}[random.IntN(2)]}
		j.Job = schedule.Job{
			Name: fmt.Sprintf("job%d", i), Schedule: schedule.Every(every), CatchUp: catchUps[random.IntN(len(catchUps))],
			Overlap: overlaps[random.IntN(len(overlaps))], AtMostOnce: random.IntN(3) == 0, GiveUp: random.IntN(3) == 0,
		}
		j.Run = func(ctx context.Context, _ schedule.Tick) error { return m.work(ctx, j) }
		m.didf("%s: catch up %v, overlap %v, at most once %v, give up %v, runs of at most %v", j.Name, j.CatchUp, j.Overlap, j.AtMostOnce, j.GiveUp, j.longest)
		m.jobs = append(m.jobs, j)
		m.observe(j.Name)
	}
	m.startOne()
	m.startOne()
	time.Sleep(time.Second)
	return m
}

func (m *ordersModel) work(ctx context.Context, j *orderedJob) error {
	m.mu.Lock()
	d := time.Duration(m.durations.Int64N(int64(j.longest)))
	fails := m.durations.IntN(5) == 0
	m.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	if fails {
		return errors.New("it is broken")
	}
	return nil
}

func (m *ordersModel) startOne() {
	m.next++
	name := fmt.Sprintf("r%d", m.next)
	var jobs []schedule.Job
	for _, j := range m.jobs {
		jobs = append(jobs, j.Job)
	}
	m.replicas[name] = m.start(name, 0, jobs...)
}

func (m *ordersModel) step() {
	names := slices.Sorted(maps.Keys(m.replicas))
	j := m.jobs[m.random.IntN(len(m.jobs))]
	ctx := m.tb.Context()
	switch n := m.random.IntN(12); {
	case n < 4 && j.paused.IsZero():
		require.NoError(m.tb, schedule.Pause(ctx, m.theirs, root, j.Name))
		j.paused = time.Now()
		m.didf("paused %s", j.Name)
	case n < 4:
		m.resume(j)
	case n < 6:
		j.asked = append(j.asked, time.Now())
		m.didf("run %s now", j.Name)
		require.NoError(m.tb, schedule.RunNow(ctx, m.theirs, root, j.Name))
	case n < 8:
		tick, err := schedule.SkipNext(ctx, m.theirs, root, j.Name)
		require.NoError(m.tb, err)
		j.skipped[tick] = time.Now()
		m.didf("skipped %s %s", j.Name, at(tick))
	case n == 8 && len(names) < 4:
		m.startOne()
	case n == 9 && len(names) > 1:
		r := m.replicas[names[m.random.IntN(len(names))]]
		delete(m.replicas, r.name)
		r.leave()
	case n == 10 && len(names) > 1:
		r := m.replicas[names[m.random.IntN(len(names))]]
		delete(m.replicas, r.name)
		m.killed = true
		r.die()
	case n == 11:
		r := m.replicas[names[m.random.IntN(len(names))]]
		m.didf("kill the session of %s", r.name)
		m.killed = true
		m.mu.Lock()
		m.hurt[r.client.Session().ID()] = true
		m.mu.Unlock()
		m.server.KillSession(r.client.Session().ID())
	}
	time.Sleep([]time.Duration{0, time.Second, 7 * time.Second, 20 * time.Second, time.Minute}[m.random.IntN(5)])
	synctest.Wait()
	m.check()
}

func (m *ordersModel) resume(j *orderedJob) {
	m.didf("resume %s", j.Name)
	j.pauses = append(j.pauses, [2]time.Time{j.paused, time.Now()})
	j.paused = time.Time{}
	m.mu.Lock()
	m.takeovers[j.Name] = append(m.takeovers[j.Name], time.Now()) // what waits is late
	m.mu.Unlock()
	require.NoError(m.tb, schedule.Resume(m.tb.Context(), m.theirs, root, j.Name))
}

func (m *ordersModel) heal() {
	for _, j := range m.jobs {
		if !j.paused.IsZero() {
			m.resume(j)
		}
	}
	end := time.Now()
	time.Sleep(40 * time.Minute) // what waits is run
	synctest.Wait()
	m.check()
	for _, j := range m.jobs {
		m.requireEachTick(j, end)
		m.requireOrders(j)
	}
}

// requireEachTick checks that each tick was run, or has a reason.
func (m *ordersModel) requireEachTick(j *orderedJob, end time.Time) {
	m.mu.Lock()
	got := make(map[time.Time]bool)
	for _, run := range m.records[j.Name] {
		got[run.Tick] = got[run.Tick] || !run.Manual
	}
	begins := m.begins[j.Name]
	m.mu.Unlock()
	require.False(m.tb, begins.IsZero())
	for tick := schedule.Every(every).Next(begins); tick.Before(end); tick = tick.Add(every) {
		_, isSkipped := j.skipped[tick]
		require.True(m.tb, got[tick] || isSkipped || m.catchUpDrops(j, tick) || m.overlapDrops(j, tick), "%s %s was not run\n%s", j.Name, at(tick), m.told())
	}
}

// catchUpDrops reports whether a tick may have been dropped at a take-over, or after a pause. It was dropped before a later one ran.
func (m *ordersModel) catchUpDrops(j *orderedJob, tick time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ran := slices.IndexFunc(m.calls, func(c call) bool { return c.Job == j.Name && !c.Manual && c.Time.After(tick) })
	return slices.ContainsFunc(m.takeovers[j.Name], func(late time.Time) bool {
		switch {
		case late.Before(tick) || ran >= 0 && late.After(m.calls[ran].began):
			return false
		case j.CatchUp.Window > 0:
			return late.Sub(tick) > j.CatchUp.Window
		case j.CatchUp.Ticks == schedule.Last:
			return late.Sub(tick) >= every // there was a newer one
		default:
			return j.CatchUp.Ticks == schedule.None
		}
	})
}

// overlapDrops reports whether a tick may have been dropped because of a run that was longer than the interval, or that an operator
// has asked for. Late ticks that wait then are dropped, too.
func (m *ordersModel) overlapDrops(j *orderedJob, tick time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return j.Overlap < schedule.Queue(1_000_000) && slices.ContainsFunc(m.calls, func(c call) bool {
		end := c.ended
		if end.IsZero() {
			end = time.Unix(math.MaxInt32, 0)
		}
		switch {
		case c.Job != j.Name:
			return false
		case c.Manual:
			return tick.After(c.began) && !tick.After(end)
		default:
			return tick.After(c.Time) && end.Sub(c.began) >= every && tick.Before(end.Add(10*time.Minute))
		}
	})
}

// requireOrders checks what operators have ordered against the calls.
func (m *ordersModel) requireOrders(j *orderedJob) {
	const soon = time.Minute // a begin whose reply has come late
	m.mu.Lock()
	calls := slices.DeleteFunc(slices.Clone(m.calls), func(c call) bool { return c.Job != j.Name })
	m.mu.Unlock()
	manual := 0
	for _, c := range calls {
		require.False(m.tb, j.AtMostOnce && c.Attempt > 1, "%s %s: attempt %d\n%s", j.Name, at(c.Time), c.Attempt, m.told())
		if c.Manual {
			if c.Attempt == 1 {
				manual++
			}
			continue
		}
		if skipped, found := j.skipped[c.Time]; found && c.Attempt == 1 {
			require.False(m.tb, c.began.After(skipped.Add(soon)), "%s %s was skipped\n%s", j.Name, at(c.Time), m.told())
		}
		for _, p := range j.pauses {
			during := c.Attempt == 1 && c.began.After(p[0].Add(soon)) && c.began.Before(p[1])
			require.False(m.tb, during, "%s %s in a pause\n%s", j.Name, at(c.Time), m.told())
		}
	}
	require.LessOrEqual(m.tb, manual, len(j.asked), "%s: runs by hand\n%s", j.Name, m.told())
	for _, asked := range j.asked {
		// In a pause it may be for the run that was interrupted.
		begun := slices.ContainsFunc(calls, func(c call) bool { return !c.began.Before(asked) && (c.Manual || c.Attempt > 1) })
		recorded := j.AtMostOnce && m.killed
		require.True(m.tb, begun || recorded, "%s: the run of %s\n%s", j.Name, at(asked), m.told())
	}
}

// requireFailuresLocked checks the count of failures in a state. A run by hand does not count.
func (w *world) requireFailuresLocked(job string, state schedule.Status) {
	if len(state.History) == 0 || state.History[0].Manual {
		return
	}
	if isZero := state.Failures == 0; isZero != (state.History[0].Outcome == schedule.Succeeded) {
		w.brokenLockedf("%s: %d failures, the last run has %s", job, state.Failures, state.History[0].Outcome)
	}
}
