// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/recipes/partition"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"New":                  "it makes no request",
	"Partition.ReportLoad": "it makes no request, and the write that follows waits in the background",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), map[string]string{}) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

// scene is one run of a call, with the members that it has started.
type scene struct {
	*hardship.Stage

	mu      sync.Mutex
	count   int
	members []*running
}

// running is a member in a group of its own: what a member costs grows with its group.
type running struct {
	*partition.Member

	cancel context.CancelFunc
	held   chan struct{} // closed when it has both partitions
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

// start runs a member of a new group with two partitions.
func (c *scene) start(opts ...partition.Option) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	member, err := partition.New(c.Ours, fmt.Sprintf("%s/group-%d", c.Path, c.count), partition.Fixed("a", "b"),
		append(opts, partition.WithID("m"))...)
	require.NoError(c.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &running{Member: member, cancel: cancel, held: make(chan struct{}), ended: make(chan struct{})}
	c.members = append(c.members, m)
	var mu sync.Mutex
	got := make(map[string]bool)
	go func() {
		defer close(m.ended)
		m.err = member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			mu.Lock()
			if !got[p.Name] && len(got) == 1 {
				close(m.held)
			}
			got[p.Name] = true
			mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	return m
}

// until waits until a member has both partitions.
func (m *running) until(ctx context.Context) error {
	select {
	case <-m.held:
		return nil
	case <-m.ended:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
	}
}

// stop ends a member, and returns an error that is not the end of its context.
func (m *running) stop() error {
	m.cancel()
	<-m.ended
	if errors.Is(m.err, context.Canceled) && !strings.Contains(m.err.Error(), "leave: ") {
		return nil
	}
	return m.err
}

func (c *scene) stopAll() {
	c.mu.Lock()
	members := c.members
	c.members = nil
	c.mu.Unlock()
	for _, m := range members {
		m.cancel()
	}
	for _, m := range members {
		<-m.ended
	}
}

// requireNothing waits until no member and no lock is left. A plan is left if the server has
// refused to delete it, or if the client is closed.
func (c *scene) requireNothing() {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		left := c.Ephemerals()
		if len(left) == 0 {
			return
		}
		require.True(c.T, time.Now().Before(deadline), "%s: %q are left", c.Name, left)
	}
}

// limit is when all that is left has gone: the session of a closed client has ended.
const limit = 2 * time.Minute

// joining runs a member until it has its partitions.
func joining(opts ...partition.Option) func(s *hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		return func(ctx context.Context) error {
			m := c.start(opts...)
			err := m.until(ctx)
			if err != nil || s.Crowd {
				m.cancel()
			}
			return err
		}
	}
}

func prepare() partition.Option {
	return partition.WithStandbys(1, func(context.Context, string) error { return nil })
}

// leaving ends the Run of a member that has its partitions.
func leaving(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	m := c.start()
	require.NoError(s.T, m.until(context.Background()), s.Name)
	return func(ctx context.Context) error {
		result := make(chan error, 1)
		go func() { result <- m.stop() }()
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
		}
	}
}

// reading asks who has what in a group of a rival.
func reading(read func(ctx context.Context, c *scene, path string) (partition.Assignment, error)) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		ours := s.Ours
		s.Ours = s.Theirs
		m := c.start()
		s.Ours = ours
		require.NoError(s.T, m.until(context.Background()), s.Name)
		return func(ctx context.Context) error {
			a, err := read(ctx, c, m.Path())
			if err == nil && (len(a.Members) != 1 || a.Members[0].Held != 2) {
				s.T.Errorf("%s: %+v, expected one member with two partitions", s.Name, a)
			}
			return err
		}
	}
}

// ordering writes an order for a group of its own twice, so that the second one finds a znode.
func ordering(order func(ctx context.Context, s *hardship.Stage, group string) error) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		newScene(s)
		var groups atomic.Int32
		return func(ctx context.Context) error {
			group := fmt.Sprintf("%s/group-%d", s.Path, groups.Add(1))
			if _, err := s.Theirs.Create(context.Background(), group, nil); err != nil {
				return err
			}
			return errors.Join(order(ctx, s, group), order(ctx, s, group))
		}
	}
}

// draining drains a member that has no partition, in a group of its own.
func draining(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	member, err := partition.New(s.Ours, s.Path+"/group", partition.Fixed())
	require.NoError(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &running{Member: member, cancel: cancel, ended: make(chan struct{})}
	c.members = append(c.members, m)
	go func() {
		defer close(m.ended)
		m.err = member.Run(ctx, func(context.Context, partition.Partition) error { return nil })
	}()
	for {
		a, err := partition.Read(ctx, s.Theirs, member.Path())
		if err == nil && len(a.Members) == 1 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return member.Drain
}

// pending lets a Run return before the server has confirmed that its member is gone.
func pending(err error) bool { return errors.Is(err, framework.ErrCleanupPending) }

func hardshipCalls() []hardship.Call {
	return []hardship.Call{
		{Name: "Run: join", Of: []string{"Member.Run"}, Requests: 38, Spares: 6, Prepare: joining(), Heap: 256 << 10},
		{
			Name: "Run: join, prepare", Of: []string{"Member.Run"}, Requests: 38, Spares: 6, Prepare: joining(partition.WithZone("zone"), prepare()),
			Heap: 256 << 10,
		},
		{Name: "Run: leave", Of: []string{"Member.Run"}, Requests: 16, Spares: 3, Prepare: leaving, May: pending},
		{
			Name: "Assignment", Of: []string{"Member.Assignment"}, Requests: 12, Spares: 2,
			Prepare: reading(func(ctx context.Context, c *scene, path string) (partition.Assignment, error) {
				member, err := partition.New(c.Ours, path, partition.Fixed("a"))
				require.NoError(c.T, err)
				return member.Assignment(ctx)
			}),
		},
		{
			Name: "Forget", Of: []string{"Forget"}, Requests: 8, Spares: 1,
			Prepare: func(s *hardship.Stage) func(context.Context) error {
				for _, path := range []string{"/plan", "/plan/dead"} {
					_, err := s.Theirs.Create(context.Background(), s.Path+path, []byte("{}"), framework.CreatingParentsIfNeeded())
					require.NoError(s.T, err)
				}
				return func(ctx context.Context) error { return partition.Forget(ctx, s.Ours, s.Path) }
			},
		},
		{
			Name: "Member.Drain", Of: []string{"Member.Drain"}, Requests: 7, Spares: 3, Prepare: draining,
		},
		{
			Name: "Drain", Of: []string{"Drain"}, Requests: 6, Spares: 2, Prepare: ordering(func(ctx context.Context, s *hardship.Stage, group string) error {
				return partition.Drain(ctx, s.Ours, group, "m", true)
			}),
		},
		{
			Name: "Pin", Of: []string{"Pin"}, Requests: 6, Spares: 2, Prepare: ordering(func(ctx context.Context, s *hardship.Stage, group string) error {
				return partition.Pin(ctx, s.Ours, group, "a", "m")
			}),
		},
		{
			Name: "Exclude", Of: []string{"Exclude"}, Requests: 6, Spares: 2, Prepare: ordering(func(ctx context.Context, s *hardship.Stage, group string) error {
				return partition.Exclude(ctx, s.Ours, group, "a", true)
			}),
		},
		{
			Name: "Read", Of: []string{"Read"}, Requests: 12, Spares: 2,
			Prepare: reading(func(ctx context.Context, c *scene, path string) (partition.Assignment, error) {
				return partition.Read(ctx, c.Ours, path)
			}),
		},
	}
}
