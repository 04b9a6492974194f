// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestConvergence has a writer run random programs on a small tree, while the connection of the
// client with the cache suffers. In the end the cache must equal the part of the tree that its
// limits select, and so must the stream of its listener when it is replayed. On the way the
// listener must have been told only states that the server had, of each path in the server's
// order, and none twice. The cache must have read nothing that it does not keep.
func TestConvergence(t *testing.T) {
	programs := 60
	if testing.Short() {
		programs = 25
	}
	for _, version := range []string{"3.8.0", old} {
		for seed := range programs {
			t.Run(fmt.Sprintf("%s/%d", version, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newProgram(t, version, uint64(seed)).run() })
			})
		}
	}
}

type program struct {
	*testing.T
	rng              *rand.Rand
	server           *zkserver.Server
	writer, follower *framework.Framework
	cache            *cache.CuratorCache
	told             *record
	limits           limited
	names            []string        // of the tree
	forbidden        func() []string // requests
	heal             []func()
	began            int64                       // the history of the follower at the start
	history          map[string]map[int64]string // data by path and mzxid
}

func newProgram(t *testing.T, version string, seed uint64) *program {
	t.Helper()
	p := &program{T: t, rng: rand.New(rand.NewPCG(seed, 0)), history: map[string]map[int64]string{}}
	p.server = zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
	t.Cleanup(func() { zktest.AssertClean(t, p.server) })
	p.writer, p.follower = zktest.Client(t, p.server), zktest.Client(t, p.server)
	p.limits, p.names = allLimits[0], names
	if seed%2 == 1 { // the other half has no limits
		p.limits, p.names = allLimits[1+seed/2%uint64(len(allLimits)-1)], everywhere
	}
	p.forbidden = p.limits.watchReads(t, p.server, p.writer)
	p.cache = newCache(t, p.follower, "/tree", p.limits.opts...)
	p.told = listenTo(p.cache)
	return p
}

func (p *program) run() {
	for range p.rng.IntN(8) {
		p.write()
	}
	p.began = p.follower.History()
	require.NoError(p, p.cache.Start())
	for range 40 {
		switch p.rng.IntN(10) {
		case 0, 1:
			p.hurt()
		case 2:
			time.Sleep(time.Duration(p.rng.IntN(3000)) * time.Millisecond)
		case 3:
			p.restore()
		default:
			p.write()
		}
	}
	p.restore()
	fresh(p, p.cache)
	p.judge()
	require.NoError(p, p.cache.Close())
	require.Empty(p, p.forbidden(), p.limits.name)
}

var names = []string{"/tree", "/tree/a", "/tree/a/x", "/tree/a/y", "/tree/b", "/tree/b/x"}

// write makes a change that may fail for what is there or not.
func (p *program) write() {
	path := p.names[p.rng.IntN(len(p.names))]
	data := strconv.Itoa(p.rng.IntN(1000))
	ctx := zktest.Context(p)
	switch p.rng.IntN(4) {
	case 0, 1:
		var stat framework.Stat
		if _, err := p.writer.Create(ctx, path, []byte(data), framework.StoringStatIn(&stat)); err == nil {
			p.remember(path, data, &stat)
		}
	case 2:
		var stat framework.Stat
		if err := p.writer.Set(ctx, path, []byte(data), framework.StoringStatIn(&stat)); err == nil {
			p.remember(path, data, &stat)
		}
	default:
		_ = p.writer.Delete(ctx, path) // or it is not there, or has children
	}
}

func (p *program) remember(path, data string, stat *framework.Stat) {
	if p.history[path] == nil {
		p.history[path] = map[int64]string{}
	}
	p.history[path][stat.Mzxid] = data
}

// hurt does something to the follower.
func (p *program) hurt() {
	id := p.follower.Session().ID()
	switch p.rng.IntN(6) {
	case 0:
		p.server.Cut(id, 1+p.rng.IntN(3))
	case 1:
		p.server.KillSession(id)
	case 2:
		p.heal = append(p.heal, p.server.Blackhole(id, zkserver.Both))
	case 3:
		p.heal = append(p.heal, p.server.Refuse())
		p.server.Cut(id, 1)
	case 4:
		fault := []zkserver.Fault{zkserver.LoseReply, zkserver.LoseRequest, zkserver.Delay(time.Second), zkserver.FailWith(-127)}[p.rng.IntN(4)]
		left := 1 + p.rng.IntN(3)
		p.heal = append(p.heal, p.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if left == 0 || r.SessionID != id || r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession {
				return zkserver.Pass
			}
			left--
			return fault
		}))
	default:
		p.heal = append(p.heal, p.server.FreezeReads(id))
	}
}

func (p *program) restore() {
	for _, heal := range p.heal {
		heal()
	}
	p.heal = nil
}

// judge compares the picture, the replayed stream and the tree.
func (p *program) judge() {
	tree := map[string]framework.Stat{}
	for _, path := range p.names {
		var stat framework.Stat
		var absent bool
		must.Get(p.writer.Get(zktest.Context(p), path, framework.StoringStatIn(&stat), framework.StoringAbsenceIn(&absent)))(p)
		if !absent && p.limits.keeps(path) {
			tree[path] = stat
		}
	}
	shown := map[string]framework.Stat{}
	for path, data := range p.cache.Stream() {
		shown[path] = data.Stat
		require.Equal(p, p.history[path][data.Stat.Mzxid], string(data.Data), path)
	}
	requireSameNodes(p, tree, shown, "the picture")
	told := p.replay(p.told)
	for path, stat := range told {
		// What a listener is not told: that a later history has the same data, with other numbers.
		same := p.history[path][stat.Mzxid] == p.history[path][tree[path].Mzxid]
		if _, found := tree[path]; found && same && p.follower.History() != p.began {
			told[path] = tree[path]
		}
	}
	requireSameNodes(p, tree, told, "the stream")
}

func requireSameNodes(p *program, want, got map[string]framework.Stat, what string) {
	require.ElementsMatch(p, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), what)
	for path, stat := range want {
		require.Equal(p, stat.Czxid, got[path].Czxid, "%s: %s", what, path)
		require.Equal(p, stat.Mzxid, got[path].Mzxid, "%s: %s", what, path)
	}
}

// replay does what a listener was told, and checks it against the history.
func (p *program) replay(told *record) map[string]framework.Stat {
	synctest.Wait() // the listener has been told everything
	at := map[string]framework.Stat{}
	newest := map[string]int64{}
	initialized := 0
	for len(told.events) > 0 {
		e := <-told.events
		have, found := at[e.Path]
		switch e.Type {
		case cache.Initialized:
			initialized++
			continue
		case cache.NodeCreated:
			require.False(p, found, "%s was there", line(e))
			require.Nil(p, e.Old)
		default:
			require.True(p, found, "%s was not there", line(e))
			require.Equal(p, have, e.Old.Stat, line(e))
		}
		if e.Type == cache.NodeDeleted {
			delete(at, e.Path)
			continue
		}
		require.Greater(p, e.New.Stat.Mzxid, newest[e.Path], "%s is older than what was told before, or the same", line(e))
		require.Equal(p, p.history[e.Path][e.New.Stat.Mzxid], string(e.New.Data), "the server had no %s", line(e))
		newest[e.Path] = e.New.Stat.Mzxid
		at[e.Path] = e.New.Stat
	}
	require.Equal(p, 1, initialized)
	return at
}
