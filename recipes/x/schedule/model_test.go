// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestModel runs random programs of replicas that come, leave and die, of two releases with different jobs, with
// clocks that differ and jump, outages, killed sessions, lost replies, and servers that come back from a backup. The
// oracle knows every tick. No tick is recorded twice, runs before its time, or out of order. When the trouble is
// over, no tick is lost. Each call of a job has a token and a number of the attempt that rise.
func TestModel(t *testing.T) {
	programs := 2
	if seeds.Long() {
		programs = 20
	}
	random := seeds.New(t)
	for n := range programs {
		seed := random.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), durations: rand.New(rand.NewPCG(seed, 1)),
				replicas: make(map[string]*replica), forgotten: make(map[string][]schedule.Run),
			}
			m.didf("program %d", n)
			for _, job := range []string{"both", "once", "old", "new"} {
				m.observe(job)
			}
			for release := range 2 {
				m.startOne(release).skew.Store(0) // a job begins by the clock that is ahead
			}
			for range 3 {
				for range 10 {
					m.step()
				}
				m.heal()
			}
		})
	}
}

// model is the run of one program.
type model struct {
	*world

	random    *rand.Rand
	durations *rand.Rand // of runs; guarded by mu
	replicas  map[string]*replica
	next      int

	backup   *zkserver.Backup
	recorded map[string]int       // how many records the backup has
	begun    map[string]time.Time // the jobs that the backup has
	epoch    int32

	// forgotten are records that the servers may have forgotten. A runner that has lived on knows them.
	forgotten map[string][]schedule.Run
}

// every is the interval of the jobs of the model.
const every = 20 * time.Second

func (m *model) jobs(release int) []schedule.Job {
	run := func(ctx context.Context, _ schedule.Tick) error {
		m.mu.Lock()
		d := time.Duration(m.durations.IntN(8000)) * time.Millisecond
		stubborn := m.durations.IntN(3) == 0
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			if stubborn {
				time.Sleep(d)
			}
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}
	jobs := []schedule.Job{
		{Name: "both", Schedule: schedule.Every(every), Overlap: schedule.Queue(1_000_000), GiveUp: true, Run: run},
		{Name: "once", Schedule: schedule.Every(every), Overlap: schedule.Queue(1_000_000), AtMostOnce: true, Run: run},
		{Name: []string{"old", "new"}[release], Schedule: schedule.Every(every), Overlap: schedule.Queue(1_000_000), Run: run},
	}
	return jobs
}

func (m *model) startOne(release int) *replica {
	m.next++
	name := fmt.Sprintf("%s-%d", []string{"old", "new"}[release], m.next)
	skews := []time.Duration{0, time.Second, -time.Second, 5 * time.Minute, -5 * time.Minute, 24 * time.Hour}
	m.replicas[name] = m.start(name, skews[m.random.IntN(len(skews))], m.jobs(release)...)
	return m.replicas[name]
}

func (m *model) some() (string, *replica) {
	names := slices.Sorted(maps.Keys(m.replicas))
	if len(names) == 0 {
		m.startOne(0)
		return m.some()
	}
	name := names[m.random.IntN(len(names))]
	return name, m.replicas[name]
}

func (m *model) step() {
	name, r := m.some()
	switch n := m.random.IntN(15); {
	case n < 3 && len(m.replicas) < 5:
		m.startOne(m.random.IntN(2))
	case n == 3:
		delete(m.replicas, name)
		r.link.Refuse(false)
		r.link.Heal()
		r.leave()
	case n == 4:
		delete(m.replicas, name)
		r.die()
	case n == 5:
		m.didf("cut %s", name)
		r.link.Cut()
	case n == 6:
		m.didf("unplug %s", name)
		r.link.Refuse(true)
		r.link.Cut()
	case n == 7:
		m.didf("plug %s", name)
		r.link.Refuse(false)
		r.link.Heal()
	case n == 8:
		m.didf("silence %s", name)
		r.link.Blackhole([]zkproxy.Direction{zkproxy.Both, zkproxy.ToClient, zkproxy.ToServer}[m.random.IntN(3)])
	case n == 9:
		m.didf("kill the session of %s", name)
		m.mu.Lock()
		m.hurt[r.client.Session().ID()] = true
		m.mu.Unlock()
		m.server.KillSession(r.client.Session().ID())
	case n == 10:
		skew := []time.Duration{0, time.Hour, -time.Hour, 9 * time.Second, -40 * time.Second}[m.random.IntN(5)]
		m.didf("the clock of %s jumps to %v", name, skew)
		r.skew.Store(int64(skew))
	case n == 11:
		m.loseReplies([]zkserver.Fault{zkserver.LoseReply, zkserver.LoseRequest}[m.random.IntN(2)])
	case n == 12:
		m.didf("servers stop")
		require.NoError(m.tb, m.server.Stop())
		time.Sleep(time.Duration(m.random.IntN(90)) * time.Second)
		require.NoError(m.tb, m.server.Restart())
		m.didf("servers are back")
	case n == 13 && m.backup == nil:
		m.makeBackup()
	case n == 14 && m.backup != nil:
		m.restore()
	}
	pause := []time.Duration{0, 50 * time.Millisecond, time.Second, 7 * time.Second, 20 * time.Second, time.Minute}[m.random.IntN(6)]
	time.Sleep(pause)
	synctest.Wait()
	m.check()
}

// loseReplies loses some of the next transactions of the replicas, or the replies to them.
func (m *model) loseReplies(fault zkserver.Fault) {
	m.didf("lose transactions or replies")
	left := 3
	remove := m.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if left > 0 && r.Op == zkserver.OpMulti {
			left--
			return fault
		}
		return zkserver.Pass
	})
	time.Sleep(every + time.Second)
	remove()
}

func (m *model) makeBackup() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.didLockedf("backup")
	m.backup, m.recorded = m.server.Backup(), make(map[string]int)
	m.begun = maps.Clone(m.begins)
	for job, runs := range m.records {
		m.recorded[job] = len(runs)
	}
}

// restore brings the servers back as they were. What was recorded since then may be forgotten, and run again.
func (m *model) restore() {
	require.NoError(m.tb, m.server.Stop())
	synctest.Wait()
	m.epoch++
	require.NoError(m.tb, m.server.Restore(m.backup, m.epoch))
	m.mu.Lock()
	m.didLockedf("restored")
	for job, runs := range m.records {
		m.records[job] = runs[:m.recorded[job]]
		m.forgotten[job] = append(m.forgotten[job], runs[m.recorded[job]:]...)
	}
	m.begins = m.begun
	m.since = len(m.calls)
	m.backup = nil
	m.mu.Unlock()
	require.NoError(m.tb, m.server.Restart())
}

// heal ends all trouble, and finds each tick recorded.
func (m *model) heal() {
	m.didf("heal")
	for _, r := range m.replicas {
		r.skew.Store(0) // or ticks run when that clock says so
		r.link.Refuse(false)
		r.link.Heal()
	}
	for release := range 2 {
		m.startOne(release).skew.Store(0)
	}
	time.Sleep(6 * time.Minute) // sessions end, pauses have become long, and what was missed is run
	synctest.Wait()
	m.check()
	now := time.Now()
	for _, job := range []string{"both", "once", "old", "new"} {
		m.requireNoneLost(job, now)
	}
}

// requireNoneLost checks that each tick since the first one is recorded, but for the last minute.
func (m *model) requireNoneLost(job string, now time.Time) {
	m.mu.Lock()
	got := make(map[time.Time]schedule.Outcome)
	for _, run := range slices.Concat(m.forgotten[job], m.records[job]) {
		got[run.Tick] = run.Outcome
	}
	begins := m.begins[job]
	m.mu.Unlock()
	require.False(m.tb, begins.IsZero(), "%s has never begun:\n%s", job, m.told())
	for tick := schedule.Every(every).Next(begins); tick.Before(now.Add(-time.Minute)); tick = tick.Add(every) {
		outcome := got[tick]
		ok := outcome == schedule.Succeeded || job == "once" && (outcome == schedule.Interrupted || outcome == schedule.Failed)
		require.True(m.tb, ok, "%s %s: %q\n%s", job, at(tick), outcome, m.told())
	}
}
