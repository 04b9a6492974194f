package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/hardship"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, cacheCalls(), knownHardships) }

// TestEveryFaultAtEveryRequest makes every call of the package with every fate of every request.
func TestEveryFaultAtEveryRequest(t *testing.T) { hardship.EveryFault(t, cacheCalls()) }

func TestEveryCallHasHardships(t *testing.T) { hardship.Complete(t, cacheCalls(), nil) }

// cacheCalls are the calls of the package, with persistent watches and with one-shot watches.
func cacheCalls() []hardship.Call {
	var calls []hardship.Call
	for _, k := range []struct {
		name     string
		oneShot  bool
		requests [3]int
	}{
		{"", false, [3]int{2, 1, 6}},
		{" on one-shot watches", true, [3]int{2, 1, 9}},
	} {
		with := func(prepare func(*scene) func(context.Context) error) func(*hardship.Stage) func(context.Context) error {
			return func(s *hardship.Stage) func(context.Context) error { return prepare(newScene(s, k.oneShot)) }
		}
		calls = append(calls,
			hardship.Call{Name: "Fresh after a change" + k.name, Of: []string{"CuratorCache.Fresh"}, Requests: k.requests[0], Prepare: with((*scene).freshAfterAChange)},
			hardship.Call{Name: "WaitFor a change" + k.name, Of: []string{"CuratorCache.WaitFor"}, Requests: k.requests[1], Prepare: with((*scene).waitForAChange)},
			hardship.Call{Name: "Start, Fresh and Close" + k.name, Of: []string{"CuratorCache.Fresh"}, Requests: k.requests[2], Prepare: with((*scene).fill)},
		)
	}
	return calls
}

// scene is a tree on a stage.
type scene struct {
	*hardship.Stage

	oneShot bool
	writes  atomic.Int32
}

func newScene(s *hardship.Stage, oneShot bool) *scene {
	_, err := s.Theirs.Create(context.Background(), s.Path+"/a", nil, framework.CreatingParentsIfNeeded())
	require.NoError(s.T, err)
	return &scene{Stage: s, oneShot: oneShot}
}

// refuseWatches has the server refuse persistent watches until the returned function runs.
func (s *scene) refuseWatches() (allow func()) {
	const unimplemented = -6
	if !s.oneShot {
		return func() {}
	}
	return s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpAddWatch {
			return zkserver.FailWith(unimplemented)
		}
		return zkserver.Pass
	})
}

// following returns a cache of the tree whose picture is full. When the call has ended the
// cache must become equal to the tree; it is closed then.
func (s *scene) following() *cache.CuratorCache {
	allow := s.refuseWatches()
	c, err := cache.NewCuratorCache(s.Ours, s.Path)
	require.NoError(s.T, err)
	require.NoError(s.T, c.Start())
	require.NoError(s.T, c.Fresh(context.Background()))
	allow()
	s.End = func(error) {
		if err := s.sees(context.Background(), c, s.write()); !errors.Is(err, framework.ErrClosed) {
			require.NoError(s.T, err, s.Name)
		}
		require.NoError(s.T, c.Close())
	}
	return c
}

// write changes the tree and returns the transaction.
func (s *scene) write() (mzxid int64) {
	var stat framework.Stat
	data := fmt.Append(nil, s.writes.Add(1))
	if err := s.Theirs.Set(context.Background(), s.Path+"/a", data, framework.StoringStatIn(&stat)); err != nil {
		s.T.Errorf("%s: the rival's write: %v", s.Name, err)
	}
	return stat.Mzxid
}

var errStale = errors.New("the picture is older than a write before Fresh")

// sees reports whether the picture contains a write after Fresh.
func (s *scene) sees(ctx context.Context, c *cache.CuratorCache, mzxid int64) error {
	if err := c.Fresh(ctx); err != nil {
		return err
	}
	if data, found := c.Get(s.Path + "/a"); found && data.Stat.Mzxid >= mzxid || !found && s.Refused {
		return nil
	}
	return errStale
}

func (s *scene) freshAfterAChange() func(context.Context) error {
	c := s.following()
	return func(ctx context.Context) error { return s.sees(ctx, c, s.write()) }
}

func (s *scene) waitForAChange() func(context.Context) error {
	c := s.following()
	s.Later = func() { s.write() }
	return func(ctx context.Context) error {
		return c.WaitFor(ctx, func(c *cache.CuratorCache) bool {
			data, found := c.Get(s.Path + "/a")
			return found && data.Stat.Version > 0 || !found && s.Refused
		})
	}
}

func (s *scene) fill() func(context.Context) error {
	allow := s.refuseWatches()
	s.End = func(error) { allow() }
	return func(ctx context.Context) error {
		c, err := cache.NewCuratorCache(s.Ours, s.Path)
		if err != nil {
			return err
		}
		err = c.Start()
		if err == nil {
			err = c.Fresh(ctx)
		}
		if size := c.Size(); err == nil && size != 2 && !s.Refused {
			err = fmt.Errorf("%d znodes in the picture, expected 2", size)
		}
		return errors.Join(err, c.Close())
	}
}
