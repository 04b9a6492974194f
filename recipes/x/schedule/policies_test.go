// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestOverlap: a run of each third minute lasts for 150 seconds, in which two ticks are due.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		name      string
		overlap   schedule.Overlap
		succeeded []int // the minutes
		cancelled []int
		missed    int64
	}{
		{"skip", schedule.Skip, []int{1, 4, 7}, nil, 6},
		{"queue of one", schedule.Queue(1), []int{1, 3, 4, 6, 7, 9}, nil, 3},
		{"queue of many", schedule.Queue(9), []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, 0},
		{"cancel", schedule.Cancel, []int{2, 3, 5, 6, 8, 9}, []int{1, 4, 7}, 0},
	} {
		playAs(t, c.name, func(t *testing.T, w *world) {
			job := minutely()
			job.Overlap, job.Retry = c.overlap, retry.Forever(time.Second)
			job.Run = func(ctx context.Context, tick schedule.Tick) error {
				d := time.Millisecond
				if tick.Time.Minute()%3 == 1 {
					d = 150 * time.Second
				}
				select {
				case <-ctx.Done():
					require.ErrorIs(t, context.Cause(ctx), schedule.ErrOverlap)
					return ctx.Err()
				case <-time.After(d):
					return nil
				}
			}
			w.start("a", 0, job)

			w.after(9*time.Minute + 45*time.Second)
			require.Equal(t, c.succeeded, minutesOf(w.ticks(schedule.Succeeded)), "%s", w.told())
			require.Equal(t, c.cancelled, minutesOf(w.ticks(schedule.Cancelled)))
			require.Equal(t, c.missed, w.state().Missed)
		})
	}
}

func minutesOf(ticks []time.Time) (minutes []int) {
	for _, tick := range ticks {
		minutes = append(minutes, tick.Minute())
	}
	return minutes
}

// TestClockThatDiffers: within the tolerance it counts. Beyond that a tick runs when both clocks say so, and the
// log says that they differ, whether the clock has always been wrong or jumps.
func TestClockThatDiffers(t *testing.T) {
	for _, c := range []struct {
		name   string
		before time.Duration // the clock jumps in the first half minute
		skew   time.Duration
		begins time.Duration // of a run, after its tick by the servers' clock
		runs   int
		warns  bool
	}{
		{"exact", 0, 0, 0, 3, false},
		{"ahead within the tolerance", 5 * time.Second, 5 * time.Second, -5 * time.Second, 3, false},
		{"behind within the tolerance", -5 * time.Second, -5 * time.Second, 5 * time.Second, 3, false},
		{"ahead by a minute", time.Minute, time.Minute, 0, 3, true},
		{"behind by a minute", -time.Minute, -time.Minute, time.Minute, 2, true},
		{"behind by a day", -24 * time.Hour, -24 * time.Hour, 0, 0, true},
		{"jumps ahead", 0, time.Hour, 0, 3, true},
		{"jumps back", 0, -time.Minute, time.Minute, 2, true},
		{"is set right", time.Minute, 0, 0, 3, true},
	} {
		playAs(t, c.name, func(t *testing.T, w *world) {
			var log strings.Builder
			w.log = slog.New(slog.NewTextHandler(&log, nil))
			job := schedule.Job{Name: "job", Schedule: schedule.Every(10 * time.Minute)}
			sleepInto(10*time.Minute, 15*time.Second)
			a := w.start("a", c.before, job)
			time.Sleep(10 * time.Second)
			a.skew.Store(int64(c.skew))

			w.after(30*time.Minute + 5*time.Second)
			calls := w.started()
			require.Len(t, calls, c.runs, "%s", w.told())
			for _, call := range calls {
				// A write shows the servers' time in milliseconds.
				require.InDelta(t, c.begins.Seconds(), call.began.Sub(call.Time).Seconds(), 0.01)
			}
			a.leave()
			require.Equal(t, c.warns, strings.Contains(log.String(), "the clock of this process differs"), "%s", log.String())
		})
	}
}

// TestJitterDelaysRunsAndNotTicks.
func TestJitterDelaysRunsAndNotTicks(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Jitter = 30 * time.Second
		began := time.Now()
		w.start("a", 0, job)
		w.after(20*time.Minute + 45*time.Second)
		require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded))
		delays := make(map[time.Duration]bool)
		for _, c := range w.started() {
			delay := c.began.Sub(c.Time)
			require.True(t, 0 <= delay && delay < 30*time.Second, "%v", delay)
			delays[delay] = true
		}
		require.Greater(t, len(delays), 10, "they differ")
	})
}

// TestNameThatTwoJobsHave: the first of them runs, on each replica, and the log says so. The second runs while the first does not have
// the name.
func TestNameThatTwoJobsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		for path, names := range map[string]string{"/tenants": "eu", "/regions": "eu\nus\nplain"} {
			must.Get(w.theirs.Create(t.Context(), path, []byte(names)))(t)
		}
		ran := make(map[string][]int)
		each := func(path string) schedule.Job {
			return schedule.Job{Each: path, Schedule: schedule.Every(time.Minute), Run: func(_ context.Context, tick schedule.Tick) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				ran[tick.Job+path] = append(ran[tick.Job+path], tick.Time.Minute())
				return nil
			}}
		}
		plain := each("")
		plain.Name = "plain"
		for _, name := range []string{"a", "b"} {
			w.start(name, 0, each("/tenants"), each("/regions"), plain)
		}
		time.Sleep(2*time.Minute + 30*time.Second)
		require.NoError(t, w.theirs.Set(t.Context(), "/tenants", nil))
		time.Sleep(2 * time.Minute)
		require.NoError(t, w.theirs.Set(t.Context(), "/tenants", []byte("ada\neu\t5")))
		w.after(2 * time.Minute)
		require.Equal(t, map[string][]int{
			"eu/tenants": {1, 2, 5, 6}, "eu/regions": {3, 4}, "ada/tenants": {5, 6}, "us/regions": {1, 2, 3, 4, 5, 6}, "plain": {1, 2, 3, 4, 5, 6},
		}, ran, "%s", w.told())
		require.Contains(t, log.String(), `names="eu, plain" of=/regions`)
	})
}

// TestScheduleThatMisbehavesEndsNothingElse.
func TestScheduleThatMisbehavesEndsNothingElse(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		began := time.Now()
		a := w.start("a", 0, minutely(), schedule.Job{Name: "stuck", Schedule: broken{}}, schedule.Job{Name: "panics", Schedule: broken{panics: true}})
		w.after(3*time.Minute + time.Second)
		require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded))
		a.leave()
		require.Contains(t, log.String(), "expected a later time")
		require.Contains(t, log.String(), "what is this")
	})
}

type broken struct{ panics bool }

func (b broken) Next(t time.Time) time.Time {
	if b.panics {
		panic("what is this")
	}
	return t
}

// TestWhatIsWrongWithAJobIsSaid, before anything is sent.
func TestWhatIsWrongWithAJobIsSaid(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	good := func(change func(*schedule.Job)) []schedule.Job {
		job := minutely()
		job.Run = func(context.Context, schedule.Tick) error { return nil }
		change(&job)
		return []schedule.Job{job}
	}
	_, err := schedule.New(nil, root, good(func(*schedule.Job) {})...)
	require.ErrorContains(t, err, "client nil")
	for _, hour := range []int{0, 23} { // midnight, too
		must.Get(schedule.New(client, root, good(func(j *schedule.Job) { j.Schedule = schedule.Daily(hour, 0, time.UTC) })...))(t)
	}
	_, err = schedule.New(client, "fleet", good(func(*schedule.Job) {})...)
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	for want, jobs := range map[string][]schedule.Job{
		"no jobs, expected at least one":        {},
		"two jobs \"job\"":                      append(good(func(*schedule.Job) {}), good(func(*schedule.Job) {})...),
		"without a name":                        good(func(j *schedule.Job) { j.Name = "" }),
		"expected one of them":                  good(func(j *schedule.Job) { j.Each = "/names" }),
		"job of each of names":                  good(func(j *schedule.Job) { j.Name, j.Each = "", "names" }),
		"without a slash":                       good(func(j *schedule.Job) { j.Name = "a/b" }),
		"schedule nil":                          good(func(j *schedule.Job) { j.Schedule = nil }),
		"schedule nil, expected":                good(func(j *schedule.Job) { j.Schedule = (*broken)(nil) }),
		"policy is a nil *retry.Budget":         good(func(j *schedule.Job) { j.Retry = (*retry.Budget)(nil) }),
		"function nil":                          good(func(j *schedule.Job) { j.Run = nil }),
		"Every(0s), expected a millisecond":     good(func(j *schedule.Job) { j.Schedule = schedule.Every(0) }),
		"Daily(24, 0), expected an hour":        good(func(j *schedule.Job) { j.Schedule = schedule.Daily(24, 0, time.UTC) }),
		"Daily(3, 0, nil), expected a location": good(func(j *schedule.Job) { j.Schedule = schedule.Daily(3, 0, nil) }),
		"catch-up of Ticks(7)":                  good(func(j *schedule.Job) { j.CatchUp.Ticks = 7 }),
		"catch-up window -1s":                   good(func(j *schedule.Job) { j.CatchUp.Window = -time.Second }),
		"overlap -1":                            good(func(j *schedule.Job) { j.Overlap = schedule.Queue(-1) }),
		"overlap -2":                            good(func(j *schedule.Job) { j.Overlap = schedule.Queue(-2) }),
		"deadline -1s":                          good(func(j *schedule.Job) { j.Deadline = -time.Second }),
		"jitter -1s":                            good(func(j *schedule.Job) { j.Jitter = -time.Second }),
		"AtMostOnce with a Retry policy":        good(func(j *schedule.Job) { j.AtMostOnce, j.Retry = true, retry.OneTime(0) }),
	} {
		_, err := schedule.New(client, root, jobs...)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "schedule: "+root)
	}
	s := must.Get(schedule.New(client, root, good(func(*schedule.Job) {})...))(t)
	require.ErrorIs(t, s.Run(nil), framework.ErrInvalidOption) //nolint:staticcheck // the mistake
}

// TestHeldBackRunnerAsksForTheServersTimeAgain: theirs may have been wrong when the runner learned it. Only a tick for
// which the difference matters is a reason to ask.
func TestHeldBackRunnerAsksForTheServersTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sleepInto(10*time.Minute, 15*time.Second)
		a := w.start("a", 3*time.Minute, schedule.Job{Name: "job", Schedule: schedule.Every(10 * time.Minute)})
		time.Sleep(10 * time.Second)
		var writes atomic.Int32
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == a.client.Session().ID() && r.Op == zkserver.OpMulti {
				writes.Add(1)
			}
			return zkserver.Pass
		})
		time.Sleep(6 * time.Minute)
		require.Zero(t, writes.Load())
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		require.Len(t, w.started(), 1, "%s", w.told())
		require.Equal(t, int32(3+2), writes.Load(), "each minute, and the tick")
	})
}

// crowd is a schedule of a program with a tick each millisecond of a time.
type crowd struct {
	from, to time.Time
	asked    *atomic.Int64
}

func (c crowd) Next(t time.Time) time.Time {
	c.asked.Add(1)
	next := schedule.Every(time.Millisecond).Next(t)
	switch {
	case next.Before(c.from):
		return c.from
	case next.After(c.to):
		return time.Time{}
	default:
		return next
	}
}

func TestTicksAreDroppedWithoutALookAtEach(t *testing.T) {
	for _, c := range []struct {
		name    string
		catchUp schedule.CatchUp
		overlap schedule.Overlap
		takes   time.Duration // the first run
		runs    int           // the newest ticks
	}{
		{"last", schedule.CatchUp{Ticks: schedule.Last}, schedule.Skip, 0, 1},
		{"none", schedule.CatchUp{Ticks: schedule.None}, schedule.Skip, 0, 0},
		{"all of a window", schedule.CatchUp{Window: 10*time.Minute + 4*time.Millisecond}, schedule.Skip, 0, 5},
		{"queue", schedule.CatchUp{}, schedule.Queue(3), 20 * time.Minute, 4},
	} {
		playAs(t, c.name, func(t *testing.T, w *world) {
			job := minutely()
			job.Schedule = schedule.Every(10 * time.Minute)
			sleepInto(time.Hour, time.Minute)
			a := w.start("a", 0, job) // the job begins
			time.Sleep(time.Minute)
			a.leave()
			began := w.state().Last
			time.Sleep(time.Hour)
			ticks := crowd{from: began, to: time.Now().UTC(), asked: new(atomic.Int64)}
			time.Sleep(10 * time.Minute)
			if c.takes > 0 {
				ticks.from, ticks.to = time.Now().Add(time.Second).UTC(), time.Now().Add(15*time.Minute).UTC()
			}
			job.Schedule, job.CatchUp, job.Overlap, job.Run = ticks, c.catchUp, c.overlap, lasting(c.takes)
			w.start("b", 0, job)
			w.after(c.takes + time.Minute)
			got := w.ticks(schedule.Succeeded)
			require.Len(t, got, c.runs)
			for i, tick := range got {
				if i == 0 && c.takes > 0 { // the others are due during this run
					require.Equal(t, ticks.from, tick)
					continue
				}
				require.Equal(t, ticks.to.Add(time.Duration(i+1-len(got))*time.Millisecond), tick)
			}
			require.Less(t, ticks.asked.Load(), int64(250_000))
		})
	}
}

func TestEveryDroppedTickOfEveryIsCounted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Schedule, job.CatchUp.Ticks = schedule.Every(10*time.Minute), schedule.Last
		sleepInto(time.Hour, time.Second)
		a := w.start("a", 0, job)
		time.Sleep(time.Minute)
		a.leave()
		before := w.state().Next.Add(-time.Millisecond)
		time.Sleep(50 * time.Minute)
		job.Schedule, job.Run = schedule.Every(time.Millisecond), lasting(time.Hour)
		w.start("b", 0, job)
		w.after(time.Second)
		runs := w.started()
		require.Equal(t, runs[len(runs)-1].Time.Sub(before)/time.Millisecond, time.Duration(w.state().Missed+1))
		require.Greater(t, w.state().Missed, int64(40*60*1000))
	})
}

// TestOrderInAPauseBetweenRepetitions does not begin the policy and the deadline of the run again.
func TestOrderInAPauseBetweenRepetitions(t *testing.T) {
	for name, set := range map[string]func(*schedule.Job){
		"a number":   func(j *schedule.Job) { j.Retry = retry.NTimes(2, 10*time.Second) },
		"a deadline": func(j *schedule.Job) { j.Retry, j.Deadline = retry.Forever(10*time.Second), 25*time.Second },
	} {
		playAs(t, name, func(t *testing.T, w *world) {
			job := minutely()
			job.Run = func(context.Context, schedule.Tick) error { return errors.New("it is broken") }
			set(&job)
			sleepInto(time.Minute, 30*time.Second)
			w.start("a", 0, job)
			time.Sleep(35 * time.Second)
			must.Get(schedule.SkipNext(t.Context(), w.theirs, root, "job"))(t)
			w.after(80 * time.Second)
			require.Len(t, w.started(), 3, "%s", w.told())
			require.Len(t, w.ticks(schedule.Failed), 1)
		})
	}
}
