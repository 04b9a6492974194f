// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

// The kinds of events of the followers of a tree. Owner names the follower.
const (
	told      eventKind = "told"      // Value has sightings, in the order in which they were told
	pictured  eventKind = "pictured"  // Value has a picture
	concluded eventKind = "concluded" // Value has a picture without nodes: all that was told is recorded, and must be equal to it
)

// treeItself is the owner of pictures that were read from the servers, without a cache.
const treeItself = "the tree itself"

// sighting is a state of a path that a follower was told, or has in its picture.
type sighting struct {
	Kind  sightingKind `json:"kind,omitempty"` // of what was told
	Path  string       `json:"path"`
	Czxid int64        `json:"czxid,omitempty"`
	Mzxid int64        `json:"mzxid,omitempty"` // 0: there is no node
	Old   int64        `json:"old,omitempty"`   // mzxid of the state that this one replaces, as far as the follower says
	Data  string       `json:"data,omitempty"`
	At    int64        `json:"at,omitempty"` // when it was told
}

// sightingKind is what a follower calls a sighting.
type sightingKind string

const (
	sawCreated sightingKind = "created"
	sawChanged sightingKind = "changed"
	sawDeleted sightingKind = "deleted"
	sawState   sightingKind = "state"   // of a loop, which does not say what has changed
	sawTrouble sightingKind = "trouble" // after which a loop may repeat the last state
)

func sightingOf(path string, stat *framework.Stat, data []byte) sighting {
	return sighting{Path: path, Czxid: stat.Czxid, Mzxid: stat.Mzxid, Data: string(data)}
}

// treePicture is what a cache has of the tree.
type treePicture struct {
	Root  string     `json:"root"`            // or a pattern of package path
	Deep  bool       `json:"deep,omitempty"`  // with all below the root
	Since int64      `json:"since,omitempty"` // a transaction that was committed before the picture was made fresh
	Nodes []sighting `json:"nodes,omitempty"`
}

// covers reports whether a path would be in the picture.
func (p *treePicture) covers(name string) bool {
	if p.Deep && strings.HasPrefix(name, p.Root+"/") {
		return true
	}
	match, err := path.Match(p.Root, name)
	return match && err == nil
}

// statesOf is what a cache has.
func statesOf(c *cache.CuratorCache) (nodes []sighting) {
	for path, data := range c.Stream() {
		nodes = append(nodes, sightingOf(path, &data.Stat, data.Data))
	}
	return nodes
}

// below are the nodes that have this path.
func below(nodes []sighting, path string) (same []sighting) {
	for _, n := range nodes {
		if n.Path == path {
			same = append(same, n)
		}
	}
	return same
}

// news is what one follower is told.
type news struct {
	id   string
	root string
	deep bool

	mu       sync.Mutex
	unsaved  []sighting
	newest   int64            // transaction
	states   map[string]int64 // mzxid by path, as told
	progress chan struct{}    // closed with the next sighting
}

func newNews(id, root string, deep bool) *news {
	return &news{id: id, root: root, deep: deep, states: make(map[string]int64), progress: make(chan struct{})}
}

// tell is called by the follower.
func (n *news) tell(s sighting) {
	s.At = monotonic()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsaved, n.newest = append(n.unsaved, s), max(n.newest, s.Mzxid)
	switch {
	case s.Kind == sawTrouble:
	case s.Kind == sawDeleted, s.Mzxid == 0:
		delete(n.states, s.Path)
	default:
		n.states[s.Path] = s.Mzxid
	}
	close(n.progress)
	n.progress = make(chan struct{})
}

func (n *news) heard() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.newest
}

// writeDown records what was told since the last time.
func (n *news) writeDown(w *worker) {
	n.mu.Lock()
	unsaved := n.unsaved
	n.unsaved = nil
	n.mu.Unlock()
	if len(unsaved) > 0 {
		w.record(told, 0, n.id, unsaved)
	}
}

// conclude waits until what was told leads to these states, for a while, and records all of it.
func (n *news) conclude(ctx context.Context, g *gardener, states []sighting) {
	ctx, cancel := context.WithTimeout(ctx, newsTime)
	defer cancel()
	want := make(map[string]int64)
	for _, s := range states {
		want[s.Path] = s.Mzxid
	}
	for {
		n.mu.Lock()
		equal, progress := maps.Equal(want, n.states), n.progress
		n.mu.Unlock()
		if !equal {
			select {
			case <-progress:
				continue
			case <-ctx.Done(): // the judge sees what is missing
			}
		}
		n.writeDown(g.worker)
		g.record(concluded, 0, n.id, treePicture{Root: n.root, Deep: n.deep, Since: g.seen})
		return
	}
}

// record adds an event of a follower. A picture has the time of the call that made it fresh.
func (w *worker) record(kind eventKind, called int64, follower string, value any) {
	e := event{Kind: kind, Called: called, Lock: w.spec.Name, Owner: follower}
	text, err := json.Marshal(value)
	if err != nil {
		e.Error = err.Error()
	}
	e.Value = string(text)
	w.client.history.add(e)
}

// followedCache is a cache with a listener.
type followedCache struct {
	cache *cache.CuratorCache
	told  *news
}

// follow starts a cache of a part of the tree.
func (g *gardener) follow(root string) error {
	c, err := cache.NewCuratorCache(g.client.framework, root)
	if err != nil {
		return err
	}
	g.started++
	f := &followedCache{cache: c, told: newNews(fmt.Sprintf("%s/cache-%d", g.name, g.started), root, true)}
	c.Listen(func(e cache.Event) {
		if e.Type != cache.Initialized {
			f.told.tell(sightingOfEvent(e))
		}
	})
	g.caches = append(g.caches, f)
	return c.Start()
}

func sightingOfEvent(e cache.Event) (s sighting) {
	if e.New != nil {
		s = sightingOf(e.Path, &e.New.Stat, e.New.Data)
	}
	if e.Old != nil {
		s.Old = e.Old.Stat.Mzxid
	}
	s.Path = e.Path
	s.Kind = map[cache.EventType]sightingKind{
		cache.NodeCreated: sawCreated, cache.NodeChanged: sawChanged, cache.NodeDeleted: sawDeleted,
	}[e.Type]
	return s
}

func (f *followedCache) stop() error { return f.cache.Close() }

// followedNode is a loop over the states of a node.
type followedNode struct {
	told *news
	end  context.CancelFunc
	done chan struct{}
}

// followNode starts a loop.
func (g *gardener) followNode(path string) *followedNode {
	ctx, end := context.WithCancel(g.client.ctx)
	g.started++
	f := &followedNode{told: newNews(fmt.Sprintf("%s/loop-%d", g.name, g.started), path, false), end: end, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for node, err := range g.client.framework.Follow(ctx, path) {
			s := sighting{Kind: sawState, Path: path}
			switch {
			case err != nil:
				s.Kind = sawTrouble
			case node.Exists():
				s = sightingOf(path, node.Stat, node.Data)
				s.Kind = sawState
			}
			f.told.tell(s)
		}
	}()
	return f
}

func (f *followedNode) stop() {
	f.end()
	<-f.done
}
