// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/shared"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls, knownHardships) }

func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, hardshipCalls, nil) }

var hardshipCalls = []hardship.Call{
	{Name: "start a value", Of: []string{"SharedValue.Start"}, Requests: 4, Prepare: func(s *hardship.Stage) func(context.Context) error {
		return starting(s, func() startable {
			v := must.Get(shared.NewSharedValue(s.Ours, s.Path, []byte("a")))(s.T)
			return v
		})
	}},
	{Name: "start a count", Of: []string{"SharedCount.Start"}, Requests: 4, Prepare: func(s *hardship.Stage) func(context.Context) error {
		return starting(s, func() startable {
			c := must.Get(shared.NewSharedCount(s.Ours, s.Path, 1))(s.T)
			return c
		})
	}},
	setRow("SetValue", func(ctx context.Context, v *shared.SharedValue, _ *shared.SharedCount) error {
		return v.SetValue(ctx, []byte("abcd"))
	}),
	setRow("TrySetValue", func(ctx context.Context, v *shared.SharedValue, _ *shared.SharedCount) error {
		_, err := v.TrySetValue(ctx, v.VersionedValue(), []byte("abcd"))
		return err
	}),
	setRow("SetCount", func(ctx context.Context, _ *shared.SharedValue, c *shared.SharedCount) error {
		return c.SetCount(ctx, 2)
	}),
	setRow("TrySetCount", func(ctx context.Context, _ *shared.SharedValue, c *shared.SharedCount) error {
		now, err := c.VersionedCount()
		if err == nil {
			_, err = c.TrySetCount(ctx, now, 2)
		}
		return err
	}),
}

type startable interface {
	Start(ctx context.Context) error
	Close() error
}

// starting is a call of Start of a new value each time. What is started is closed in the end.
func starting(s *hardship.Stage, open func() startable) func(context.Context) error {
	must.Get(s.Theirs.Create(context.Background(), s.Path, []byte{0, 0, 0, 1}))(s.T)
	var mu sync.Mutex
	var all []startable
	s.End = func(error) {
		mu.Lock()
		defer mu.Unlock()
		for _, each := range all {
			require.NoError(s.T, each.Close())
		}
	}
	s.Rival = func() { s.End(nil) }
	return func(ctx context.Context) error {
		each := open()
		mu.Lock()
		all = append(all, each)
		mu.Unlock()
		return each.Start(ctx)
	}
}

// setRow is a call of a value, or of a count at the same znode, that was started. The value
// and the count both read what has changed, and may share a request.
func setRow(method string, made func(context.Context, *shared.SharedValue, *shared.SharedCount) error) hardship.Call {
	of := "SharedValue." + method
	if method == "SetCount" || method == "TrySetCount" {
		of = "SharedCount." + method
	}
	return hardship.Call{
		Name: method, Of: []string{of}, Requests: 3, Spares: 1, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			v := must.Get(shared.NewSharedValue(s.Ours, s.Path, []byte{0, 0, 0, 1}))(s.T)
			require.NoError(s.T, v.Start(context.Background()))
			c := must.Get(shared.NewSharedCount(s.Ours, s.Path, 1))(s.T)
			require.NoError(s.T, c.Start(context.Background()))
			s.End = func(error) { require.NoError(s.T, errors.Join(v.Close(), c.Close())) }
			s.Rival = func() { s.End(nil) }
			return func(ctx context.Context) error { return made(ctx, v, c) }
		},
	}
}
