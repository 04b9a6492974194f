// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
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

// start runs a member of a group of its own, which wants two partitions: what a member costs grows with its group.
func start(b *hardship.Background, client *framework.Framework, opts ...partition.Option) (*partition.Member, *hardship.Running) {
	member := must.Get(partition.New(client, b.NextPath(), partition.Fixed("a", "b"), append(opts, partition.WithID("m"))...))(b.T)
	var mu sync.Mutex
	got := make(map[string]bool)
	return member, b.Start(func(ctx context.Context, ready func()) error {
		return member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			mu.Lock()
			if got[p.Name] = true; len(got) == 2 {
				ready()
			}
			mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
}

func ours(opts ...partition.Option) func(b *hardship.Background) *hardship.Running {
	return func(b *hardship.Background) *hardship.Running {
		_, r := start(b, b.Ours, opts...)
		return r
	}
}

func prepare() partition.Option {
	return partition.WithStandbys(1, func(context.Context, string) error { return nil })
}

// reading asks who has what in a group of a rival.
func reading(read func(ctx context.Context, s *hardship.Stage, path string) (partition.Assignment, error)) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		m, running := start(hardship.InBackground(s), s.Theirs)
		require.NoError(s.T, running.Until(context.Background()), s.Name)
		return func(ctx context.Context) error {
			a, err := read(ctx, s, m.Path())
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
		b := hardship.InBackground(s)
		return func(ctx context.Context) error {
			group := b.NextPath()
			if _, err := s.Theirs.Create(context.Background(), group, nil); err != nil {
				return err
			}
			return errors.Join(order(ctx, s, group), order(ctx, s, group))
		}
	}
}

// draining drains a member that has no partition, in a group of its own.
func draining(s *hardship.Stage) func(context.Context) error {
	b := hardship.InBackground(s)
	set := b.NextPath()
	must.Get(s.Theirs.Create(context.Background(), set, nil))(s.T)
	member := must.Get(partition.New(s.Ours, b.NextPath(), partition.Stored(set)))(s.T)
	b.Start(func(ctx context.Context, _ func()) error {
		return member.Run(ctx, func(context.Context, partition.Partition) error { return nil })
	})
	for {
		a, err := partition.Read(context.Background(), s.Theirs, member.Path())
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
		{Name: "Run: join", Of: []string{"Member.Run"}, Requests: 38, Spares: 6, Prepare: hardship.Begins(ours()), Heap: 256 << 10},
		{
			Name: "Run: join, prepare", Of: []string{"Member.Run"}, Requests: 38, Spares: 6, Prepare: hardship.Begins(ours(partition.WithZone("zone"), prepare())),
			Heap: 256 << 10,
		},
		{Name: "Run: leave", Of: []string{"Member.Run"}, Requests: 16, Spares: 3, Prepare: hardship.Ends(ours(), 0), May: pending},
		{
			Name: "Assignment", Of: []string{"Member.Assignment"}, Requests: 12, Spares: 2,
			Prepare: reading(func(ctx context.Context, s *hardship.Stage, path string) (partition.Assignment, error) {
				member := must.Get(partition.New(s.Ours, path, partition.Fixed("a")))(s.T)
				return member.Assignment(ctx)
			}),
		},
		{
			Name: "Forget", Of: []string{"Forget"}, Requests: 8, Spares: 1,
			Prepare: func(s *hardship.Stage) func(context.Context) error {
				for _, path := range []string{"/plan", "/plan/dead"} {
					must.Get(s.Theirs.Create(context.Background(), s.Path+path, []byte("{}"), framework.CreatingParentsIfNeeded()))(s.T)
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
			Prepare: reading(func(ctx context.Context, s *hardship.Stage, path string) (partition.Assignment, error) {
				return partition.Read(ctx, s.Ours, path)
			}),
		},
	}
}
