// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// lasting is a function that lasts for d at the first call, and for no time later.
func lasting(d time.Duration) func(context.Context, schedule.Tick) error {
	called := false
	return func(context.Context, schedule.Tick) error {
		if !called {
			called = true
			time.Sleep(d)
		}
		return nil
	}
}

// TestTicksDuringAnOrderedRunOverlapIt, as they overlap a run of a tick.
func TestTicksDuringAnOrderedRunOverlapIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Run = lasting(5 * time.Minute)
		sleepInto(time.Minute, 10*time.Second)
		began := time.Now()
		w.start("a", 0, job)
		time.Sleep(10 * time.Second)
		require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
		w.after(7 * time.Minute)
		require.Equal(t, minutes(began.Add(5*time.Minute), time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
		require.Equal(t, int64(5), w.state().Missed)
	})
}

// breaks is a schedule that fails after its first tick.
type breaks struct {
	tick  time.Time
	fails func(time.Time) time.Time
}

func (b breaks) Next(t time.Time) time.Time {
	if t.Before(b.tick) {
		return b.tick
	}
	return b.fails(t)
}

// TestRunIsRecordedAlthoughItsScheduleFails, and so it runs once.
func TestRunIsRecordedAlthoughItsScheduleFails(t *testing.T) {
	for name, fails := range map[string]func(time.Time) time.Time{
		"the same":         func(t time.Time) time.Time { return t },
		"earlier":          func(t time.Time) time.Time { return t.Add(-time.Hour) },
		"a panic":          func(time.Time) time.Time { panic("what is this") },
		"the far future":   func(time.Time) time.Time { return time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"never":            func(time.Time) time.Time { return time.Time{} },
		"the distant past": func(time.Time) time.Time { return time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		playAs(t, name, func(t *testing.T, w *world) {
			tick := time.Now().Add(time.Minute).UTC()
			w.start("a", 0, schedule.Job{Name: "job", Schedule: breaks{tick, fails}, Overlap: schedule.Cancel, CatchUp: schedule.CatchUp{Ticks: schedule.Last}})
			w.after(10 * time.Minute)
			require.Len(t, w.started(), 1, "%s", w.told())
			require.Equal(t, []time.Time{tick}, w.ticks(schedule.Succeeded))
			if name == "never" || name == "the far future" {
				require.Zero(t, w.state().Next)
			} else { // it stays, so that a schedule that is mended has the ticks since then
				require.Equal(t, tick, w.state().Next)
			}
		})
	}
}

// TestRunUnderWhichTheServersGoIsRecorded, and is not run again: an outage that the lease outlasts, and restored servers, which have begun a
// new history since the run began, in which the lease lives on.
func TestRunUnderWhichTheServersGoIsRecorded(t *testing.T) {
	for name, happen := range map[string]func(*zkserver.Server) error{
		"an outage": func(server *zkserver.Server) error {
			time.AfterFunc(35*time.Second, func() { assert.NoError(t, server.Restart()) })
			return server.Stop()
		},
		"a restore": func(server *zkserver.Server) error {
			backup := server.Backup()
			return errors.Join(server.Stop(), server.Restore(backup, 1), server.Restart())
		},
	} {
		playAs(t, name, func(t *testing.T, w *world) {
			client := zktest.Client(t, w.server, framework.WithSessionTimeout(40*time.Second))
			calls := 0
			s := must.Get(schedule.New(client, root, schedule.Job{
				Name: "job", Schedule: schedule.Every(time.Hour), Run: func(context.Context, schedule.Tick) error {
					calls++
					return happen(w.server)
				},
			}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			sleepInto(time.Hour, 10*time.Minute)
			synctest.Wait()
			require.Equal(t, 1, calls)
			require.Len(t, w.ticks(schedule.Succeeded), 1)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
	}
}

// nilError panics when it is asked what it says.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// TestErrorThatPanicsIsRecorded, as of a function that returns a nil pointer as its error.
func TestErrorThatPanicsIsRecorded(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Run = func(context.Context, schedule.Tick) error { return (*nilError)(nil) }
		w.start("a", 0, job)
		w.after(2*time.Minute + 30*time.Second)
		require.Len(t, w.started(), 2)
		require.Len(t, w.ticks(schedule.Failed), 2)
	})
}

// TestJobWhoseStateIsBrokenConcernsNoOther: it runs again when its state is mended.
func TestJobWhoseStateIsBrokenConcernsNoOther(t *testing.T) {
	none, all := []framework.ACL{{Perms: framework.PermAdmin, Scheme: "world", ID: "anyone"}}, framework.OpenACL()
	for name, c := range map[string]struct {
		state string
		acl   []framework.ACL
	}{
		"garbage":       {"\x00\xff{", nil},
		"another type":  {`{"last":7}`, nil},
		"no permission": {"", none},
	} {
		playAs(t, name, func(t *testing.T, w *world) {
			path := root + "/jobs/broken/state"
			must.Get(w.theirs.Create(t.Context(), path, []byte(c.state), framework.CreatingParentsIfNeeded()))(t)
			if c.acl != nil {
				require.NoError(t, w.theirs.SetACL(t.Context(), path, c.acl))
			}
			began := time.Now()
			other := minutely()
			other.Name = "broken"
			w.start("a", 0, minutely(), other)
			w.after(3*time.Minute + time.Second)
			require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded))
			require.Len(t, w.calls, 3, "%s", w.told())

			require.NoError(t, w.theirs.SetACL(t.Context(), path, all))
			require.NoError(t, w.theirs.Set(t.Context(), path, nil))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Greater(t, len(w.calls), 5)
		})
	}
}

// TestOrdersDuringARunThatOverlapWouldCancel: no run is cancelled for a tick that is skipped, or for a paused job.
func TestOrdersDuringARunThatOverlapWouldCancel(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		job := minutely()
		job.Overlap = schedule.Cancel
		job.Run = func(ctx context.Context, _ schedule.Tick) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(90 * time.Second):
				return nil
			}
		}
		w.start("a", 0, job)
		sleepInto(time.Minute, 10*time.Second) // 1
		require.Equal(t, 2, must.Get(schedule.SkipNext(t.Context(), w.theirs, root, "job"))(t).Minute(), "the tick after the run under way")
		time.Sleep(2 * time.Minute) // 3
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		time.Sleep(90 * time.Second) // 4:30 is over
		require.NoError(t, schedule.Resume(t.Context(), w.theirs, root, "job"))
		time.Sleep(time.Minute) // 4, late, was cancelled for 5
		synctest.Wait()
		w.check()
		require.Equal(t, []int{1, 3}, minutesOf(w.ticks(schedule.Succeeded)), "%s", w.told())
		require.Equal(t, []int{4}, minutesOf(w.ticks(schedule.Cancelled)), "%s", w.told())
	})
}

// TestOrderDuringTheRunOfADeadReplica is for one run after the interrupted one, which is run again. While the job is
// paused, it is for the interrupted run.
func TestOrderDuringTheRunOfADeadReplica(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused %v", paused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				job := minutely()
				dies := job
				var running <-chan struct{}
				dies.Run, running = untilItsEnd()
				a := w.start("a", 0, dies)
				<-running
				a.die()
				if paused {
					require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
				}
				require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
				w.start("b", 0, job)
				w.after(3 * time.Minute)
				manual := 0
				for _, c := range w.started()[1:] {
					if c.Manual {
						manual++
					}
				}
				require.Equal(t, w.started()[0].Time, w.started()[1].Time, "%s", w.told())
				require.Equal(t, map[bool]int{false: 1, true: 0}[paused], manual, "%s", w.told())
			})
		})
	}
}

// TestPlanOfADeadReleaseIsForgotten by the next replica that starts, and that of a living one is not.
func TestPlanOfADeadReleaseIsForgotten(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		named := func(name string) schedule.Job {
			job := minutely()
			job.Name = name
			return job
		}
		plans := func() (created []int64) {
			groups := must.Get(w.theirs.Children(t.Context(), root+"/fleets"))(t)
			for _, id := range groups {
				stat := must.Get(w.theirs.Exists(t.Context(), root+"/fleets/"+id+"/plan"))(t)
				if stat != nil {
					created = append(created, stat.Czxid)
				}
			}
			slices.Sort(created)
			return created
		}
		began := time.Now()
		w.start("a", 0, minutely())
		time.Sleep(30 * time.Second)
		ofA := plans()
		require.Len(t, ofA, 1)
		b := w.start("b", 0, named("of b"))
		c := w.start("c", 0, named("of c"))
		time.Sleep(time.Minute)
		b.die()
		c.die()
		time.Sleep(5 * time.Minute)
		require.Len(t, plans(), 3)

		w.start("d", 0, named("of d"))
		w.after(10 * time.Minute)
		require.Len(t, plans(), 2, "of a and of d")
		require.Equal(t, ofA[0], plans()[0], "it was never deleted")
		require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
		require.Len(t, must.Get(w.theirs.Children(t.Context(), root+"/fleets"))(t), 2, "the empty folders are containers")
	})
}

// TestReplicasShareJobsWhateverTheirOrder: two programs may name the same jobs in another order.
func TestReplicasShareJobsWhateverTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := minutely(), minutely()
		second.Name = "second"
		w.start("a", 0, first, second)
		w.start("b", 0, second, first)
		time.Sleep(time.Minute)
		require.Len(t, must.Get(w.theirs.Children(t.Context(), root+"/fleets"))(t), 1)
	})
}

// TestTicksThatComeInACatchUpAreRun: no run is longer than the interval, so none overlaps.
func TestTicksThatComeInACatchUpAreRun(t *testing.T) {
	for name, overlap := range map[string]schedule.Overlap{"skip": schedule.Skip, "queue": schedule.Queue(1), "cancel": schedule.Cancel} {
		playAs(t, name, func(t *testing.T, w *world) {
			job := minutely()
			job.Overlap = overlap
			job.Run = func(ctx context.Context, _ schedule.Tick) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(20 * time.Second):
					return nil
				}
			}
			sleepInto(time.Minute, 30*time.Second)
			began := time.Now()
			a := w.start("a", 0, job)
			time.Sleep(time.Second)
			a.leave()
			time.Sleep(20 * time.Minute)
			w.start("b", 0, job)
			time.Sleep(5 * time.Minute)
			require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job")) // which makes the ticks that wait no later
			w.after(10*time.Minute + 5*time.Second)
			require.Equal(t, minutes(began, time.Now().Add(-30*time.Second)), w.ticks(schedule.Succeeded), "%s", w.told())
			require.Zero(t, w.state().Missed)
		})
	}
}

// TestScheduleThatBecomesFrequent makes no ticks of the time in which none was due: its ticks begin with the next tick of the schedule
// before, or at the take-over.
func TestScheduleThatBecomesFrequent(t *testing.T) {
	at := func(d time.Duration) schedule.Schedule {
		return due(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d))
	}
	for name, c := range map[string]struct {
		before schedule.Schedule
		first  int // minute
	}{
		"none was due":             {at(time.Hour), 11},
		"there was no tick at all": {at(0), 11},
		"one was due meanwhile":    {at(7 * time.Minute), 7},
		"the same":                 {schedule.Every(time.Minute), 3},
	} {
		playAs(t, name, func(t *testing.T, w *world) {
			job := minutely()
			job.Schedule = c.before
			time.Sleep(30 * time.Second)
			a := w.start("a", 0, job)
			time.Sleep(2 * time.Minute)
			a.leave()
			ran := len(w.started())
			time.Sleep(8 * time.Minute)
			w.start("b", 0, minutely())
			w.after(2 * time.Minute)
			got := minutesOf(w.ticks(schedule.Succeeded))[ran:]
			var want []int
			for m := c.first; m <= 12; m++ {
				want = append(want, m)
			}
			require.Equal(t, want, got, "%s", w.told())
		})
	}
}

// TestInterruptedRunByHandOfAJobAtMostOnceIsNotRunAgain, as no other run of the job is.
func TestInterruptedRunByHandOfAJobAtMostOnceIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		job := minutely()
		job.AtMostOnce = true
		hangs, running := untilItsEnd()
		dies := job
		dies.Run = hangs
		sleepInto(time.Minute, time.Second)
		a := w.start("a", 0, dies)
		time.Sleep(time.Second)
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
		<-running
		w.start("b", 0, job)
		time.Sleep(time.Second)
		a.die()
		w.after(2 * time.Minute)
		require.Len(t, w.started(), 1, "%s", w.told())
		run := w.state().History[0]
		require.True(t, run.Manual)
		require.Equal(t, schedule.Interrupted, run.Outcome)
	})
}

// TestSkipThatLiesFarAhead, as somebody writes it by hand, is one look at the schedule, and no other order waits for it.
func TestSkipThatLiesFarAhead(t *testing.T) {
	for name, s := range map[string]schedule.Schedule{"every": schedule.Every(time.Second), "of a program": crowd{to: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), asked: new(atomic.Int64)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				job := minutely()
				job.Schedule, job.CatchUp.Ticks = s, schedule.None
				w.start("a", 0, job)
				time.Sleep(time.Second)
				require.NoError(t, w.theirs.Set(t.Context(), root+"/jobs/job", []byte(`{"skip":"3000-01-01T00:00:00Z"}`)))
				time.Sleep(time.Hour)
				require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
				synctest.Wait()
				calls := w.started()
				require.True(t, calls[len(calls)-1].Manual)
				require.Less(t, len(calls), 1100)
				require.Equal(t, 3000, w.state().Next.Year())
			})
		})
	}
}
