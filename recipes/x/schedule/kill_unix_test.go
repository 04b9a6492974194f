// SPDX-License-Identifier: Apache-2.0

//go:build unix

package schedule_test

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zktest"
)

// TestKillsAndPausesOfFive kills five processes on three servers, and lets them stand still, again and again. Each
// process has the same jobs, which are due each second. Afterwards each second of each job is recorded, once and in
// order.
func TestKillsAndPausesOfFive(t *testing.T) {
	if !seeds.Long() {
		t.Skip("three ZooKeeper servers and five processes: in a long run; TestWorld has it on fake time")
	}
	const hits = 200
	servers := zktest.NewEnsemble(t, 3).ConnectString()
	w := &world{
		tb: t, theirs: zktest.Client(t, servers),
		records: make(map[string][]schedule.Run), begins: make(map[string]time.Time),
	}
	for _, job := range killJobs {
		follow(w, servers, job)
	}
	var processes []*exec.Cmd
	for range 5 {
		processes = append(processes, startReplica(t, servers))
	}
	time.Sleep(5 * time.Second)
	random := seeds.New(t)
	kills, pauses := 0, 0
	for range hits {
		i := random.IntN(len(processes))
		if random.IntN(2) == 0 {
			require.NoError(t, processes[i].Process.Kill())
			processes[i] = startReplica(t, servers)
			kills++
		} else {
			process := processes[i].Process
			require.NoError(t, process.Signal(syscall.SIGSTOP))
			// Some pauses outlast a session. A process that was killed meanwhile hears nothing.
			time.AfterFunc(time.Duration(random.IntN(10_000))*time.Millisecond, func() { _ = process.Signal(syscall.SIGCONT) })
			pauses++
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	time.Sleep(10 * time.Second) // all go on
	until := time.Now().Add(-time.Second)
	lost := w.awaitAll(until, time.Minute)

	w.mu.Lock()
	twice, outOfOrder, ticks, again := 0, 0, 0, 0
	for _, runs := range w.records {
		seen := make(map[time.Time]bool)
		for i, run := range runs {
			ticks++
			if seen[run.Tick] {
				twice++
			}
			seen[run.Tick] = true
			if i > 0 && run.Tick.Before(runs[i-1].Tick) {
				outOfOrder++
			}
			if run.Attempt > 1 {
				again++
			}
		}
	}
	w.mu.Unlock()
	t.Logf("kills=%d pauses=%d ticks=%d interrupted_and_run_again=%d twice=%d lost=%d out_of_order=%d", kills, pauses, ticks, again, twice, len(lost), outOfOrder)
	require.Zero(t, twice)
	require.Empty(t, lost)
	require.Zero(t, outOfOrder)
	w.check()
}

// awaitAll waits until each second of each job is recorded, and returns those that are not.
func (w *world) awaitAll(until time.Time, limit time.Duration) (lost []string) {
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		lost = nil
		w.mu.Lock()
		for _, job := range killJobs {
			if w.begins[job].IsZero() {
				lost = append(lost, job)
				continue
			}
			got := make(map[time.Time]bool)
			for _, run := range w.records[job] {
				got[run.Tick] = run.Outcome == schedule.Succeeded
			}
			for tick := schedule.Every(time.Second).Next(w.begins[job]); tick.Before(until); tick = tick.Add(time.Second) {
				if !got[tick] {
					lost = append(lost, job+" "+at(tick))
				}
			}
		}
		w.mu.Unlock()
		if len(lost) == 0 || time.Now().After(deadline) {
			return lost
		}
	}
}

func startReplica(t *testing.T, servers string) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(slices.Clone(os.Environ()), asReplica+"="+servers)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd
}
