// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// asReplica makes this test binary a replica, on these servers.
const asReplica = "CURATOR_TEST_REPLICA_OF"

func TestMain(m *testing.M) {
	if servers := os.Getenv(asReplica); servers != "" {
		runAsReplica(servers)
		return
	}
	zktest.Main(m)
}

// root is the path of the fleet of a test.
const root = "/fleet"

// world is a fleet on fake time: replicas with a client, a link and a clock each, what their functions did, and
// what the servers have recorded.
type world struct {
	tb     testing.TB
	server *zkserver.Server
	theirs *framework.Framework // of the test
	log    *slog.Logger         // of the replicas

	mu      sync.Mutex
	story   []string
	calls   []call
	records map[string][]schedule.Run // by job: all that the history has ever had, the oldest first
	begins  map[string]time.Time      // by job: the ticks after it count
	broken  []string
}

// call is a call of a job's function.
type call struct {
	schedule.Tick
	by    *replica
	began time.Time
	ended time.Time // zero while it runs
	err   error
	lease *locks.Lease
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{
		tb: tb, log: slog.New(slog.DiscardHandler), server: zktest.NewServer(tb, zkserver.WithoutListener()),
		records: make(map[string][]schedule.Run), begins: make(map[string]time.Time),
	}
	w.theirs = zktest.Client(tb, w.server)
	return w
}

// play plays a test with a fleet on fake time, and collects what the history of its job ever has.
func play(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.observe()
		test(t, w)
	})
}

func playAs(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) { play(t, test) })
}

func (w *world) didf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.didLockedf(format, args...)
}

func (w *world) didLockedf(format string, args ...any) {
	w.story = append(w.story, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) brokenLockedf(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
	w.didLockedf("BROKEN: "+format, args...)
}

// replica is a process of the fleet.
type replica struct {
	w      *world
	name   string
	link   *zkproxy.Proxy
	client *framework.Framework
	skew   atomic.Int64 // of its clock, in nanoseconds
	stop   context.CancelFunc
	ended  chan error
}

// start starts a replica with these jobs, whose functions the world watches.
func (w *world) start(name string, skew time.Duration, jobs ...schedule.Job) *replica {
	w.tb.Helper()
	link := zktest.NewProxy(w.tb, w.server)
	r := &replica{w: w, name: name, link: link, client: zktest.Client(w.tb, link, framework.WithLogger(w.log)), ended: make(chan error, 1)}
	r.skew.Store(int64(skew))
	w.didf("%s starts, its clock differs by %v", name, skew)
	for i := range jobs {
		jobs[i].Run = w.watched(r, jobs[i].Run)
	}
	s := must.Get(schedule.New(r.client, root, jobs...))(w.tb)
	s.SetClock(func() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) })
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	done := make(chan struct{})
	w.tb.Cleanup(func() {
		link.Refuse(false)
		link.Heal()
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		r.ended <- s.Run(ctx)
	}()
	return r
}

// untilItsEnd is the function of a job that runs until its context ends, with a channel that is closed when it runs.
func untilItsEnd() (run func(context.Context, schedule.Tick) error, running <-chan struct{}) {
	begun := make(chan struct{})
	return func(ctx context.Context, _ schedule.Tick) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, begun
}

// leave ends a replica in order.
func (r *replica) leave() {
	r.w.tb.Helper()
	r.w.didf("%s leaves", r.name)
	r.stop()
	require.ErrorIs(r.w.tb, zktest.Await(r.w.tb, r.ended, "the end of "+r.name), context.Canceled)
	r.w.didf("%s has left", r.name)
}

// die ends a replica as kill -9 does: nothing more of it reaches the servers.
func (r *replica) die() {
	r.w.didf("%s dies", r.name)
	r.link.Refuse(true)
	r.link.Cut()
	r.stop()
}

// watched is the function of a job, with the checks that hold for each call.
func (w *world) watched(r *replica, run func(context.Context, schedule.Tick) error) func(context.Context, schedule.Tick) error {
	return func(ctx context.Context, tick schedule.Tick) error {
		n := w.began(r, locks.LeaseFrom(ctx), tick)
		var err error
		defer func() { // also after a panic
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls[n].ended, w.calls[n].err = time.Now(), err
			w.didLockedf("%s ends %s %s: %v", r.name, tick.Job, at(tick.Time), cmp.Or(err, context.Cause(ctx)))
		}()
		if run != nil {
			err = run(ctx, tick)
		}
		return err
	}
}

func (w *world) began(r *replica, lease *locks.Lease, tick schedule.Tick) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.didLockedf("%s runs %s %s, attempt %d, token %d", r.name, tick.Job, at(tick.Time), tick.Attempt, tick.Token)
	if early := time.Until(tick.Time); !tick.Manual && early > schedule.ClockTolerance {
		w.brokenLockedf("%s %s runs %v before it is due", tick.Job, at(tick.Time), early)
	}
	for _, c := range slices.Backward(w.calls) {
		if c.Job != tick.Job || c.Manual || tick.Manual {
			continue
		}
		switch {
		case c.Token > tick.Token:
			w.brokenLockedf("token %d after %d", tick.Token, c.Token)
		case c.Time.After(tick.Time):
			w.brokenLockedf("%s %s after %s", tick.Job, at(tick.Time), at(c.Time))
		case c.Time.Equal(tick.Time) && c.Attempt >= tick.Attempt:
			w.brokenLockedf("attempt %d of %s %s after %d", tick.Attempt, tick.Job, at(tick.Time), c.Attempt)
		case c.ended.IsZero() && c.lease.Err() == nil:
			w.brokenLockedf("%s %s while %s runs", tick.Job, at(tick.Time), at(c.Time))
		}
		break
	}
	w.calls = append(w.calls, call{Tick: tick, by: r, began: time.Now(), lease: lease})
	return len(w.calls) - 1
}

func at(t time.Time) string { return t.UTC().Format("15:04:05.999") }

// observe collects what the history of the job of a test ever has. It ends with the test.
func (w *world) observe() { follow(w, w.server, "job") }

func follow[T zktest.Target](w *world, server T, job string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.tb.Cleanup(func() {
		cancel()
		<-done
	})
	client := zktest.Client(w.tb, server)
	go func() {
		defer close(done)
		for node, err := range client.Follow(ctx, root+"/jobs/"+job+"/state") {
			if err == nil && node.Exists() && len(node.Data) > 0 {
				w.saw(job, node.Data)
			}
		}
	}()
}

func (w *world) saw(job string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var state schedule.Status
	if err := json.Unmarshal(data, &state); err != nil {
		w.brokenLockedf("state of %s: %v", job, err)
		return
	}
	if w.begins[job].IsZero() {
		w.begins[job] = state.Last
	}
	// A run by hand does not count.
	if len(state.History) > 0 && !state.History[0].Manual && (state.Failures == 0) != (state.History[0].Outcome == schedule.Succeeded) {
		w.brokenLockedf("%s: %d failures, the last run has %s", job, state.Failures, state.History[0].Outcome)
	}
	for _, run := range slices.Backward(state.History) {
		if slices.Contains(w.records[job], run) {
			continue
		}
		for _, before := range w.records[job] {
			switch {
			case run.Manual || before.Manual:
			case before.Tick.Equal(run.Tick):
				w.brokenLockedf("%s %s is recorded twice", job, at(run.Tick))
			case before.Tick.After(run.Tick):
				w.brokenLockedf("%s %s is recorded after %s", job, at(run.Tick), at(before.Tick))
			}
		}
		w.records[job] = append(w.records[job], run)
	}
}

func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.story, "\n")
}

// after checks what holds at all times when a time is over.
func (w *world) after(d time.Duration) {
	w.tb.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.check()
}

func (w *world) check() {
	w.tb.Helper()
	w.mu.Lock()
	broken := slices.Clone(w.broken)
	w.mu.Unlock()
	require.Empty(w.tb, broken, "%s", w.told())
}

// ticks returns the ticks of the job of a test that were recorded with an outcome.
func (w *world) ticks(outcome schedule.Outcome) (ticks []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range w.records["job"] {
		if run.Outcome == outcome && !run.Manual {
			ticks = append(ticks, run.Tick)
		}
	}
	return ticks
}

// started returns the calls of the job of a test.
func (w *world) started() (calls []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.Job == "job" {
			calls = append(calls, c)
		}
	}
	return calls
}

// state returns what the servers have of the job of a test.
func (w *world) state() (state schedule.Status) {
	w.tb.Helper()
	data, err := w.theirs.Get(w.tb.Context(), root+"/jobs/job/state")
	if errors.Is(err, framework.ErrNoNode) {
		return state
	}
	require.NoError(w.tb, err)
	require.NoError(w.tb, json.Unmarshal(data, &state))
	return state
}

// sleepInto sleeps until a time after the beginning of the next minute or hour.
func sleepInto(unit, after time.Duration) {
	time.Sleep(time.Until(schedule.Every(unit).Next(time.Now().UTC()).Add(after)))
}

const killTimeout = 6 * time.Second // of the sessions of the processes

// killJobs are the names of their jobs.
var killJobs = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// runAsReplica runs a replica until the process is killed.
func runAsReplica(servers string) {
	ctx := context.Background()
	client, err := framework.Connect(ctx, servers, framework.WithSessionTimeout(killTimeout))
	check(err)
	var jobs []schedule.Job
	for _, name := range killJobs {
		jobs = append(jobs, schedule.Job{
			Name: name, Schedule: schedule.Every(time.Second), Overlap: schedule.Queue(1_000_000),
			Run: func(ctx context.Context, _ schedule.Tick) error {
				select {
				case <-time.After(rand.N(300 * time.Millisecond)):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		})
	}
	s, err := schedule.New(client, root, jobs...)
	check(err)
	check(s.Run(ctx))
}
