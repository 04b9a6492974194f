// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// minutely is a job each minute.
func minutely() schedule.Job {
	return schedule.Job{Name: "job", Schedule: schedule.Every(time.Minute)}
}

// minutes returns the ticks of a job each minute from one time to another.
func minutes(from, to time.Time) (ticks []time.Time) {
	every := schedule.Every(time.Minute)
	for t := every.Next(from.UTC()); !t.After(to); t = every.Next(t) {
		ticks = append(ticks, t)
	}
	return ticks
}

// TestLostReplyOfTheStateIsResolvedByReading: whichever write of the state it is, the tick runs once.
func TestLostReplyOfTheStateIsResolvedByReading(t *testing.T) {
	for _, fault := range []struct {
		name  string
		fault zkserver.Fault
	}{{"reply lost", zkserver.LoseReply}, {"request lost", zkserver.LoseRequest}} {
		for n := 1; n <= 4; n++ { // two ticks
			playAs(t, fault.name, func(t *testing.T, w *world) {
				w.start("a", 0, minutely())
				time.Sleep(30 * time.Second)
				began := time.Now()
				w.server.Intercept(zkserver.Nth(n, zkserver.OpMulti, fault.fault))

				w.after(3 * time.Minute)
				require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
				require.Equal(t, []int{1, 1, 1}, attempts(w.started()), "%s", w.told())
			})
		}
	}
}

// TestPausedRunnerCannotWriteOverItsSuccessor: a process that stands still in a run for longer than its session
// finds the state of its successor.
func TestPausedRunnerCannotWriteOverItsSuccessor(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		paused, resume := make(chan struct{}), make(chan struct{})
		job := minutely()
		job.Run = func(context.Context, schedule.Tick) error {
			close(paused)
			<-resume // and not on the end of its context
			return nil
		}
		a := w.start("a", 0, job)
		<-paused
		a.link.Blackhole(zkproxy.Both)
		w.start("b", 0, minutely())
		time.Sleep(5 * time.Minute)
		require.NotEmpty(t, w.ticks(schedule.Succeeded), "the successor runs: %s", w.told())
		a.link.Heal()
		synctest.Wait()
		before := w.state()
		close(resume)
		synctest.Wait()
		require.Equal(t, before, w.state(), "the successor's state stays")

		w.after(5 * time.Minute)
		first := w.started()[0]
		require.Equal(t, minutes(first.Time.Add(-1), time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
		second := w.started()[1]
		require.Equal(t, first.Time, second.Time)
		require.Equal(t, 2, second.Attempt)
		require.Greater(t, second.Token, first.Token)
	})
}

func TestFailedRunIsRepeatedWithinItsDeadlineAndCounted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		broken := errors.New("the database is away")
		job := minutely()
		job.Retry = retry.NTimes(2, time.Second)
		job.Run = func(_ context.Context, tick schedule.Tick) error {
			if tick.Time.Minute()%3 == 0 {
				return broken
			}
			if tick.Attempt == 1 {
				panic("at first")
			}
			return nil
		}
		w.start("a", 0, job)

		w.after(3*time.Minute + 30*time.Second)
		require.Len(t, w.ticks(schedule.Succeeded), 2, "%s", w.told())
		require.Len(t, w.ticks(schedule.Failed), 1)
		for _, run := range w.state().History {
			if run.Outcome == schedule.Failed {
				require.Equal(t, 3, run.Attempt)
				require.Equal(t, "the database is away", run.Error)
			} else {
				require.Equal(t, 2, run.Attempt)
			}
		}
	})
}

func TestDeadlineEndsARun(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Deadline = 10 * time.Second
		job.Retry = retry.Forever(time.Second)
		job.Run = func(ctx context.Context, _ schedule.Tick) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w.start("a", 0, job)

		w.after(2*time.Minute + 30*time.Second)
		require.Len(t, w.ticks(schedule.Failed), 2)
		run := w.state().History[0]
		require.Equal(t, 10*time.Second, run.Ended.Sub(run.Began))
		require.Contains(t, run.Error, schedule.ErrDeadline.Error())
		require.Equal(t, 2, w.state().Failures)
	})
}

// TestCatchUp: what was due while no replica lived is run as the job says.
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		catchUp schedule.CatchUp
		late    []int // minutes before the second replica comes, which it runs; one is due then
	}{
		{"all", schedule.CatchUp{}, []int{4, 3, 2, 1, 0}},
		{"all of a window", schedule.CatchUp{Window: 150 * time.Second}, []int{2, 1, 0}},
		{"last", schedule.CatchUp{Ticks: schedule.Last}, []int{0}},
		{"last of a window", schedule.CatchUp{Ticks: schedule.Last, Window: time.Second}, nil},
		{"none", schedule.CatchUp{Ticks: schedule.None}, nil},
	} {
		playAs(t, c.name, func(t *testing.T, w *world) {
			job := minutely()
			job.CatchUp = c.catchUp
			sleepInto(time.Minute, 30*time.Second)
			a := w.start("a", 0, job)
			time.Sleep(time.Minute)
			a.leave()
			require.Len(t, w.ticks(schedule.Succeeded), 1)
			time.Sleep(5 * time.Minute)
			next := schedule.Every(time.Minute).Next(time.Now().UTC())
			w.start("b", 0, job)
			w.after(40 * time.Second)
			var want []time.Time
			for _, m := range c.late {
				want = append(want, next.Add(-time.Duration(m+1)*time.Minute))
			}
			want = append(want, next)
			require.Equal(t, want, w.ticks(schedule.Succeeded)[1:], "%s", w.told())
			require.Equal(t, int64(5-len(c.late)), w.state().Missed)
		})
	}
}

func TestDeadRunnersTickIsRunAgain(t *testing.T) {
	for _, atMostOnce := range []bool{false, true} {
		playAs(t, map[bool]string{false: "by default", true: "but not at most once"}[atMostOnce], func(t *testing.T, w *world) {
			job := minutely()
			job.AtMostOnce = atMostOnce
			dies := job
			var running <-chan struct{}
			dies.Run, running = untilItsEnd()
			a := w.start("a", 0, dies)
			<-running
			a.die()
			w.start("b", 0, job)

			w.after(5 * time.Minute)
			first := w.started()[0].Time
			want := minutes(first.Add(-1), time.Now())
			if atMostOnce {
				require.Equal(t, []time.Time{first}, w.ticks(schedule.Interrupted), "%s", w.told())
				want = want[1:]
			}
			require.Equal(t, want, w.ticks(schedule.Succeeded), "%s", w.told())
			second := w.started()[1]
			require.Equal(t, map[bool]int{false: 2, true: 1}[atMostOnce], second.Attempt)
		})
	}
}

// TestHandOverWaitsForTheRun, unless the job gives it up.
func TestHandOverWaitsForTheRun(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		playAs(t, map[bool]string{false: "by default", true: "unless it gives up"}[giveUp], func(t *testing.T, w *world) {
			job := minutely()
			job.GiveUp = giveUp
			slow := job
			running := make(chan struct{}, 1)
			slow.Run = func(ctx context.Context, tick schedule.Tick) error {
				if tick.Attempt > 1 {
					return nil
				}
				running <- struct{}{}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(20 * time.Second):
					return nil
				}
			}
			a := w.start("a", 0, slow)
			<-running
			leaves := time.Now()
			w.start("b", 0, job)
			a.leave()
			took := time.Since(leaves)

			w.after(time.Minute)
			calls := w.started()
			require.Equal(t, minutes(calls[0].Time.Add(-1), time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
			if giveUp {
				require.Less(t, took, time.Second)
				require.Equal(t, []int{1, 2, 1}, attempts(calls))
			} else {
				require.GreaterOrEqual(t, took, 20*time.Second)
				require.Equal(t, []int{1, 1}, attempts(calls))
			}
		})
	}
}

// TestHandOverInThePauseBeforeARepetition: the next replica repeats the run at once.
func TestHandOverInThePauseBeforeARepetition(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Retry = retry.Forever(time.Hour)
		failing := job
		failed := make(chan struct{}, 1)
		failing.Run = func(context.Context, schedule.Tick) error {
			failed <- struct{}{}
			return errors.New("the database is away")
		}
		a := w.start("a", 0, failing)
		<-failed
		leaves := time.Now()
		w.start("b", 0, job)
		a.leave()
		require.Less(t, time.Since(leaves), time.Second)
		w.after(time.Minute)
		require.Equal(t, []int{1, 2, 1}, attempts(w.started()))
		require.Equal(t, minutes(w.started()[0].Time.Add(-1), time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
	})
}

func attempts(calls []call) (attempts []int) {
	for _, c := range calls {
		attempts = append(attempts, c.Attempt)
	}
	return attempts
}

// TestIdleReplicaMakesNoRequests, and a tick takes two.
func TestIdleReplicaMakesNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		job := schedule.Job{Name: "job", Schedule: schedule.Every(time.Hour)}
		a := w.start("a", 0, job)
		sleepInto(time.Hour, time.Minute)
		var mu sync.Mutex
		var ops []zkserver.OpCode
		sent := func() []zkserver.OpCode {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(ops)
		}
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == a.client.Session().ID() && r.Op != zkserver.OpPing {
				mu.Lock()
				ops = append(ops, r.Op)
				mu.Unlock()
			}
			return zkserver.Pass
		})

		time.Sleep(58 * time.Minute)
		synctest.Wait()
		require.Empty(t, sent())

		w.after(time.Minute + time.Second)
		require.Equal(t, slices.Repeat([]zkserver.OpCode{zkserver.OpMulti}, 2), sent())
	})
}

// TestRequestsOfATakeOver: for the job itself the next replica makes seven requests, three of them for the lease.
func TestRequestsOfATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		job := schedule.Job{Name: "job", Schedule: schedule.Every(time.Hour)}
		a := w.start("a", 0, job)
		sleepInto(time.Hour, time.Minute)
		b := w.start("b", 0, job)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		before := w.state().Runner
		var mu sync.Mutex
		sent := make(map[zkserver.OpCode]int)
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == b.client.Session().ID() && strings.Contains(r.Path, "/jobs/job") {
				mu.Lock()
				sent[r.Op]++
				mu.Unlock()
			}
			return zkserver.Pass
		})

		a.die()
		time.Sleep(time.Minute)
		synctest.Wait()

		require.NotEqual(t, before, w.state().Runner)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[zkserver.OpCode]int{
			zkserver.OpCreate2: 1, zkserver.OpGetChildren2: 1, // the queue
			zkserver.OpGetData: 4, // the state and the orders, the orders again and the node, with watches
			zkserver.OpMulti:   1, // the state
		}, sent)
	})
}
