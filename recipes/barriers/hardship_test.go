// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls, knownHardships) }

func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, hardshipCalls, nil) }

var hardshipCalls = []hardship.Call{
	barrierRow("SetBarrier", 2, func(ctx context.Context, b *barriers.DistributedBarrier) error { return b.SetBarrier(ctx) }),
	barrierRow("RemoveBarrier", 1, func(ctx context.Context, b *barriers.DistributedBarrier) error { return b.RemoveBarrier(ctx) }),
	barrierRow("WaitOnBarrier", 2, func(ctx context.Context, b *barriers.DistributedBarrier) error { return b.WaitOnBarrier(ctx) }),
	{Name: "Enter", Of: []string{"DistributedDoubleBarrier.Enter"}, Requests: 7, May: mayLoseItsSession, Prepare: entering},
	{Name: "Leave", Of: []string{"DistributedDoubleBarrier.Leave"}, Requests: 7, Prepare: leaving},
}

// mayLoseItsSession allows for the end of the session in which a member waits.
func mayLoseItsSession(err error) bool {
	var lost *framework.LostError
	return errors.As(err, &lost) || errors.Is(err, framework.ErrSessionEnded) || errors.Is(err, framework.ErrSessionExpired)
}

// barrierRow is a call of a barrier that the rival has set, and removes while the call waits.
func barrierRow(method string, requests int, made func(context.Context, *barriers.DistributedBarrier) error) hardship.Call {
	return hardship.Call{
		Name: method, Of: []string{"DistributedBarrier." + method}, Requests: requests,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			ours := must.Get(barriers.NewDistributedBarrier(s.Ours, s.Path))(s.T)
			theirs := must.Get(barriers.NewDistributedBarrier(s.Theirs, s.Path))(s.T)
			require.NoError(s.T, theirs.SetBarrier(context.Background()))
			s.Later = func() { require.NoError(s.T, theirs.RemoveBarrier(context.Background())) }
			return func(ctx context.Context) error { return made(ctx, ours) }
		},
	}
}

// rival is the member of a rival, which comes while the call waits and goes in the end.
type rival struct {
	s    *hardship.Stage
	stop context.CancelFunc
	ctx  context.Context //nolint:containedctx // of what it does
	all  sync.WaitGroup
}

func newRival(s *hardship.Stage) *rival {
	r := &rival{s: s}
	r.ctx, r.stop = context.WithCancel(context.Background())
	s.T.Cleanup(r.end)
	return r
}

func (r *rival) does(what func(ctx context.Context)) { r.all.Go(func() { what(r.ctx) }) }

func (r *rival) end() {
	r.stop()
	r.all.Wait()
}

func doubleAt(s *hardship.Stage, client *framework.Framework) *barriers.DistributedDoubleBarrier {
	b := must.Get(barriers.NewDistributedDoubleBarrier(client, s.Path, 2))(s.T)
	return b
}

// entering is a call of a member that waits for a second one. The member leaves at the end of
// the row; the members of a crowd leave at once. The rival leaves as soon as it has entered.
func entering(s *hardship.Stage) func(context.Context) error {
	r := newRival(s)
	var mu sync.Mutex
	var inside []*barriers.DistributedDoubleBarrier
	s.Later = func() {
		r.does(func(ctx context.Context) {
			if b := doubleAt(s, s.Theirs); b.Enter(ctx) == nil {
				_ = b.Leave(ctx) // it has left, whether it hears that all have or not
			}
		})
	}
	s.End = func(error) {
		mu.Lock()
		defer mu.Unlock()
		var all sync.WaitGroup
		for _, b := range inside {
			all.Go(func() { require.NoError(s.T, b.Leave(context.Background()), s.Name) })
		}
		all.Wait()
		r.end()
		inside = nil
	}
	s.Rival = r.end
	return func(ctx context.Context) error {
		b := doubleAt(s, s.Ours)
		err := b.Enter(ctx)
		switch {
		case err != nil:
			return err
		case s.Crowd:
			_ = b.Leave(ctx) // see above
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		inside = append(inside, b)
		return nil
	}
}

// leaving is a call of a member that has entered with one of the rival, which leaves later.
// The members of a crowd enter first.
func leaving(s *hardship.Stage) func(context.Context) error {
	if s.Crowd {
		return entering(s)
	}
	r := newRival(s)
	ours, theirs := doubleAt(s, s.Ours), doubleAt(s, s.Theirs)
	entered := make(chan error, 1)
	go func() { entered <- theirs.Enter(context.Background()) }()
	require.NoError(s.T, ours.Enter(context.Background()))
	require.NoError(s.T, <-entered)
	s.Later = func() {
		r.does(func(ctx context.Context) { _ = theirs.Leave(ctx) }) // as above
	}
	s.End = func(error) { r.end() }
	s.Rival = r.end
	return ours.Leave
}
