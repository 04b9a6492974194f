// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/atomic"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{
	crowd + "value: TrySet":          collides,
	crowd + "value: CompareAndSet":   collides,
	crowd + "value: Update":          collides,
	crowd + "counter: TrySet":        collides,
	crowd + "counter: CompareAndSet": collides,
}

const (
	crowd    = "many participants of one client, and one reset: "
	collides = "only additions share a write; other changes of a thousand goroutines collide, and each collision is two requests"
)

func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls, knownHardships) }

func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, hardshipCalls, nil) }

var hardshipCalls = []hardship.Call{
	valueRow("Get", 1, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		_, err := v.Get(ctx)
		return err
	}),
	valueRow("ForceSet", 1, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		return v.ForceSet(ctx, []byte("a"))
	}),
	valueRow("TrySet", 2, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		_, err := v.TrySet(ctx, []byte("a"))
		return err
	}),
	valueRow("CompareAndSet", 2, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		_, err := v.CompareAndSet(ctx, make([]byte, 8), make([]byte, 8))
		return err
	}),
	valueRow("Initialize", 1, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		_, err := v.Initialize(ctx, []byte("a"))
		return err
	}),
	valueRow("Update", 2, func(ctx context.Context, v *atomic.DistributedAtomicValue) error {
		_, err := v.Update(ctx, func(pre []byte) ([]byte, error) { return pre, nil })
		return err
	}),
	numberRow("Get", 1, func(ctx context.Context, n *atomic.DistributedAtomicLong) error {
		_, err := n.Get(ctx)
		return err
	}),
	numberRow("ForceSet", 1, func(ctx context.Context, n *atomic.DistributedAtomicLong) error { return n.ForceSet(ctx, 0) }),
	numberRow("Initialize", 1, func(ctx context.Context, n *atomic.DistributedAtomicLong) error {
		_, err := n.Initialize(ctx, 0)
		return err
	}),
	numberRow("CompareAndSet", 2, func(ctx context.Context, n *atomic.DistributedAtomicLong) error {
		_, err := n.CompareAndSet(ctx, 0, 0)
		return err
	}),
	numberRow("TrySet", 2, func(ctx context.Context, n *atomic.DistributedAtomicLong) error {
		_, err := n.TrySet(ctx, 0)
		return err
	}),
	countRow("Add", []string{"DistributedAtomicNumber.Add", "DistributedAtomicNumber.Increment"}, 2, 1, func(s *hardship.Stage) func(context.Context) error {
		long := longAt(s, s.Ours)
		return func(ctx context.Context) error { _, err := long.Increment(ctx); return err }
	}),
	promotedRow("Add under the lock", []string{"DistributedAtomicNumber.Add"}, 8, 1, func(s *hardship.Stage) func(context.Context) error {
		long := longAt(s, s.Ours, atomic.WithPromotedToLock(s.Path+"-lock", 0))
		return func(ctx context.Context) error { _, err := long.Add(ctx, 1); return err }
	}),
	countRow("Subtract", []string{"DistributedAtomicNumber.Subtract", "DistributedAtomicNumber.Decrement"}, 2, -1, func(s *hardship.Stage) func(context.Context) error {
		long := longAt(s, s.Ours)
		return func(ctx context.Context) error { _, err := long.Decrement(ctx); return err }
	}),
	countRow("Next", []string{"CachedAtomicNumber.Next"}, 2, 1, func(s *hardship.Stage) func(context.Context) error {
		cached := must.Get(atomic.NewCachedAtomicLong(longAt(s, s.Ours), 1))(s.T)
		return func(ctx context.Context) error { _, err := cached.Next(ctx); return err }
	}),
}

func longAt(s *hardship.Stage, client *framework.Framework, opts ...atomic.Option) *atomic.DistributedAtomicLong {
	long := must.Get(atomic.NewDistributedAtomicLong(client, s.Path, opts...))(s.T)
	return long
}

// valueRow is a call of a value whose znode the rival has created, with a zero.
func valueRow(method string, requests int, made func(context.Context, *atomic.DistributedAtomicValue) error) hardship.Call {
	return hardship.Call{
		Name: "value: " + method, Of: []string{"DistributedAtomicValue." + method}, Requests: requests, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			require.NoError(s.T, longAt(s, s.Theirs).ForceSet(context.Background(), 0))
			value := must.Get(atomic.NewDistributedAtomicValue(s.Ours, s.Path))(s.T)
			return func(ctx context.Context) error { return made(ctx, value) }
		},
	}
}

// numberRow is a call of a counter that the rival has set to zero, and that leaves it so.
func numberRow(method string, requests int, made func(context.Context, *atomic.DistributedAtomicLong) error) hardship.Call {
	return countRow(method, []string{"DistributedAtomicNumber." + method}, requests, 0, func(s *hardship.Stage) func(context.Context) error {
		long := longAt(s, s.Ours)
		return func(ctx context.Context) error { return made(ctx, long) }
	})
}

// promotedRow is a countRow whose call also ends when its lock is lost.
func promotedRow(name string, of []string, requests int, by int64, prepare func(s *hardship.Stage) func(context.Context) error) hardship.Call {
	row := countRow(name, of, requests, by, prepare)
	row.May = func(err error) bool {
		var lost *framework.LostError
		return framework.OutcomeUnknown(err) || errors.As(err, &lost)
	}
	return row
}

// countRow is a call that adds by to a counter. Those that succeed are counted, those whose
// outcome is unknown may be, and no other ones are.
func countRow(name string, of []string, requests int, by int64, prepare func(s *hardship.Stage) func(context.Context) error) hardship.Call {
	return hardship.Call{
		Name: "counter: " + name, Of: of, Requests: requests, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			theirs := longAt(s, s.Theirs)
			require.NoError(s.T, theirs.ForceSet(context.Background(), 0))
			made := prepare(s)
			var mu sync.Mutex
			var sure, unknown int64
			check := func() {
				mu.Lock()
				defer mu.Unlock()
				n, err := theirs.Get(context.Background())
				require.NoError(s.T, err, s.Name)
				require.GreaterOrEqual(s.T, n*by, sure*by*by, "%s: no addition is lost", s.Name)
				require.LessOrEqual(s.T, n*by, (sure+unknown)*by*by, "%s: no addition is made twice", s.Name)
			}
			s.End, s.Rival = func(error) { check() }, check
			return func(ctx context.Context) error {
				ended := false
				defer func() {
					if !ended { // user code has panicked, before or after the write
						mu.Lock()
						defer mu.Unlock()
						unknown++
					}
				}()
				err := made(ctx)
				ended = true
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					sure++
				case framework.OutcomeUnknown(err):
					unknown++
				}
				return err
			}
		},
	}
}
