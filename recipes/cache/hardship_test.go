// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, cacheCalls(), knownHardships) }

// TestHardshipsAtEveryRequest makes every call of the package with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, cacheCalls()) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, cacheCalls(), nil) }

// cacheCalls are the calls of the package, with persistent watches and with one-shot watches, with
// limits and without.
func cacheCalls() []hardship.Call {
	var calls []hardship.Call
	for _, k := range []struct {
		name     string
		kind     kind
		requests [3]int
	}{
		{"", kind{}, [3]int{2, 1, 6}},
		{" on one-shot watches", kind{oneShot: true}, [3]int{2, 1, 9}},
		{" of children only", kind{limited: true}, [3]int{2, 1, 5}},
		{" of children only on one-shot watches", kind{oneShot: true, limited: true}, [3]int{2, 1, 7}},
	} {
		with := func(prepare func(*scene) func(context.Context) error) func(*hardship.Stage) func(context.Context) error {
			return func(s *hardship.Stage) func(context.Context) error { return prepare(newScene(s, k.kind)) }
		}
		calls = append(calls,
			hardship.Call{Name: "Fresh after a change" + k.name, Of: []string{"CuratorCache.Fresh"}, Requests: k.requests[0], Prepare: with((*scene).freshAfterAChange)},
			hardship.Call{Name: "WaitFor a change" + k.name, Of: []string{"CuratorCache.WaitFor"}, Requests: k.requests[1], Prepare: with((*scene).waitForAChange)},
			hardship.Call{Name: "Start, Fresh and Close" + k.name, Of: []string{"CuratorCache.Fresh"}, Requests: k.requests[2], Prepare: with((*scene).fill)},
		)
	}
	return calls
}

// kind is a kind of cache.
type kind struct{ oneShot, limited bool }

// scene is a tree on a stage.
type scene struct {
	*hardship.Stage
	kind

	writes atomic.Int32
}

func newScene(s *hardship.Stage, k kind) *scene {
	paths := []string{"/a"}
	if k.limited { // and some that the cache leaves out
		paths = []string{"/a", "/a/x", "/b", "/b/x"}
	}
	for _, path := range paths {
		must.Get(s.Theirs.Create(context.Background(), s.Path+path, nil, framework.CreatingParentsIfNeeded()))(s.T)
	}
	return &scene{Stage: s, kind: k}
}

// newCache returns a cache of this kind and how many znodes it finds.
func (s *scene) newCache() (c *cache.CuratorCache, znodes int, err error) {
	if !s.limited {
		c, err = cache.NewCuratorCache(s.Ours, s.Path)
		return c, 2, err
	}
	c, err = cache.NewCuratorCache(s.Ours, s.Path, cache.WithChildrenOnly(), cache.WithSelector(skips))
	return c, 1, err
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
	c, _, err := s.newCache()
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
		c, znodes, err := s.newCache()
		if err != nil {
			return err
		}
		err = c.Start()
		if err == nil {
			err = c.Fresh(ctx)
		}
		if size := c.Size(); err == nil && size != znodes && !s.Refused {
			err = fmt.Errorf("%d znodes in the picture, expected %d", size, znodes)
		}
		return errors.Join(err, c.Close())
	}
}
