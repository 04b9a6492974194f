// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func TestPausedJobDoesNotRunUntilItIsResumed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.start("a", 0, minutely())
		time.Sleep(90 * time.Second)
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Len(t, w.started(), 1)
		require.Equal(t, "paused", must.Get(schedule.List(t.Context(), w.theirs, root))(t)[0].Describe())

		checked := false
		remove := w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			checked = checked || r.Op == zkserver.OpMulti && r.SessionID == w.theirs.Session().ID()
			return zkserver.Pass
		})
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		require.True(t, checked, "a leader that is cut off shows the pause of before to those who only read")
		remove()

		require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
		synctest.Wait()
		require.Len(t, w.started(), 2)
		require.True(t, w.started()[1].Manual)

		require.NoError(t, schedule.Resume(t.Context(), w.theirs, root, "job"))
		w.after(time.Minute)
		require.Equal(t, minutes(began, time.Now()), w.ticks(schedule.Succeeded), "%s", w.told())
		require.Len(t, w.started(), 6, "the order was for one run")
	})
}

// TestRunThatIsAskedForOfAPausedJobIsRunAgain by another replica when its own dies in it.
func TestRunThatIsAskedForOfAPausedJobIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		job := minutely()
		hangs, running := untilItsEnd()
		job.Run = hangs
		a := w.start("a", 0, job)
		time.Sleep(30 * time.Second)
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
		<-running
		w.start("b", 0, minutely())
		time.Sleep(time.Minute)
		a.die()
		w.after(time.Minute)
		require.Len(t, w.started(), 2, "%s", w.told())
		require.True(t, w.started()[1].Manual)
		state := w.state()
		require.Nil(t, state.Running)
		require.Equal(t, schedule.Succeeded, state.History[0].Outcome)
	})
}

// TestRunUnderWayIsNotRepeatedInAPause, but after it: a run that has failed, or whose replica has died.
func TestRunUnderWayIsNotRepeatedInAPause(t *testing.T) {
	for name, dies := range map[string]bool{"failed": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				job := minutely()
				job.Retry = retry.Forever(10 * time.Second)
				first := job
				running := make(chan struct{}, 1)
				first.Run = func(ctx context.Context, tick schedule.Tick) error {
					if tick.Attempt > 1 {
						return nil
					}
					running <- struct{}{}
					if dies {
						<-ctx.Done()
					}
					return errors.New("it is broken")
				}
				a := w.start("a", 0, first)
				<-running
				if dies {
					a.die()
				}
				require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
				w.start("b", 0, job)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				require.Len(t, w.started(), 1, "%s", w.told())

				require.NoError(t, schedule.Resume(t.Context(), w.theirs, root, "job"))
				w.after(time.Second)
				calls := w.started()
				require.Greater(t, len(calls), 1)
				require.Equal(t, calls[0].Time, calls[1].Time, "%s", w.told())
				require.Equal(t, 2, calls[1].Attempt)
			})
		})
	}
}

// TestSkipNextSkipsTheTickThatIsWaitedFor, and no earlier one, when ticks were skipped or dropped since the last run.
func TestSkipNextSkipsTheTickThatIsWaitedFor(t *testing.T) {
	for name, before := range map[string]func(*world, *replica, schedule.Job) error{
		"a skip that meets the begin": func(w *world, a *replica, _ schedule.Job) error {
			w.beforeTheBegin(a, func() error { return skipNext(context.Background(), w.theirs, root, "job") })
			time.Sleep(30 * time.Second)
			return nil
		},
		"a pause whose ticks are dropped": func(w *world, _ *replica, _ schedule.Job) error {
			err := schedule.Pause(context.Background(), w.theirs, root, "job")
			time.Sleep(3 * time.Minute)
			return errors.Join(err, schedule.Resume(context.Background(), w.theirs, root, "job"))
		},
		"a time without replicas whose ticks are dropped": func(w *world, a *replica, job schedule.Job) error {
			a.leave()
			time.Sleep(3 * time.Minute)
			w.start("b", 0, job)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				job := minutely()
				job.CatchUp.Ticks = schedule.None
				a := w.start("a", 0, job)
				sleepInto(time.Minute, 30*time.Second)
				require.NoError(t, before(w, a, job))
				time.Sleep(10 * time.Second)
				next := schedule.Every(time.Minute).Next(time.Now().UTC())
				require.Equal(t, next, must.Get(schedule.SkipNext(t.Context(), w.theirs, root, "job"))(t), "%s", w.told())
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				for _, c := range w.started() {
					require.NotEqual(t, next, c.Time)
				}
			})
		})
	}
}

// TestListShowsAJobThatNoReplicaHas: its replicas have gone, and its state stays.
func TestListShowsAJobThatNoReplicaHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := minutely()
		fails.Name = "fails"
		fails.Run = func(context.Context, schedule.Tick) error { return context.Canceled }
		slow := minutely()
		slow.Name = "slow"
		slow.Run = func(context.Context, schedule.Tick) error {
			time.Sleep(50 * time.Second)
			return nil
		}
		a := w.start("a", 0, minutely(), fails, slow)
		time.Sleep(2*time.Minute + 10*time.Second)
		described := func() (words []string) {
			list := must.Get(schedule.List(t.Context(), w.theirs, root))(t)
			for _, e := range list {
				words = append(words, e.Name+": "+e.Describe())
			}
			return words
		}
		require.Equal(t, []string{"fails: failing", "job: waiting", "slow: running"}, described())
		a.leave()
		require.Equal(t, []string{"fails: no replica has it", "job: no replica has it", "slow: no replica has it"}, described())
	})
}

// TestListShowsTheOtherJobsToo: one has a state that is not JSON, and one may not be read.
func TestListShowsTheOtherJobsToo(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for job, state := range map[string]string{"a": "{{", "b": `{"last":"2000-01-01T00:00:00Z"}`, "c": ""} {
		must.Get(client.Create(t.Context(), root+"/jobs/"+job+"/state", []byte(state), framework.CreatingParentsIfNeeded()))(t)
	}
	require.NoError(t, client.SetACL(t.Context(), root+"/jobs/c/state", []framework.ACL{{Perms: framework.PermWrite, Scheme: "world", ID: "anyone"}}))
	list := must.Get(schedule.List(t.Context(), client, root))(t)
	require.Len(t, list, 3)
	require.Contains(t, list[0].Describe(), "/a/state: the data is not what this package writes")
	require.Equal(t, "no replica has it", list[1].Describe())
	require.Contains(t, list[2].Describe(), "/c/state")
}

func skipNext(ctx context.Context, client *framework.Framework, path, job string) error {
	_, err := schedule.SkipNext(ctx, client, path, job)
	return err
}

// TestOrdersForAJobThatIsNotThere, and what is wrong with a call.
func TestOrdersForAJobThatIsNotThere(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for name, call := range map[string]func(context.Context, *framework.Framework, string, string) error{
		"Pause": schedule.Pause, "Resume": schedule.Resume, "RunNow": schedule.RunNow, "SkipNext": skipNext,
	} {
		require.ErrorIs(t, call(t.Context(), client, root, "job"), framework.ErrNoNode, name)
		require.ErrorContains(t, call(t.Context(), client, root, "a/b"), `job "a/b", expected the name of a job`, name)
		require.ErrorContains(t, call(t.Context(), nil, root, "job"), "client nil", name)
		require.ErrorIs(t, call(nil, client, root, "job"), framework.ErrInvalidOption, name)
	}
	_, err := schedule.List(t.Context(), client, root)
	require.ErrorIs(t, err, framework.ErrNoNode)
}

// TestOrdersReachEachServer: the whole life of a job, on the embedded server and on ZooKeeper.
func TestOrdersOnBothServers(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ran := make(chan schedule.Tick, 100)
		s := must.Get(schedule.New(client, root, schedule.Job{
			Name: "job", Schedule: schedule.Every(200 * time.Millisecond),
			Run: func(_ context.Context, tick schedule.Tick) error {
				ran <- tick
				return nil
			},
		}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		first := zktest.Await(t, ran, "a tick")
		second := zktest.Await(t, ran, "the next tick")
		// A server that writes to a disk may take longer than an interval, and the ticks in it are dropped.
		require.Positive(t, second.Time.Sub(first.Time))
		require.Zero(t, second.Time.Sub(first.Time)%(200*time.Millisecond))
		require.NoError(t, schedule.Pause(t.Context(), client, root, "job"))
		require.NoError(t, schedule.RunNow(t.Context(), client, root, "job"))
		for manual := false; !manual; {
			manual = zktest.Await(t, ran, "the run that was asked for").Manual
		}
		require.NoError(t, schedule.Resume(t.Context(), client, root, "job"))
		require.False(t, zktest.Await(t, ran, "a tick after the pause").Manual)
		must.Get(schedule.SkipNext(t.Context(), client, root, "job"))(t)
		cancel()
		require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
		list := must.Get(schedule.List(t.Context(), client, root))(t)
		require.Len(t, list, 1)
		require.False(t, list[0].Known)
	})
}

// TestSkipNextSkipsOneTickWhenItsReplyIsLost: by the time that SkipNext asks again, the replica has heard of the skip.
func TestSkipNextSkipsOneTickWhenItsReplyIsLost(t *testing.T) {
	for name, fault := range map[string]zkserver.Fault{"reply": zkserver.LoseReply, "request": zkserver.LoseRequest} {
		playAs(t, name, func(t *testing.T, w *world) {
			w.start("a", 0, minutely())
			time.Sleep(90 * time.Second)
			w.server.Intercept(zkserver.Nth(1, zkserver.OpMulti, fault))
			require.Equal(t, 2, must.Get(schedule.SkipNext(t.Context(), w.theirs, root, "job"))(t).Minute())
			w.after(3 * time.Minute)
			require.Equal(t, []int{1, 3, 4}, minutesOf(w.ticks(schedule.Succeeded)), "%s", w.told())
		})
	}
}

// TestSkipNextSkipsNoTickThatHasBegun: the tick begins between the read and the write of SkipNext.
func TestSkipNextSkipsNoTickThatHasBegun(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.start("a", 0, minutely())
		time.Sleep(119 * time.Second)
		writes := 0
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if isWrite := r.Op == zkserver.OpMulti || r.Op == zkserver.OpSetData; !isWrite || r.SessionID != w.theirs.Session().ID() {
				return zkserver.Pass
			}
			if writes++; writes > 1 {
				return zkserver.Pass
			}
			return zkserver.Delay(2 * time.Second)
		})
		require.Equal(t, 3, must.Get(schedule.SkipNext(t.Context(), w.theirs, root, "job"))(t).Minute())
		w.after(2 * time.Minute)
		require.Equal(t, []int{1, 2, 4}, minutesOf(w.ticks(schedule.Succeeded)), "%s", w.told())
	})
}

// TestRunNowAsksForOneRunWhenItsReplyIsLost: by the time that RunNow asks again, the run has begun, and another call has asked for a
// run of its own.
func TestRunNowAsksForOneRunWhenItsReplyIsLost(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.start("a", 0, minutely())
		other := zktest.Client(t, w.server)
		time.Sleep(10 * time.Second)
		require.NoError(t, schedule.Pause(t.Context(), w.theirs, root, "job"))
		release := make(chan struct{})
		asks := 0
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.SessionID != w.theirs.Session().ID():
				return zkserver.Pass
			case r.Op == zkserver.OpSetData:
				if asks++; asks == 1 {
					return zkserver.LoseReply
				}
			case asks == 1 && strings.HasPrefix(r.Path, root):
				return zkserver.HoldUntil(release) // the look at what became of the write
			}
			return zkserver.Pass
		})
		asked := make(chan error, 1)
		go func() { asked <- schedule.RunNow(t.Context(), w.theirs, root, "job") }()
		time.Sleep(10 * time.Second)
		require.Len(t, w.started(), 1)
		require.NoError(t, schedule.RunNow(t.Context(), other, root, "job"))
		time.Sleep(time.Second)
		require.Len(t, w.started(), 2)

		close(release)

		require.NoError(t, <-asked)
		time.Sleep(10 * time.Second)
		w.check()
		require.Len(t, w.started(), 2, "%s", w.told())
	})
}

// TestRunNowAsksRestoredServersToo: an order that they have, and that differs from the one that was there before, is no newer one.
func TestRunNowAsksRestoredServersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", 0, minutely())
		time.Sleep(10 * time.Second)
		a.leave()
		before := w.server.Backup()
		require.NoError(t, schedule.RunNow(t.Context(), w.theirs, root, "job"))
		time.Sleep(time.Second)
		w.server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.NeverAnswer))
		asked := make(chan error, 1)
		go func() { asked <- schedule.RunNow(t.Context(), w.theirs, root, "job") }()
		synctest.Wait()
		require.Empty(t, asked)

		require.NoError(t, w.server.Stop())
		require.NoError(t, w.server.Restore(before, 1))
		require.NoError(t, w.server.Restart())

		require.NoError(t, <-asked)
		require.Contains(t, string(must.Get(w.theirs.Get(t.Context(), root+"/jobs/job"))(t)), `"run":`)
	})
}

// TestOrderOfRestoredServersIsHeeded, although it has the version of an order that they have forgotten and the runner has read.
func TestOrderOfRestoredServersIsHeeded(t *testing.T) {
	for name, c := range map[string]struct {
		forgotten, given func(ctx context.Context, client *framework.Framework, path, job string) error
		manual           []bool // the runs
	}{
		"a pause before a tick": {skipNext, schedule.Pause, nil},
		"a run after a pause":   {schedule.Pause, schedule.RunNow, []bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.start("a", 0, minutely())
				time.Sleep(30 * time.Second)
				var before *zkserver.Backup
				w.beforeTheBegin(a, func() error { // so that the runner writes nothing when it reads the order
					before = w.server.Backup()
					return c.forgotten(context.Background(), w.theirs, root, "job")
				})
				time.Sleep(80 * time.Second) // 1:50
				require.Contains(t, w.told(), "meanwhile: <nil>")
				a.link.Refuse(true)
				a.link.Cut()
				require.NoError(t, w.server.Stop())
				require.NoError(t, w.server.Restore(before, 1))
				require.NoError(t, w.server.Restart())
				require.NoError(t, c.given(t.Context(), w.theirs, root, "job"))
				sleepInto(time.Minute, time.Second) // 2:01, and a tick is due
				a.link.Refuse(false)
				w.after(30 * time.Second)
				var manual []bool
				for _, call := range w.started() {
					manual = append(manual, call.Manual)
				}
				require.Equal(t, c.manual, manual, "%s", w.told())
			})
		})
	}
}

// TestPauseThatEndsBeforeTheRunnerHearsOfIt: a slow server has the end of a run take longer than the pause.
func TestPauseThatEndsBeforeTheRunnerHearsOfIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		a := w.start("a", 0, schedule.Job{Name: "job", Schedule: schedule.Every(time.Second)})
		sleepInto(time.Second, 500*time.Millisecond)
		w.beforeTheWrite(2, a, func() error {
			err := schedule.Pause(context.Background(), w.theirs, root, "job")
			time.Sleep(3 * time.Second)
			return errors.Join(err, schedule.Resume(context.Background(), w.theirs, root, "job"))
		})
		time.Sleep(6 * time.Second)
		synctest.Wait()
		ticks := w.ticks(schedule.Succeeded)
		require.Len(t, ticks, 7, "%s", w.told())
		require.Equal(t, 6*time.Second, ticks[6].Sub(ticks[0]), "%s", w.told())
	})
}

// beforeTheBegin calls fn when the replica has sent the begin of a run, and before the server applies it.
func (w *world) beforeTheBegin(of *replica, fn func() error) { w.beforeTheWrite(1, of, fn) }

// beforeTheWrite calls fn when the replica has sent the nth transaction from now on, and before the server applies it.
func (w *world) beforeTheWrite(nth int32, of *replica, fn func() error) {
	done := make(chan struct{})
	var count atomic.Int32
	w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != of.client.Session().ID() || r.Op != zkserver.OpMulti {
			return zkserver.Pass
		}
		switch n := count.Add(1); {
		case n < nth:
			return zkserver.Pass
		case n == nth:
			go func() {
				defer close(done)
				w.didf("meanwhile: %v", fn())
			}()
		}
		return zkserver.HoldUntil(done)
	})
}

// TestRunnerWithoutItsLeaseWritesNothing: the node of the lease goes when the begin or the end of a run is on its way, as
// for a process that was paused there. No successor has written the state yet, so its version would let the write in. A
// begin must not be applied, or the run would seem to be interrupted. Nor must an end, or a run would succeed without
// the lease.
func TestRunnerWithoutItsLeaseWritesNothing(t *testing.T) {
	for nth, name := range []string{"begin", "end"} {
		playAs(t, name, func(t *testing.T, w *world) {
			a := w.start("a", 0, minutely())
			time.Sleep(30 * time.Second)
			before := w.state().Token
			w.beforeTheWrite(int32(nth)+1, a, func() error {
				names, err := w.theirs.Children(context.Background(), root+"/jobs/job/lock")
				if err != nil {
					return err
				}
				return w.theirs.Delete(context.Background(), root+"/jobs/job/lock/"+names[0])
			})
			w.after(time.Minute)
			require.Contains(t, w.told(), "meanwhile: <nil>")
			require.Len(t, w.started(), nth+1, "%s", w.told())
			require.Len(t, w.state().History, 1)
			run := w.state().History[0]
			require.Equal(t, schedule.Succeeded, run.Outcome)
			require.Equal(t, nth+1, run.Attempt)
			require.Greater(t, run.Token, before, "it has run under the next lease")
		})
	}
}

// TestStateOfAnotherRunnerIsNotOverwritten, but read: as restored servers may have it.
func TestStateOfAnotherRunnerIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", 0, minutely())
		time.Sleep(30 * time.Second)
		tomorrow := time.Now().Add(24 * time.Hour).UTC()
		w.beforeTheBegin(a, func() error {
			data, err := json.Marshal(schedule.Status{Last: tomorrow, Token: 1})
			if err != nil {
				return err
			}
			return w.theirs.Set(context.Background(), root+"/jobs/job/state", data)
		})
		w.after(3 * time.Minute)
		require.Contains(t, w.told(), "meanwhile: <nil>")
		require.Empty(t, w.started(), "%s", w.told())
		require.Equal(t, tomorrow, w.state().Last)
	})
}

// TestOrdersNameTheJobsThatThereAre, up to a number.
func TestOrdersNameTheJobsThatThereAre(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for i := range 21 {
		must.Get(client.Create(t.Context(), fmt.Sprintf("%s/jobs/job-%02d/state", root, i), []byte("{}"), framework.CreatingParentsIfNeeded()))(t)
		if err := schedule.RunNow(t.Context(), client, root, "nope"); i == 1 {
			require.ErrorIs(t, err, framework.ErrNoNode)
			require.ErrorContains(t, err, `no job "nope", the fleet has: job-00, job-01: `)
		}
	}
	require.ErrorContains(t, schedule.Pause(t.Context(), client, root, "nope"), "job-18, job-19, and 1 more: ")
}
