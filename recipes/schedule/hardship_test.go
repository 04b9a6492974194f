// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/recipes/schedule"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"New": "it makes no request",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), map[string]string{}) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

// scene is one run of a call, with the replicas that it has started, each in a fleet of its own.
type scene struct {
	*hardship.Stage

	mu       sync.Mutex
	count    int
	replicas []*running
}

// running is a replica with a job that is due.
type running struct {
	path   string
	cancel context.CancelFunc
	ran    chan struct{} // closed when the job has run
	ended  chan struct{}
	err    error
}

func newScene(s *hardship.Stage) *scene {
	c := &scene{Stage: s}
	_, err := s.Theirs.Create(context.Background(), s.Path, nil)
	require.NoError(s.T, err)
	s.End = func(error) {
		c.stopAll()
		c.requireNothing()
	}
	s.Rival = func() { s.End(nil) }
	return c
}

// due is the schedule with one tick.
type due time.Time

func (d due) Next(t time.Time) time.Time {
	if t.Before(time.Time(d)) {
		return time.Time(d)
	}
	return time.Time{}
}

// start runs a replica of a new fleet, whose job was due before.
func (c *scene) start() *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &running{path: fmt.Sprintf("%s/fleet-%d", c.Path, c.count), ran: make(chan struct{}), ended: make(chan struct{})}
	c.count++
	c.replicas = append(c.replicas, r)
	_, err := c.Theirs.Create(context.Background(), r.path+"/jobs/job/state", []byte(`{"last":"1999-12-31T00:00:00Z"}`), framework.CreatingParentsIfNeeded())
	require.NoError(c.T, err)
	var once sync.Once
	s, err := schedule.New(c.Ours, r.path, schedule.Job{
		Name: "job", Schedule: due(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
		Run: func(context.Context, schedule.Tick) error {
			once.Do(func() { close(r.ran) })
			return nil
		},
	})
	require.NoError(c.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.ended)
		r.err = s.Run(ctx)
	}()
	return r
}

// until waits until the job has run.
func (r *running) until(ctx context.Context) error {
	select {
	case <-r.ran:
		return nil
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
	}
}

// stop ends a replica, and returns an error that is not the end of its context.
func (r *running) stop() error {
	r.cancel()
	<-r.ended
	if errors.Is(r.err, context.Canceled) && !strings.Contains(r.err.Error(), "leave: ") {
		return nil
	}
	return r.err
}

func (c *scene) stopAll() {
	c.mu.Lock()
	replicas := c.replicas
	c.replicas = nil
	c.mu.Unlock()
	for _, r := range replicas {
		r.cancel()
	}
	for _, r := range replicas {
		<-r.ended
	}
}

// limit is when all that is left has gone: the session of a closed client has ended.
const limit = 2 * time.Minute

// requireNothing waits until no replica and no lease is left.
func (c *scene) requireNothing() {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		left := c.Ephemerals()
		if len(left) == 0 {
			return
		}
		require.True(c.T, time.Now().Before(deadline), "%s: %q are left", c.Name, left)
	}
}

// joining runs a replica until its job has run.
func joining(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	return func(ctx context.Context) error {
		r := c.start()
		err := r.until(ctx)
		if err != nil || s.Crowd {
			r.cancel()
		}
		return err
	}
}

// leaving ends the Run of a replica whose job has run.
func leaving(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	r := c.start()
	require.NoError(s.T, r.until(context.Background()), s.Name)
	time.Sleep(time.Second) // the run is recorded
	return func(ctx context.Context) error {
		result := make(chan error, 1)
		go func() { result <- r.stop() }()
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
		}
	}
}

// operating looks at a job without a replica, or orders something.
func operating(name string, requests int, call func(ctx context.Context, client *framework.Framework, path string) error) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{name}, Requests: requests, Spares: 1, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			state := []byte(`{"last":"1999-12-31T00:00:00Z","next":"2000-01-01T00:00:00Z"}`)
			_, err := s.Theirs.Create(context.Background(), s.Path+"/jobs/job/state", state, framework.CreatingParentsIfNeeded())
			require.NoError(s.T, err)
			return func(ctx context.Context) error { return call(ctx, s.Ours, s.Path) }
		},
	}
}

// pending lets a Run return before the server has confirmed that its member is gone.
func pending(err error) bool { return errors.Is(err, framework.ErrCleanupPending) }

func hardshipCalls() []hardship.Call {
	return []hardship.Call{
		{Name: "Run: a tick", Of: []string{"Scheduler.Run"}, Requests: 45, Spares: 6, Prepare: joining, Heap: 256 << 10},
		operating("List", 4, func(ctx context.Context, client *framework.Framework, path string) error {
			list, err := schedule.List(ctx, client, path)
			if err == nil && len(list) != 1 {
				return fmt.Errorf("%v, expected one job", list)
			}
			return err
		}),
		operating("Pause", 3, func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.Pause(ctx, client, path, "job")
		}),
		operating("Resume", 2, func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.Resume(ctx, client, path, "job")
		}),
		operating("SkipNext", 3, func(ctx context.Context, client *framework.Framework, path string) error {
			_, err := schedule.SkipNext(ctx, client, path, "job")
			return err
		}),
		operating("RunNow", 3, func(ctx context.Context, client *framework.Framework, path string) error {
			return schedule.RunNow(ctx, client, path, "job")
		}),
		{Name: "Run: leave", Of: []string{"Scheduler.Run"}, Requests: 17, Spares: 3, Prepare: leaving, May: pending},
	}
}
